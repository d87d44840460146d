"""The batches of facebookresearch/dlrm_datasets: one file of PyTorch tensors `(indices, offsets, lengths)`.

T features times B examples, feature by feature: `lengths[t, b]` ids start at `indices[offsets[t * B + b]]`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from emplace.executor.traces.trace import CHUNK_EXAMPLES, Ints, refuse_bad_ids, unreadable
from emplace.placement.pointer import pointer_to

_INTEGERS = (torch.int32, torch.int64)


class TensorTrace:
    """The file is mapped into memory, so that only the pages in use are held."""

    features = None

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        self._ids, self._offsets, self._lengths = _tensors(path)
        self.num_features, self.examples = self._lengths.shape

    def chunks(self, feature: int) -> Iterator[tuple[Ints, Ints]]:
        for start in range(0, self.examples, CHUNK_EXAMPLES):
            end = min(start + CHUNK_EXAMPLES, self.examples)
            lengths = self._lengths[feature, start:end].numpy().astype(np.int64)
            bounds = self._offsets[feature * self.examples + start : feature * self.examples + end + 1].numpy().astype(np.int64)
            if (lengths < 0).any() or (np.diff(bounds) != lengths).any() or bounds[0] < 0 or bounds[-1] > len(self._ids):
                raise unreadable(self.source, f"the offsets and lengths of feature {feature} disagree")
            ids = self._ids[bounds[0] : bounds[-1]].numpy().astype(np.int64)
            refuse_bad_ids(self.source, pointer_to(feature), ids)
            yield lengths, ids


def _tensors(path: Path) -> tuple[Any, Any, Any]:
    if not zipfile.is_zipfile(path):
        raise unreadable(path, "is not in the zip format that torch.save writes since PyTorch 1.6; load and save it again")
    try:
        found = torch.load(path, mmap=True, weights_only=True)
    except Exception as error:  # torch raises whatever its parser stumbles over
        raise unreadable(path, f"can't be read as tensors: {str(error).splitlines()[0]}") from None
    if not (isinstance(found, (tuple, list)) and len(found) == 3 and all(isinstance(each, torch.Tensor) for each in found)):
        raise unreadable(path, "must hold three tensors: indices, offsets, lengths")
    ids, offsets, lengths = found
    if any(each.dtype not in _INTEGERS for each in found) or (ids.dim(), offsets.dim(), lengths.dim()) != (1, 1, 2):
        raise unreadable(path, "must hold integers: indices [N], offsets [T * B + 1], lengths [T, B]")
    if not lengths.numel():
        raise unreadable(path, "has no examples" if len(lengths) else "has no features")
    if len(offsets) != lengths.numel() + 1:
        raise unreadable(path, f"{lengths.shape[0]} x {lengths.shape[1]} lengths need one offset more, here are {len(offsets)}")
    return ids, offsets, lengths
