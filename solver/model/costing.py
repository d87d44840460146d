"""What shards cost: the time that they add to each stage and the bytes that they take, over many tables at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from emplace.placement.host import DeviceType
from emplace.placement.memory import rank_bytes, shard_bytes
from emplace.placement.model import DataType
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import PLACED_STAGES, served_stages_us, shard_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import TableLoad, model_loads, shard_workload
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.layouts import Layout, table_columns
from emplace.solver.model.problem import Floats, Ints


@dataclass(frozen=True)
class ShardPrices:
    """What shards [n, pieces] take on one kind of device."""

    time_us: Floats
    """[n, pieces, K]"""
    hbm_bytes: Ints
    """[n, pieces]"""
    ddr_bytes: Ints
    served_us: Floats
    """[n, pieces, K] what they put on every trainer, where they are on a server."""


@dataclass(frozen=True)
class RankLoads:
    """What tables put on every rank."""

    time_us: Floats
    """[ranks, K]"""
    hbm_bytes: Ints
    """[ranks]"""
    ddr_bytes: Ints


class ShardPricer:
    """Prices shards, over many tables of one data type at once."""

    def __init__(self, question: Question, topology: Topology) -> None:
        self._question, self._topology = question, topology
        loads = model_loads(question.model, topology, question.options.objective)
        self._loads = [np.array([getattr(load, field.name) for load in loads]) for field in fields(TableLoad)]
        kinds = [(rank.is_server, rank.type is DeviceType.CUDA) for rank in topology.ranks]
        own = {kind: rank_bytes(question.model, loads, is_server=kind[0], on_cuda=kind[1]) for kind in dict.fromkeys(kinds)}
        self.rank_bytes = np.array([own[kind] for kind in kinds])
        """[ranks] what each holds whatever its shards."""
        self.tables = table_columns(question.model, topology)

    def shards(self, layout: Layout, rank: Rank, data_type: DataType, table: Ints, rows: Ints, columns: Ints) -> ShardPrices:
        """For tables [n] of a data type: shards of rows [n, 1] and columns [n, pieces] on the rank's kind of device."""
        sharding = TableSharding(layout.sharding_type, layout.kernel, data_type, self._question.model.optimizer)
        if layout.cache_step is not None:
            factor, hit_rate = (each[table, layout.cache_step][:, None] for each in (self.tables.load_factors, self.tables.hit_rates))
            sharding = replace(sharding, load_factor=factor, hit_rate=hit_rate)
        return self.shards_of(sharding, rank, table, ShardShape(rows, columns))

    def shard(self, placement: TablePlacement, rank: Rank, table: int, rows: int, columns: int) -> ShardPrices:
        """One shard of a table that is placed as `placement` says."""
        spec, factor = self._question.model.tables[table], placement.cache_load_factor
        hit_rate = 0.0 if factor is None else spec.accesses.hit_rate(factor)
        kind, kernel, optimizer = placement.sharding_type, placement.compute_kernel, self._question.model.optimizer
        sharding = TableSharding(kind, kernel, spec.data_type, optimizer, factor or 0.0, hit_rate)
        return self.shards_of(sharding, rank, np.array([table]), ShardShape(np.array([[rows]]), np.array([[columns]])))

    def placed_shards(self, placement: TablePlacement, table: int) -> Iterator[tuple[Shard, ShardPrices]]:
        """Every shard of a table that is placed as `placement` says. Most are equal, so each shape is priced once."""
        prices: dict[tuple[str, int, int], ShardPrices] = {}
        for shard in placement.shards:
            rank = self._topology.ranks[shard.rank]
            shape = (rank.device, shard.rows[1] - shard.rows[0], shard.columns[1] - shard.columns[0])
            if shape not in prices:
                prices[shape] = self.shard(placement, rank, table, shape[1], shape[2])
            yield shard, prices[shape]

    def fixed_load(self, fixed: Fixed) -> RankLoads:
        """What fixed tables put on every rank."""
        ranks = self._topology.ranks
        load = RankLoads(np.zeros((len(ranks), len(PLACED_STAGES))), np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64))
        for table, placement in fixed.placements.items():
            for shard, price in self.placed_shards(placement, table):
                load.time_us[shard.rank] += price.time_us[0, 0]
                load.time_us[: len(self._topology.trainers)] += price.served_us[0, 0]
                load.hbm_bytes[shard.rank] += price.hbm_bytes[0, 0]
                load.ddr_bytes[shard.rank] += price.ddr_bytes[0, 0]
        return load

    def shards_of(self, sharding: TableSharding, rank: Rank, table: Ints, shape: ShardShape) -> ShardPrices:
        """For tables [n] of one data type that are sharded so: shards of rows [n, 1] and columns [n, pieces] on the rank's kind of device."""
        load = TableLoad(*(values[table][:, None] for values in self._loads))
        share, columns = shape.rows / self.tables.rows[table][:, None], shape.columns
        work = shard_workload(load, sharding.sharding_type, share, columns, self._topology, on_server=rank.is_server)
        stages = shard_stages_us(self._question.cost_model, rank.device, sharding, shape, work)
        hbm, ddr = shard_bytes(sharding, shape, work.peak, on_cuda=rank.type is DeviceType.CUDA)
        served = served_stages_us(self._question.cost_model, work, self._topology) if rank.is_server else {}
        time_us, served_us = (
            np.stack([np.broadcast_to(each.get(stage, 0.0), columns.shape) for stage in PLACED_STAGES], axis=-1)
            for each in (stages, served)
        )
        return ShardPrices(time_us, np.broadcast_to(hbm, columns.shape), np.broadcast_to(ddr, columns.shape), served_us)
