"""A placement that was decided elsewhere, made a whole Plan: bytes and times of every rank, and the step time."""

from __future__ import annotations

from emplace.placement.derived_loads import STAGES, DerivedLoads, derive_loads
from emplace.placement.hot_rows import with_hot_ranks
from emplace.placement.placement_gap import placement_gap
from emplace.placement.plan import (
    CostModelReference,
    ModelReference,
    NodeLoad,
    Plan,
    PlanStatus,
    Question,
    RankLoad,
    SolverRecord,
    StoppedBy,
    TablePlacement,
)
from emplace.placement.sums import imbalance
from emplace.placement.topology import Topology

NO_TABLES = "step without tables"
"""The name of the bound that needs no search: what a step takes whatever is placed."""


def imported_record(question: Question, version: str) -> SolverRecord:
    """The record of a plan that was made elsewhere: nothing was searched for, and nothing is known of other plans."""
    kind, limit = next(iter(question.options.limits.items()))
    return SolverRecord(
        seconds=0.0,
        seed=question.options.seed,
        limit=limit,
        limit_kind=kind,
        stopped_by=StoppedBy.IMPORTED,
        bound=NO_TABLES,
        version=version,
    )


def derive_plan(question: Question, placements: tuple[TablePlacement, ...], topology: Topology, solver: SolverRecord) -> Plan:
    """The plan that places tables as `placements` say, which must be sound on `topology`; the shards' bytes are filled in.

    It is `feasible`, and bounded by the step without tables: nothing else is known of other plans yet. Capacities are for the audit to
    judge.
    """
    model = question.model
    loads = derive_loads(question, placements, topology)
    own_us = loads.stages_us.sum(axis=1)[: len(topology.trainers)]
    plan = Plan(
        model=ModelReference(name=model.name, digest=model.content_digest()),
        host=ModelReference(name=question.host.name, digest=question.host.content_digest()),
        cost_model=CostModelReference(source=question.cost_model.source, digest=question.cost_model.content_digest()),
        status=PlanStatus.FEASIBLE,
        gap=1.0 - loads.constant_us / loads.step_time_us,
        placement_gap=placement_gap(loads.step_time_us, loads.constant_us, loads.constant_us),
        step_time_us=loads.step_time_us,
        lower_bound_us=loads.constant_us,
        throughput_samples_per_s=len(topology.trainers) * model.local_batch_size * 1e6 / loads.step_time_us,
        imbalance=imbalance(own_us.tolist()),
        ranks=_ranks(topology, loads),
        nodes=tuple(
            NodeLoad(node=node, ddr_bytes=int(loads.node_ddr[node]), ddr_capacity_bytes=capacity)
            for node, capacity in enumerate(topology.node_ddr_capacity_bytes)
        ),
        tables=tuple(_with_bytes(table, loads, index) for index, table in enumerate(placements)),
        solver=solver,
        question=question,
    )
    return with_hot_ranks(plan)


def _with_bytes(table: TablePlacement, loads: DerivedLoads, index: int) -> TablePlacement:
    sizes = zip(table.shards, loads.shard_hbm[index], loads.shard_ddr[index], strict=True)
    shards = tuple(shard.model_copy(update={"hbm_bytes": int(hbm), "ddr_bytes": int(ddr)}) for shard, hbm, ddr in sizes)
    return table.model_copy(update={"shards": shards})


def _ranks(topology: Topology, loads: DerivedLoads) -> tuple[RankLoad, ...]:
    return tuple(
        RankLoad(
            rank=rank.rank,
            node=rank.node,
            device=rank.device,
            is_server=rank.is_server,
            hbm_bytes=int(loads.rank_hbm[rank.rank]),
            hbm_capacity_bytes=rank.hbm_capacity_bytes,
            ddr_bytes=int(loads.rank_ddr[rank.rank]),
            step_time_us=float(loads.stages_us[rank.rank].sum()),
            stages_us=dict(zip(STAGES, loads.stages_us[rank.rank].tolist(), strict=True)),
        )
        for rank in topology.ranks
    )
