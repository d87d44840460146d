"""What TorchRec's sharders and ParameterConstraints allow a table, as a model document says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torchrec.distributed.planner.constants import MIN_CW_DIM
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.modules.embedding_configs import PoolingType

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.lengths import FeatureLength, FixedLength, PoissonLength
from emplace.placement.model import ComputeKernel, Constraints, ShardingType
from emplace.placement.modules import Module, Pooling
from emplace.placement.workload import ROW_SPLIT
from emplace.torchrec.tables import ShardedTable, is_sequence

COLUMN_TYPES = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)
NARROWEST_COLUMNS = 4
"""Emplace's pieces of columns are multiples of this."""


class ContradictingConstraints(InvalidDocument):
    """Constraints that leave a table no way to be sharded."""


@dataclass(frozen=True)
class PlannedJob:
    """What a table's limits depend on beside the table."""

    compute_device: str
    """TorchRec's name: cuda or cpu."""
    batch_size: int
    """Examples per rank and step."""


def table_limits(table: ShardedTable, given: ParameterConstraints | None, job: PlannedJob, module: Module) -> Constraints:
    """What the sharder, the constraints and the table's module allow. As in TorchRec, grid_shard is only for tables whose constraints name it.

    Raises InvalidDocument naming each constraint that Emplace can't honour, ContradictingConstraints where nothing is left.
    """
    asked = given or ParameterConstraints()
    broken = [BrokenRule(f"/{table.name}/{field}", str(value), rule) for field, value, rule in _refused(table, asked, job)]
    if broken:
        raise InvalidDocument("constraints", broken)
    offered = table.sharder.sharding_types(job.compute_device)
    types = [ShardingType(each) for each in offered if _is_allowed(each, asked) and each in _may_be(table, module)]
    if module.is_pooled and (asked.min_partition or 0) > NARROWEST_COLUMNS:
        types = [each for each in types if each not in COLUMN_TYPES]
    kernels = {each: _kernels(table, each, asked, job) for each in types}
    types = [each for each in types if kernels[each]]
    if not types:
        raise ContradictingConstraints("constraints", [BrokenRule(f"/{table.name}", "", _nothing_left(table, asked, offered, job, module))])
    union = {kernel for each in types for kernel in kernels[each]}
    return Constraints(
        sharding_types=tuple(each for each in ShardingType if each in types),
        compute_kernels=tuple(kernel for kernel in ComputeKernel if kernel in union),
    )


def feature_lengths(table: ShardedTable, given: ParameterConstraints | None) -> list[FeatureLength]:
    """The pooling factors as lengths: whole ones are fixed, others Poisson. 1 id an example where the constraints don't say."""
    factors = [1.0] * len(table.features) if given is None or _says_nothing(given.pooling_factors) else list(given.pooling_factors)
    if len(factors) != len(table.features):
        rule = f"must have one factor for each of the {len(table.features)} features of the table: {', '.join(table.config.feature_names)}"
        raise InvalidDocument("constraints", [BrokenRule(f"/{table.name}/pooling_factors", str(factors), rule)])
    bad = [factor for factor in factors if not 0 <= factor < float("inf")]
    if bad:
        rule = "must be numbers that are not negative"
        raise InvalidDocument("constraints", [BrokenRule(f"/{table.name}/pooling_factors", str(bad[0]), rule)])
    return [FixedLength(fixed=int(factor)) if float(factor).is_integer() else PoissonLength(poisson=factor) for factor in factors]


def is_weighted(table: ShardedTable, given: ParameterConstraints | None) -> bool:
    """Whether each id has a weight."""
    weighs = not is_sequence(table.module) and table.module.is_weighted()  # type: ignore[operator]
    return bool(weighs or (given is not None and given.is_weighted))


def _says_nothing(factors: Sequence[float]) -> bool:
    return bool(list(factors) == ParameterConstraints().pooling_factors)


def _is_allowed(kind: str, asked: ParameterConstraints) -> bool:
    if asked.sharding_types:
        return kind in asked.sharding_types
    return kind != ShardingType.GRID_SHARD


def _may_be(table: ShardedTable, module: Module) -> list[ShardingType]:
    return [kind for kind in module.sharding_types if not (_is_mean_among_sums(table, module) and kind in ROW_SPLIT)]


