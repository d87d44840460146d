"""Batches of a trace are the examples of its file, whatever its format."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from emplace.executor.traces.batches import TraceBatches, lay_out, prepared_batches
from emplace.executor.traces.opening import open_trace
from emplace.executor.traces.trace import CHUNK_EXAMPLES
from emplace.runtime.dlrm import Batch
from tests.executor.plans import make_model
from tests.executor.traces.examples import EXAMPLES, FORMATS

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("suffix", FORMATS)
def test_batches_are_the_examples_of_the_file(
    suffix: str, files: dict[str, Path], lists: dict[str, list[list[int]]], tmp_path: Path
) -> None:
    """`clicks` is cut to 5 ids by the model; after the last example comes the first one."""
    spec = make_model()
    user, item, *others = spec.tables
    clicks = item.features[0].model_copy(update={"truncate": 5})
    spec = spec.model_copy(update={"tables": (user, item.model_copy(update={"features": (clicks,)}), *others)})
    (tmp_path / "laid").mkdir()
    lay_out(open_trace(files[suffix], tmp_path), spec, 10**6, tmp_path / "laid", lambda _: None)
    batches = TraceBatches(spec, tmp_path / "laid")
    for start, examples in ((0, 64), (CHUNK_EXAMPLES - 3, 10), (EXAMPLES - 7, 12), (3, 2 * EXAMPLES)):
        batch = batches.batch(start, examples, np.random.default_rng(0))
        which = [number % EXAMPLES for number in range(start, start + examples)]
        for feature, ids in lists.items():
            expected = [ids[number][:5] if feature == "clicks" else ids[number] for number in which]
            assert batch.sparse[feature].lengths().tolist() == list(map(len, expected))
            assert batch.sparse[feature].values().tolist() == list(chain.from_iterable(expected))
        assert (batch.dense.shape, batch.labels.shape) == ((examples, 8), (examples,))


def test_ranks_take_the_examples_in_turns(files: dict[str, Path], drawn: Batch, tmp_path: Path) -> None:
    spec = make_model()
    lay_out(open_trace(files["pt"], tmp_path), spec, 6, tmp_path, lambda _: None)
    ranks = [prepared_batches(spec, 3, 0, rank, 2, tmp_path) for rank in (0, 1)]
    users = [batch.sparse["user"].values() for turn in zip(*ranks, strict=True) for batch in turn]
    assert torch.equal(torch.cat(users), drawn.sparse["user"].values()[: 6 * 64])
    assert not torch.equal(ranks[0][0].dense, ranks[1][0].dense)
