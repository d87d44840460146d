"""Modules of the tests, all on the meta device, and the topologies that they are planned for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology
from torchrec.distributed.types import ShardingPlan

from emplace.torchrec import EmplaceShardingPlanner

META = torch.device("meta")


def config(name: str, rows: int = 1000, dim: int = 16, features: Sequence[str] | None = None, **more: Any) -> EmbeddingBagConfig:
    return EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=list(features or [f"{name}-ids"]), **more)


def collection(*configs: EmbeddingBagConfig, is_weighted: bool = False) -> EmbeddingBagCollection:
    return EmbeddingBagCollection(tables=list(configs), is_weighted=is_weighted, device=META)


def sequence(name: str, rows: int = 1000, dim: int = 16, features: Sequence[str] | None = None) -> EmbeddingConfig:
    return EmbeddingConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=list(features or [f"{name}-ids"]))


def sequences(*configs: EmbeddingConfig) -> EmbeddingCollection:
    return EmbeddingCollection(tables=list(configs), device=META)


class Model(nn.Module):
    """Some collections below `sparse`, and two linear layers on top of the first one."""

    def __init__(self, **collections: nn.Module) -> None:
        super().__init__()
        self.sparse = nn.ModuleDict(collections)
        width = sum(config.embedding_dim * len(config.feature_names) for config in self._first.embedding_bag_configs())
        self.top = nn.Sequential(nn.Linear(width, 32, device=META), nn.ReLU(), nn.Linear(32, 1, device=META))

    @property
    def _first(self) -> Any:
        return next(iter(self.sparse.values()))

    def forward(self, ids: KeyedJaggedTensor) -> Tensor:
        logits: Tensor = self.top(self._first(ids).values())
        return logits


def model(*configs: EmbeddingBagConfig) -> Model:
    return Model(ebc=collection(*configs))


def topology(world_size: int = 2, device: str = "cuda", **more: Any) -> Topology:
    return Topology(world_size=world_size, compute_device=device, **more)


def sharders(**fused: Any) -> list[Any]:
    return [EmbeddingBagCollectionSharder(fused_params=fused or None)]


def planner(of: Topology | None = None, **arguments: Any) -> EmplaceShardingPlanner:
    """With little work, and no report."""
    given: dict[str, Any] = {"batch_size": 64, "stats": [], "options": {"work_limit": 0.5}}
    return EmplaceShardingPlanner(of or topology(), **given | arguments)


def ids(keys: Sequence[str], examples: int, each: int = 1) -> KeyedJaggedTensor:
    lengths = torch.full((len(keys) * examples,), each)
    return KeyedJaggedTensor(keys=list(keys), values=torch.zeros(int(lengths.sum()), dtype=torch.long), lengths=lengths)


def shards(plan: ShardingPlan) -> Mapping[str, Any]:
    """The ParameterSharding of each table of a plan with one module."""
    [module] = plan.plan.values()
    return dict(module.items())