def _is_mean_among_sums(table: ShardedTable, module: Module) -> bool:
    return module.pooling is Pooling.SUM and table.config.pooling is PoolingType.MEAN


def _kernels(table: ShardedTable, kind: ShardingType, asked: ParameterConstraints, job: PlannedJob) -> list[ComputeKernel]:
    """Those of the sharder that Emplace knows and the constraints allow. Dense goes with data_parallel only."""
    known = {kernel.value for kernel in ComputeKernel if (kernel is ComputeKernel.DENSE) == (kind is ShardingType.DATA_PARALLEL)}
    wanted = set(asked.compute_kernels or known)
    return [ComputeKernel(each) for each in table.sharder.compute_kernels(kind.value, job.compute_device) if each in known & wanted]


def _refused(table: ShardedTable, asked: ParameterConstraints, job: PlannedJob) -> Iterator[tuple[str, Any, str]]:
    """(constraint, value, why) of each that Emplace can't honour."""
    unknown = sorted(set(asked.sharding_types or ()) - {kind.value for kind in ShardingType})
    if unknown:
        yield "sharding_types", ", ".join(unknown), f"must be some of {', '.join(ShardingType)}"
    kernels = asked.compute_kernels or []
    if kernels and not set(kernels) & {kernel.value for kernel in ComputeKernel}:
        yield "compute_kernels", ", ".join(kernels), f"Emplace knows {', '.join(ComputeKernel)}; allow one of them"
    if any(number != 1 for number in asked.num_poolings or ()):
        yield "num_poolings", asked.num_poolings, "Emplace counts one pooling an example; leave it out"
    if any(size != job.batch_size for size in asked.batch_sizes or ()):
        yield (
            "batch_sizes",
            asked.batch_sizes,
            f"Emplace counts the planner's batch_size ({job.batch_size}) for every feature; leave it out",
        )
    may_cache = job.compute_device != "cpu" and (not kernels or ComputeKernel.FUSED_UVM_CACHING in kernels)
    if may_cache and asked.cache_params is not None and asked.cache_params.load_factor is not None:
        yield "cache_params", asked.cache_params.load_factor, "Emplace chooses the load factor of a cache; leave load_factor out"
    if asked.device_group is not None and asked.device_group != job.compute_device:
        yield "device_group", asked.device_group, f"all tables of a plan are on the topology's device, {job.compute_device}"
    if asked.key_value_params is not None:
        yield "key_value_params", "", "Emplace knows no key-value tables; leave it out"
    if asked.use_virtual_table or table.config.use_virtual_table:
        yield "use_virtual_table", True, "Emplace knows no virtual tables; leave it out"
    if not is_sequence(table.module) and table.config.pooling not in (PoolingType.SUM, PoolingType.MEAN):
        yield "pooling", table.config.pooling, "must be sum or mean"


def _nothing_left(table: ShardedTable, asked: ParameterConstraints, offered: Sequence[str], job: PlannedJob, module: Module) -> str:
    sequence = "" if module.is_pooled else f"; Emplace shards tables that are not pooled {', '.join(module.sharding_types)}"
    if not module.is_pooled and module.column_width is None:
        sequence += f", and column_wise where several pieces of min_partition columns, by default {MIN_CW_DIM}, make up the table"
    narrow = f"; min_partition={asked.min_partition} rules out types that split columns, for which Emplace keeps no least width"
    mean = ""
    if module.is_pooled and table.config.pooling is PoolingType.MEAN:
        mean = (
            "; TorchRec trains tables that pool means wrong where their rows are split, unless those of all tables of the collection are, which "
            "the constraints of each have to say"
        )
    return (
        f"leaves the table no way to be sharded: sharding_types {_listed(asked.sharding_types)} and compute_kernels "
        f"{_listed(asked.compute_kernels)} against what {type(table.sharder).__name__} offers on {job.compute_device}: "
        f"{', '.join(offered)}{narrow if asked.min_partition and module.is_pooled else ''}{sequence}{mean}. Allow one more of them"
    )


def _listed(values: Sequence[str] | None) -> str:
    return f"[{', '.join(values)}]" if values else "(any)"
