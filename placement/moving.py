"""What it takes to get from one placement to another: weights and optimizer state that are not where they should be."""

from __future__ import annotations

from emplace.placement.memory import optimizer_state_bytes, row_bytes
from emplace.placement.model import ComputeKernel, ModelSpec, Optimizer, Table
from emplace.placement.plan import Shard, TablePlacement


def moved_bytes(model: ModelSpec, start: tuple[TablePlacement, ...], tables: tuple[TablePlacement, ...]) -> int:
    """Bytes to move from `start` to `tables`, of tables that are in both. Old rows count as usable where the width agrees."""
    before = {placement.name: placement for placement in start}
    specs = {table.name: table for table in model.tables}
    return sum(
        bytes_to_move(specs[after.name], model.optimizer, reusable(specs[after.name], before[after.name]), after)
        for after in tables
        if after.name in before
    )


def move_cost_us(moved: int, us_per_gib: float) -> float:
    """Microseconds of step time that moving so many bytes counts for."""
    return moved / 2**30 * us_per_gib


def reusable(table: Table, old: TablePlacement) -> TablePlacement | None:
    """`old`; None where the table had another width then, so that nothing of it can be used."""
    return old if max((shard.columns[1] for shard in old.shards), default=0) == table.embedding_dim else None


def bytes_to_move(table: Table, optimizer: Optimizer, old: TablePlacement | None, new: TablePlacement) -> int:
    """Bytes of each new shard that its rank does not hold already in the same kind of memory; all of them without `old`."""
    held: dict[int, list[Shard]] = {}
    if old is not None and _in_system_memory(old.compute_kernel) == _in_system_memory(new.compute_kernel):
        for shard in old.shards:
            held.setdefault(shard.rank, []).append(shard)
    total = 0
    for shard in new.shards:
        kept = sum(_overlap_bytes(table, optimizer, shard, other) for other in held.get(shard.rank, ()))
        total += max(0, _area_bytes(table, optimizer, shard.rows, shard.columns) - kept)
    return total


def _in_system_memory(kernel: ComputeKernel) -> bool:
    return kernel in (ComputeKernel.FUSED_UVM, ComputeKernel.FUSED_UVM_CACHING)


def _overlap_bytes(table: Table, optimizer: Optimizer, shard: Shard, other: Shard) -> int:
    rows = (max(shard.rows[0], other.rows[0]), min(shard.rows[1], other.rows[1]))
    columns = (max(shard.columns[0], other.columns[0]), min(shard.columns[1], other.columns[1]))
    return _area_bytes(table, optimizer, rows, columns) if rows[0] < rows[1] and columns[0] < columns[1] else 0


def _area_bytes(table: Table, optimizer: Optimizer, rows: tuple[int, int], columns: tuple[int, int]) -> int:
    height, width = rows[1] - rows[0], columns[1] - columns[0]
    return int(height * row_bytes(table.data_type, width) + optimizer_state_bytes(optimizer, height, width))
