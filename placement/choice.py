"""Whether a table's kernel, cache and tiers can run where its shards are, and are what the user allows."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.host import DeviceType
from emplace.placement.layout import COLUMN_MULTIPLE, Flaw
from emplace.placement.model import ComputeKernel, Constraints, DataType, ModelSpec, Optimizer, ShardingType, Table, Tier
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.topology import Rank, Topology, host_tiers


def choice_flaws(question: Question, table: Table, placement: TablePlacement, topology: Topology) -> list[Flaw]:
    """Every choice that can't run or isn't allowed, for a table whose shards are whole and on ranks that exist."""
    ranks = [topology.ranks[shard.rank] for shard in placement.shards]
    return [
        *_kernel(question, table, placement, ranks),
        *_tiers(question, table, placement, ranks),
        *_constraints(table, placement, ranks),
        *_pin(table, placement),
        *_module(question, table, placement),
    ]


def _kernel(question: Question, table: Table, placement: TablePlacement, ranks: list[Rank]) -> Iterator[Flaw]:
    kernel, kind = placement.compute_kernel, placement.sharding_type
    for rank in {rank.device: rank for rank in ranks}.values():
        if (refusal := table_refusal(kernel, rank, question.model, table)) is not None:
            yield "/compute_kernel", refusal
        elif missing := [part for part in priced_as(kernel) if question.cost_model.kernel(rank.device, part) is None]:
            yield "/compute_kernel", f"the cost model has no {' and no '.join(missing)} kernel for {rank.device}"
    if (kernel is ComputeKernel.DENSE) != (kind is ShardingType.DATA_PARALLEL):
        yield "/compute_kernel", f"data_parallel goes with the dense kernel and no other type does, here are {kind} and {kernel}"
    if (kernel is ComputeKernel.FUSED_UVM_CACHING) != (placement.cache_load_factor is not None):
        yield "/cache_load_factor", "belongs to fused_uvm_caching and to no other kernel"


def _tiers(question: Question, table: Table, placement: TablePlacement, ranks: list[Rank]) -> Iterator[Flaw]:
    used = {tier for rank in ranks for tier in tiers_of(placement.compute_kernel, rank)}
    for whose, allowed in (
        ("the host has", host_tiers(question.host)),
        ("the question allows", question.options.tiers),
        ("its constraints allow", table.constraints.tiers),
    ):
        if allowed is not None and not used <= set(allowed):
            yield "/compute_kernel", f"{placement.compute_kernel} puts it in {', '.join(sorted(used))}; {whose} {', '.join(allowed)}"


def _constraints(table: Table, placement: TablePlacement, ranks: list[Rank]) -> Iterator[Flaw]:
    limits: Constraints = table.constraints
    kernel, kind = placement.compute_kernel, placement.sharding_type
    if limits.sharding_types is not None and kind not in limits.sharding_types:
        yield "/sharding_type", f"is {kind}, its constraints allow {', '.join(limits.sharding_types)}"
    if limits.compute_kernels is not None and kernel not in limits.compute_kernels:
        yield "/compute_kernel", f"is {kernel}, its constraints allow {', '.join(limits.compute_kernels)}"
    if limits.ranks is not None and (outside := sorted({rank.rank for rank in ranks} - set(limits.ranks))):
        yield "/shards", f"is on ranks {', '.join(map(str, outside[:8]))}, its constraints allow {', '.join(map(str, limits.ranks[:8]))}"


def _pin(table: Table, placement: TablePlacement) -> Iterator[Flaw]:
    """What differs from the one placement that the user wants. Shards are already known to be laid out soundly."""
    if (pin := table.constraints.pin) is None:
        return
    for key, value, pinned in (
        ("sharding_type", placement.sharding_type, pin.sharding_type),
        ("compute_kernel", placement.compute_kernel, pin.kernel),
        ("cache_load_factor", placement.cache_load_factor, pin.cache_load_factor),
    ):
        if value != pinned:
            yield f"/{key}", f"is {value}, it is pinned to {pinned}"
    ordered = sorted(placement.shards, key=lambda shard: (shard.columns, shard.rows))
    if pin.ranks is not None and (held := [shard.rank for shard in ordered]) != list(pin.ranks):
        yield "/shards", f"is on ranks {', '.join(map(str, held[:8]))}, it is pinned to {', '.join(map(str, pin.ranks[:8]))}"
    widths = [end - start for start, end in sorted({shard.columns for shard in ordered})]
    if max(widths) - min(widths) > COLUMN_MULTIPLE or widths != sorted(widths, reverse=True):
        yield (
            "/shards",
            f"has pieces of {', '.join(map(str, widths[:8]))} columns, pinned tables have pieces as even as possible, wider ones first",
        )


def _module(question: Question, table: Table, placement: TablePlacement) -> Iterator[Flaw]:
    module = question.model.module_of(table)
    if placement.sharding_type not in module.sharding_types:
        yield "/sharding_type", f"is {placement.sharding_type}; {module.can_be}"
    elif module.column_width is not None and placement.sharding_type is ShardingType.COLUMN_WISE:
        widths = {end - start for start, end in (shard.columns for shard in placement.shards)}
        if widths != {module.column_width}:
            found = ", ".join(map(str, sorted(widths)))
            yield "/shards", f"has pieces of {found} columns; all of its module {module.path} must be {module.column_width} wide"


def tiers_of(kernel: ComputeKernel, rank: Rank) -> frozenset[Tier]:
    """Where a shard's weights are, and their cache."""
    if rank.serves is not None:
        return frozenset({rank.serves})
    if rank.type is not DeviceType.CUDA or kernel is ComputeKernel.FUSED_UVM:
        return frozenset({Tier.DDR})
    return frozenset({Tier.HBM, Tier.DDR}) if kernel is ComputeKernel.FUSED_UVM_CACHING else frozenset({Tier.HBM})


def priced_as(kernel: ComputeKernel) -> tuple[ComputeKernel, ...]:
    """The kernels whose costs make up this one's."""
    return (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM) if kernel is ComputeKernel.FUSED_UVM_CACHING else (kernel,)


def kernel_refusal(kernel: ComputeKernel, rank: Rank, optimizer: Optimizer, data_type: DataType) -> str | None:
    """Why a device can't run a kernel (FBGEMM 1.8), or None."""
    if kernel is ComputeKernel.DENSE:
        return "the dense kernel can't train int8 weights" if data_type is DataType.INT8 else None
    if rank.type is DeviceType.CUDA:
        return None
    if kernel is not ComputeKernel.FUSED:
        return f"{kernel} needs a CUDA device, rank {rank.rank} is {rank.device}"
    return "FBGEMM has no fused adam on CPU devices" if optimizer is Optimizer.ADAM else None


def table_refusal(kernel: ComputeKernel, rank: Rank, model: ModelSpec, table: Table) -> str | None:
    """Why a device can't run a kernel for a table of the model, or None."""
    if kernel is ComputeKernel.DENSE and rank.type is not DeviceType.CUDA and not model.module_of(table).is_pooled:
        return "FBGEMM's dense kernel for CPU devices pools, so a table that is not pooled can't be data_parallel on them"
    return kernel_refusal(kernel, rank, model.optimizer, table.data_type)
