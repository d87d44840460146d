"""A sharded model with its optimizers, and the step that both the profiler and the executor time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs_registry
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ModuleSharder, QuantizedCommCodecs, ShardingPlan

from emplace.placement.model import ModelSpec, Optimizer, ShardingType
from emplace.placement.modules import Module
from emplace.runtime.collections import spec_modules
from emplace.runtime.dlrm import LEARNING_RATE, Batch, Dlrm, dense_optimizer, fused_params

_OF_TABLE = re.compile(r"\.embedding(_bag)?s\.(?P<table>[^.]+)\.weight$")
"""The parameter of a table in an EmbeddingBagCollection or EmbeddingCollection."""


class Training:
    """A model sharded exactly as `plan` says. Every rank builds one at the same time."""

    def __init__(
        self,
        spec: ModelSpec,
        plan: ShardingPlan,
        device: torch.device,
        *,
        trainers: int,
        optimizer: Optimizer | None = None,
        sparse_rate: float = LEARNING_RATE,
        dense_rate: float = LEARNING_RATE,
    ) -> None:
        """`optimizer` stands in for the model's. Ranks after the first `trainers` ones are remote servers."""
        self.device = device
        self.loss_scale = dist.get_world_size() / trainers
        """TorchRec divides gradients by all ranks; remote servers contribute none."""
        optimizer = optimizer or spec.optimizer
        sharders = _sharders(spec, fused_params(optimizer, sparse_rate), device)
        # On the meta device no rank ever holds a whole table that is not its own.
        self.dmp = DistributedModelParallel(Dlrm(spec, torch.device("meta")), device=device, plan=plan, sharders=sharders)
        named = [(name, p) for name, p in self.dmp.named_parameters() if not hasattr(p, "_in_backward_optimizers")]
        layers = [parameter for name, parameter in named if table_of(name) is None]
        tables = {str(table_of(name)): parameter for name, parameter in named if table_of(name) is not None}
        self.optimizers = [dense_optimizer(optimizer.of_dense_layers, layers, dense_rate)]
        if tables:
            self.optimizers.append(dense_optimizer(optimizer, tables.values(), sparse_rate))
        everywhere = _replicated_tables(plan)
        self.replicated = layers + [parameter for table, parameter in tables.items() if table in everywhere]
        """Parameters that every rank holds: their gradients are reduced over all ranks."""

    @property
    def dlrm(self) -> nn.Module:
        """The sharded Dlrm."""
        return self.dmp.module  # type: ignore[no-any-return]

    def step(self, batch: Batch) -> None:
        """One training step: forward, backward, and the optimizers that don't run inside the backward."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        (self.dmp(batch) * self.loss_scale).backward()
        for optimizer in self.optimizers:
            optimizer.step()


def _sharders(spec: ModelSpec, fused: Mapping[str, Any], device: torch.device) -> list[ModuleSharder[Any]]:
    """One for all pooled modules, one for all sequences: modules of a kind have the same settings."""
    pooled, sequences = ([module for module in spec_modules(spec) if module.is_pooled is kind] for kind in (True, False))
    dedups = any(module.index_dedup for module in sequences)
    return [
        EmbeddingBagCollectionSharder(fused_params=dict(fused), qcomm_codecs_registry=_codecs(pooled, device)),
        EmbeddingCollectionSharder(fused_params=dict(fused), qcomm_codecs_registry=_codecs(sequences, device), use_index_dedup=dedups),
    ]


def _codecs(modules: Sequence[Module], device: torch.device) -> dict[str, QuantizedCommCodecs] | None:
    if not modules:
        return None
    forward, backward = (CommType(each) for each in (modules[0].sent_in.forward_precision, modules[0].sent_in.backward_precision))
    config = QCommsConfig(forward_precision=forward, backward_precision=backward)
    return get_qcomm_codecs_registry(config, device=device)  # type: ignore[no-any-return]


def _replicated_tables(plan: ShardingPlan) -> set[str]:
    modules = [tables for tables in plan.plan.values() if isinstance(tables, EmbeddingModuleShardingPlan)]
    return {name for tables in modules for name, sharding in tables.items() if sharding.sharding_type == ShardingType.DATA_PARALLEL}


def table_of(parameter_name: str) -> str | None:
    """`ebc.embedding_bags.user_id.weight`, `ec.embeddings.user_id.weight` -> `user_id`; None for a dense layer's parameter."""
    found = _OF_TABLE.search(parameter_name)
    return None if found is None else found["table"]
