"""TorchRec's own plans for a model on this machine's CPUs."""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding

from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec, Table
from emplace.placement.modules import DEFAULT_PATH
from emplace.runtime.dlrm import LEARNING_RATE, Dlrm, fused_params

MIN_COLUMNS = 16
"""The width of column shards where TorchRec is asked for narrow ones. By default it splits no table below 128 columns."""


def torchrec_plans(model: ModelSpec, host: HostSpec, ranks: int) -> dict[str, dict[str, Any]]:
    """The plans of TorchRec's planner by name, as JSON that `emplace import` reads: at defaults and, where that differs, with narrower
    column shards.

    The planner is told the true pooling factors, the batch, the optimizer and the memory. Raises PlannerError.
    """
    plans = {"defaults": _plan(model, host, ranks), "narrow columns": _plan(model, host, ranks, min_partition=MIN_COLUMNS)}
    if plans["narrow columns"] == plans["defaults"]:
        del plans["narrow columns"]
    return plans


def _plan(model: ModelSpec, host: HostSpec, ranks: int, **limits: Any) -> dict[str, Any]:
    usable_bytes = host.node.ddr_capacity - host.node.ddr_reserve
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=ranks, local_world_size=ranks, compute_device="cpu", ddr_cap=usable_bytes // ranks),
        batch_size=model.local_batch_size,
        constraints={table.name: _constraints(table, limits) for table in model.tables},
    )
    sharder = EmbeddingBagCollectionSharder(fused_params=fused_params(model.optimizer, LEARNING_RATE))
    plan = planner.plan(Dlrm(model, torch.device("meta")), [sharder])
    tables = plan.plan[DEFAULT_PATH]
    assert isinstance(tables, EmbeddingModuleShardingPlan)
    return {"world_size": ranks, "local_world_size": ranks, "plan": {DEFAULT_PATH: {name: _as_json(tables[name]) for name in tables}}}


def _constraints(table: Table, limits: dict[str, Any]) -> ParameterConstraints:
    return ParameterConstraints(pooling_factors=[feature.lengths.mean for feature in table.features], **limits)


def _as_json(sharding: ParameterSharding) -> dict[str, Any]:
    spec = sharding.sharding_spec
    shards = [
        {"shard_offsets": list(shard.shard_offsets), "shard_sizes": list(shard.shard_sizes), "placement": str(shard.placement)}
        for shard in (spec.shards if spec is not None else ())
    ]
    return {
        "sharding_type": sharding.sharding_type,
        "compute_kernel": sharding.compute_kernel,
        "ranks": sharding.ranks,
        "sharding_spec": {"shards": shards} if spec is not None else None,
    }
