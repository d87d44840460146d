"""How a table may be sharded and looked up, and what its shards then take: priced by the vocabulary's formulas, many widths at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emplace.placement.choice import priced_as, table_refusal, tiers_of
from emplace.placement.host import DeviceType
from emplace.placement.id_order import BY_FREQUENCY
from emplace.placement.layout import BESIDE_SERVERS, COLUMN_MULTIPLE
from emplace.placement.memory import shard_bytes
from emplace.placement.model import ComputeKernel, ShardingType, Table
from emplace.placement.plan import Question
from emplace.placement.proof.caches import NO_CACHE, Caches, block_intervals, cache_corners, cache_intervals, is_linear
from emplace.placement.proof.classes import Bools, Floats, Ints
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import PLACED_STAGES, served_stages_us, shard_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import ROW_SPLIT, TableLoad, model_loads, shard_workload

IN_PIECES = (ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.GRID_SHARD)
"""Sharding types that split columns."""
ON_SINGLE_RANKS = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE)
"""Sharding types whose shards take one rank each, any; the others load all trainers of a node or of the job."""
ON_A_NODE = (ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD)
"""Sharding types whose pieces take all trainers of a node."""

Block = tuple[int, int]
"""First row and number of rows; blocks that take the same all begin at row 0."""


@dataclass(frozen=True)
class TableWay:
    """A sharding type, a kernel and the caches that it may have."""

    sharding_type: ShardingType
    kernel: ComputeKernel
    caches: Caches = NO_CACHE
    is_mixed: bool = False
    """Whether caches are mixes of the given ones."""


@dataclass(frozen=True)
class LeastPrices:
    """What one shard takes at least, for n caches and W widths."""

    time_us: Floats
    """[n, W, K]"""
    hbm: Floats
    """[n, W] bytes."""
    ddr: Floats
    """[n, W] bytes."""
    served_us: Floats
    """[n, W, K] what it puts on every trainer, where it is on a server."""


class TableWays:
    """The ways of one table that the audit accepts, capacities, pins and groups apart."""

    def __init__(self, question: Question, topology: Topology, table: Table, load: TableLoad, *, may_mix: bool) -> None:
        self.question, self.topology, self.table = question, topology, table
        self.load, self._may_mix = load, may_mix
        own, allowed = table.constraints.tiers, question.allowed_tiers
        self._tiers = allowed.intersection(allowed if own is None else own)
        self._is_together = any(table.name in group for group in question.model.together or ())
        self.allowed = np.ones(len(topology.ranks), dtype=bool)
        """[R] the ranks that the table may use."""
        if table.constraints.ranks is not None:
            self.allowed = np.isin(np.arange(len(topology.ranks)), table.constraints.ranks)
        self._kinds = [(rank.device, rank.is_server) for rank in topology.ranks]
        self._example = dict(zip(self._kinds, topology.ranks, strict=True))
        self._usable: dict[ComputeKernel, Bools] = {}

    @property
    def widths(self) -> Ints:
        """[W] every width of a piece of columns."""
        return COLUMN_MULTIPLE * np.arange(1, self.table.embedding_dim // COLUMN_MULTIPLE + 1)

    def widths_of(self, kind: ShardingType) -> Ints:
        """[W] those of the pieces that a sharding type may cut: the table's own where it cuts no columns."""
        width = self.question.model.module_of(self.table).column_width
        if kind is ShardingType.COLUMN_WISE and width is not None:
            return np.array([width])
        return self.widths if kind in IN_PIECES else np.array([self.table.embedding_dim])

    def __iter__(self) -> Iterator[TableWay]:
        limits = self.question.model.limits(self.table)
        types = (ShardingType.TABLE_WISE,) if self._is_together else (limits.sharding_types or tuple(ShardingType))
        for kind in ShardingType:
            if kind not in types or (self.topology.servers and kind not in BESIDE_SERVERS):
                continue
            for kernel in ComputeKernel:
                fits_type = (kernel is ComputeKernel.DENSE) == (kind is ShardingType.DATA_PARALLEL)
                if fits_type and kernel in (limits.compute_kernels or ComputeKernel):
                    yield self._way(kind, kernel)

    def _way(self, kind: ShardingType, kernel: ComputeKernel) -> TableWay:
        if kernel is not ComputeKernel.FUSED_UVM_CACHING:
            return TableWay(kind, kernel)
        devices = {rank.device for rank in self.topology.ranks}
        # Blocks of rows that lie by frequency have hits of their own each, so no mix of caches is one for all of them.
        is_mixed = self._may_mix and not self._has_own_hits(kind) and all(is_linear(self.question.cost_model, device) for device in devices)
        found = (cache_corners if is_mixed else cache_intervals)(self.table.access, self.table.num_embeddings)
        return TableWay(kind, kernel, found, is_mixed)

    def _has_own_hits(self, kind: ShardingType) -> bool:
        return kind in ROW_SPLIT and self.table.ids == BY_FREQUENCY

    def usable(self, kernel: ComputeKernel) -> Bools:
        """[R] the ranks that may hold a shard with this kernel: they run it in tiers that are allowed, at a price that is known."""
        if kernel not in self._usable:
            of_kind = {key: self._runs(kernel, rank) for key, rank in self._example.items()}
            self._usable[kernel] = np.array([of_kind[key] for key in self._kinds]) & self.allowed
        return self._usable[kernel]

    def _runs(self, kernel: ComputeKernel, rank: Rank) -> bool:
        cost = self.question.cost_model
        return (
            table_refusal(kernel, rank, self.question.model, self.table) is None
            and all(cost.kernel(rank.device, part) is not None for part in priced_as(kernel))
            and tiers_of(kernel, rank) <= self._tiers
        )

    def block(self, kind: ShardingType, rank: Rank) -> Block:
        """The rows of a shard on the rank: ceil(rows / ranks) where rows are split, the last ranks fewer or none."""
        rows, local = self.table.num_embeddings, self.topology.trainers_per_node
        if kind is ShardingType.ROW_WISE:
            blocks, place = len(self.topology.trainers), rank.rank
        elif kind in ON_A_NODE:
            blocks, place = local, rank.rank % local
        else:
            return 0, rows
        full = -(-rows // blocks)
        first, end = (min(each * full, rows) for each in (place, place + 1))
        return (0 if self.load.curves is None else first), end - first

    def prices(self, way: TableWay, rank: Rank, block: Block, widths: Ints) -> LeastPrices:
        """What shards of a block of rows and so many columns take on the rank, at least."""
        (first, rows), table, columns, caches = block, self.table, widths[None, :], way.caches
        if way.kernel is ComputeKernel.FUSED_UVM_CACHING and self._has_own_hits(way.sharding_type):
            caches = block_intervals(table, first, rows)
        # Caches are rounded up to whole rows: one row less is no more than any has.
        held = np.maximum(caches.rows - 1.0 / rows, 0.0) if rows else np.zeros_like(caches.rows)
        sharding = TableSharding(
            way.sharding_type, way.kernel, table.data_type, self.question.model.optimizer, held, caches.hits, caches.misses
        )
        shape, share = ShardShape(np.int64(rows), columns, first), self.load.row_share(first, rows, table.num_embeddings)
        work = shard_workload(self.load, way.sharding_type, share, columns, self.topology, on_server=rank.is_server)
        stages = shard_stages_us(self.question.cost_model, rank.device, sharding, shape, work)
        hbm, ddr = shard_bytes(sharding, shape, work.peak, on_cuda=rank.type is DeviceType.CUDA)
        full = (len(caches.rows), len(widths))
        served = served_stages_us(self.question.cost_model, work, self.topology)
        time_us, served_us = (
            np.stack([np.broadcast_to(each.get(stage, 0.0), full) for stage in PLACED_STAGES], axis=-1) for each in (stages, served)
        )
        hbm, ddr = (np.broadcast_to(each, full).astype(np.float64) for each in (hbm, ddr))
        return LeastPrices(time_us, hbm, ddr, served_us)


def table_ways(question: Question, topology: Topology, *, may_mix: bool) -> list[TableWays]:
    """The ways of every table, in the model's order."""
    loads = model_loads(question.model, topology, question.options.objective)
    return [TableWays(question, topology, *each, may_mix=may_mix) for each in zip(question.model.tables, loads, strict=True)]
