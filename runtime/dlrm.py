"""The DLRM that a ModelSpec describes, and its optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import Tensor, nn
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from emplace.placement.dense_part import dense_part
from emplace.placement.model import Interaction, ModelSpec, Optimizer
from emplace.runtime.collections import attach_collections, ids_for, spec_modules, vectors_of

LEARNING_RATE = 0.01
"""The learning rate of tables and dense layers while steps are timed. Its value changes no time."""

FUSED_OPTIMIZERS = {
    Optimizer.SGD: EmbOptimType.EXACT_SGD,
    Optimizer.ADAGRAD: EmbOptimType.EXACT_ADAGRAD,
    Optimizer.ROWWISE_ADAGRAD: EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    Optimizer.ADAM: EmbOptimType.ADAM,
}
"""FBGEMM's optimizers."""


@dataclass
class Batch:
    """One rank's B examples of one step: dense [B, dense_features], the ids of every feature, labels [B]."""

    dense: Tensor
    sparse: KeyedJaggedTensor
    labels: Tensor

    def copy_to(self, device: torch.device) -> Batch:
        """Fresh tensors on `device`, as a data loader would hand them over."""
        weights = self.sparse.weights_or_none()
        sparse = KeyedJaggedTensor(
            keys=self.sparse.keys(),
            values=self.sparse.values().to(device, copy=True),
            lengths=self.sparse.lengths().to(device, copy=True),
            weights=None if weights is None else weights.to(device, copy=True),
        )
        return Batch(self.dense.to(device, copy=True), sparse, self.labels.to(device, copy=True))


class DenseLayers(nn.Module):
    """Bottom MLP, interaction, top MLP: the layers of placement.dense_part, in its order."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        shapes = dense_part(spec)
        self.interaction = spec.interaction
        self.features = [feature.name for table in spec.tables for feature in table.features]
        self.bottom = _mlp(shapes.bottom, relu_last=True)
        self.cross = nn.ModuleList(nn.Linear(*shape) for shape in shapes.cross)
        self.top = _mlp(shapes.top, relu_last=False)

    def forward(self, dense: Tensor, pooled: Mapping[str, Tensor]) -> Tensor:
        """One logit per example: [B]. `pooled` holds a [B, embedding_dim] for every feature."""
        bottom = self.bottom(dense)
        vectors = ([bottom] if bottom.shape[1] else []) + [pooled[feature] for feature in self.features]
        joined = self._dot(bottom, vectors) if self.interaction is Interaction.DOT else torch.cat(vectors, dim=1)
        return torch.as_tensor(self.top(self._crossed(joined))).mean(dim=1)

    def _dot(self, bottom: Tensor, vectors: list[Tensor]) -> Tensor:
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(len(vectors), len(vectors), offset=-1, device=bottom.device)
        # index_select over the flattened products is the fastest of the equivalent forms on a CPU.
        return torch.cat([bottom, products.flatten(1).index_select(1, rows * len(vectors) + columns)], dim=1)

    def _crossed(self, joined: Tensor) -> Tensor:
        """DCN v2, low rank: x <- x0 * U(V(x)) + x, layer by layer (Wang et al., arXiv 2008.13535)."""
        crossed = joined
        for narrow, wide in list(pairwise(self.cross))[::2]:
            crossed = joined * wide(narrow(crossed)) + crossed
        return crossed


class Dlrm(nn.Module):
    """`forward` is the training loss of one batch: binary cross-entropy of the mean of the top MLP's outputs."""

    def __init__(self, spec: ModelSpec, embedding_device: torch.device) -> None:
        super().__init__()
        self.modules_of_spec = spec_modules(spec)
        attach_collections(self, spec, embedding_device)
        self.dense = DenseLayers(spec)

    @property
    def collections(self) -> list[nn.Module]:
        """Those of the spec's modules, in its order."""
        return [self.get_submodule(module.path) for module in self.modules_of_spec]

    def inputs(self, batch: Batch) -> list[KeyedJaggedTensor]:
        """What each collection takes of a batch."""
        return [ids_for(module, batch.sparse) for module in self.modules_of_spec]

    def forward(self, batch: Batch) -> Tensor:
        return self.loss(batch, [collection(ids) for collection, ids in zip(self.collections, self.inputs(batch), strict=True)])

    def loss(self, batch: Batch, looked_up: Sequence[Any]) -> Tensor:
        """The loss, from what each collection puts out."""
        logits = self.dense(batch.dense, vectors_of(self.modules_of_spec, looked_up))
        # The mean over examples; 0 for the empty batch that a remote server feeds.
        return nn.functional.binary_cross_entropy_with_logits(logits, batch.labels, reduction="sum") / max(1, len(batch.labels))


def fused_params(optimizer: Optimizer, learning_rate: float) -> dict[str, Any]:
    """What the sharder hands to FBGEMM's fused kernels: the optimizer runs inside their backward."""
    return {"optimizer": FUSED_OPTIMIZERS[optimizer], "learning_rate": learning_rate, "eps": 1e-8}


def dense_optimizer(optimizer: Optimizer, parameters: Iterable[Tensor], learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer of dense layers, and of tables of the dense kernel. Row-wise Adagrad keeps one value a row there too."""
    parameters = list(parameters)
    match optimizer:
        case Optimizer.SGD:
            return torch.optim.SGD(parameters, lr=learning_rate)
        case Optimizer.ADAGRAD:
            return torch.optim.Adagrad(parameters, lr=learning_rate)
        case Optimizer.ROWWISE_ADAGRAD:
            return RowWiseAdagrad(parameters, lr=learning_rate)  # type: ignore[no-any-return]
        case Optimizer.ADAM:
            return torch.optim.Adam(parameters, lr=learning_rate)


def _mlp(shapes: tuple[tuple[int, int], ...], *, relu_last: bool) -> nn.Sequential:
    layers = [layer for shape in shapes for layer in (nn.Linear(*shape), nn.ReLU())]
    return nn.Sequential(*(layers if relu_last else layers[:-1]))
