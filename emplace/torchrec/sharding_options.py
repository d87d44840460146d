"""An Emplace plan as TorchRec's ShardingOptions: what its callbacks, its stats report and its ShardingPlan are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchrec.distributed.planner.constants import DEFAULT_PERF_ESTIMATOR
from torchrec.distributed.planner.enumerators import get_partition_by_type
from torchrec.distributed.planner.estimator import EmbeddingPerfEstimatorFactory
from torchrec.distributed.planner.types import ParameterConstraints, Shard, ShardingOption, Storage, Topology
from torchrec.distributed.planner.utils import build_sharder_data_map, sharder_name
from torchrec.distributed.types import CacheParams

from emplace.placement.plan import Plan, TablePlacement
from emplace.runtime.torchrec_json import in_torchrec_order
from emplace.torchrec.tables import ShardedTable, is_sequence


def sharding_options(
    plan: Plan,
    tables: Sequence[ShardedTable],
    sharders: Sequence[Any],
    topology: Topology,
    constraints: Mapping[str, ParameterConstraints],
) -> list[ShardingOption]:
    """One a table. Bytes of shards are the plan's; their times are TorchRec's own estimates, which only its report shows."""
    placed = {placement.name: placement for placement in plan.tables}
    features = {table.name: table.features for table in plan.question.model.tables}
    options = []
    for table in tables:
        lengths = [feature.lengths.mean for feature in features[table.spec_name]]
        given = constraints.get(table.name) or ParameterConstraints()
        options.append(_option(table, placed[table.spec_name], lengths, plan.question.model.local_batch_size, given))
    _estimate(options, sharders, topology, constraints)
    return options


def _estimate(
    options: Sequence[ShardingOption], sharders: Sequence[Any], topology: Topology, constraints: Mapping[str, ParameterConstraints]
) -> None:
    """TorchRec's times of all shards. Those of a table that have one size have one time, and TorchRec takes long for each."""
    estimator = EmbeddingPerfEstimatorFactory.create(DEFAULT_PERF_ESTIMATOR, topology=topology, constraints=dict(constraints))
    all_shards = [option.shards for option in options]
    for option in options:
        option.shards = list({tuple(shard.size): shard for shard in option.shards}.values())
    estimator.estimate(list(options), sharder_data_map=build_sharder_data_map({sharder_name(each.module_type): each for each in sharders}))
    for option, shards in zip(options, all_shards, strict=True):
        times = {tuple(shard.size): shard.perf for shard in option.shards}
        option.shards = shards
        for shard in shards:
            shard.perf = times[tuple(shard.size)]


def _option(
    table: ShardedTable, placed: TablePlacement, lengths: list[float], batch_size: int, given: ParameterConstraints
) -> ShardingOption:
    shards = [
        Shard(
            size=[shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0]],
            offset=[shard.rows[0], shard.columns[0]],
            storage=Storage(hbm=shard.hbm_bytes, ddr=shard.ddr_bytes),
            rank=shard.rank,
        )
        for shard in in_torchrec_order(placed)
    ]
    return ShardingOption(
        name=table.name,
        tensor=table.parameter,
        module=(table.path, table.module),
        input_lengths=lengths,
        batch_size=batch_size,
        sharding_type=placed.sharding_type.value,
        partition_by=get_partition_by_type(placed.sharding_type.value),
        compute_kernel=placed.compute_kernel.value,
        shards=shards,
        cache_params=_cache_params(placed, given),
        enforce_hbm=given.enforce_hbm,
        stochastic_rounding=given.stochastic_rounding,
        bounds_check_mode=given.bounds_check_mode,
        is_pooled=not is_sequence(table.module),
        feature_names=given.feature_names,
        output_dtype=given.output_dtype,
    )


def _cache_params(placed: TablePlacement, given: ParameterConstraints) -> CacheParams | None:
    """Those of the constraints, with the plan's load factor."""
    if placed.cache_load_factor is None:
        return given.cache_params
    return replace(given.cache_params or CacheParams(), load_factor=placed.cache_load_factor)
