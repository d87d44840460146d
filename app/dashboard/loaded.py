"""Stored plans, read once: a document never changes, and what is derived from it serves every view of it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from emplace.app.database import plans
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import PlanRow
from emplace.app.web.problems import found
from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import plan_topology
from emplace.placement.derived_loads import ShardLoads
from emplace.placement.diagnosis import Diagnosis
from emplace.placement.model import Table
from emplace.placement.plan import Plan, TablePlacement
from emplace.placement.price_range import StepRange, step_range
from emplace.placement.step_costs import step_costs
from emplace.placement.topology import Topology
from emplace.placement.workload import TableLoad, model_loads, shard_workload

KEPT = 16
"""Plans that are not read again."""


@dataclass(frozen=True)
class TableFigures:
    """A table of a plan and what it costs, all ranks together."""

    table: Table
    placement: TablePlacement
    bytes: int
    lookups: float
    time_us: float


class LoadedPlan:
    """A plan and what follows from it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def topology(self) -> Topology:
        return self.plan.topology()

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What the step is made of, without any solving."""
        return step_costs(self.plan.sized_question, self.plan.tables, self.topology)

    @cached_property
    def runs_in_torchrec(self) -> bool:
        """Whether there is an export of a placement for TorchRec."""
        try:
            plan_topology(self.plan)
        except NotRunnableHere:
            return False
        return True

    @cached_property
    def step_range(self) -> StepRange | None:
        return step_range(self.plan)

    @cached_property
    def amounts(self) -> dict[str, NDArray[np.float64]]:
        """[T, R] `bytes`, microseconds of `time` in all stages together and `lookups` of a step, of each table on each rank."""
        plan, question = self.plan, self.plan.sized_question
        tables = {table.name: table for table in question.model.tables}
        loads = dict(zip(tables, model_loads(question.model, self.topology, question.options.objective), strict=True))
        found = {what: np.zeros((len(plan.tables), len(plan.ranks))) for what in ("bytes", "time", "lookups")}
        for index, placement in enumerate(plan.tables):
            table, load = tables[placement.name], loads[placement.name]
            parts = ShardLoads.of(question, placement, table, load, self.topology)
            np.add.at(found["bytes"][index], parts.ranks, parts.hbm + parts.ddr)
            stages_us = np.zeros((len(plan.ranks), parts.stages_us.shape[1]))
            parts.add_times(stages_us, self.topology)
            found["time"][index] = stages_us.sum(axis=1)
            np.add.at(found["lookups"][index], parts.ranks, self._lookups(placement, table, load))
        return found

    def _lookups(self, placement: TablePlacement, table: Table, load: TableLoad) -> NDArray[np.float64]:
        """The lookups of each shard in a step."""
        first, end = np.array([shard.rows for shard in placement.shards]).T
        share = load.row_share(first, end - first, table.num_embeddings)
        columns = np.array([shard.columns[1] - shard.columns[0] for shard in placement.shards])
        work = shard_workload(load, placement.sharding_type, share, columns, self.topology, on_server=False)
        return np.broadcast_to(np.asarray(work.lookups, dtype=np.float64), columns.shape)

    @cached_property
    def tables(self) -> list[TableFigures]:
        """In the order of the plan."""
        tables = {table.name: table for table in self.plan.question.model.tables}
        sums = {what: amounts.sum(axis=1).tolist() for what, amounts in self.amounts.items()}
        asked = self.plan.question.model.local_batch_size * self.plan.num_trainers
        return [
            TableFigures(
                table=(table := tables[placement.name]),
                placement=placement,
                bytes=int(sums["bytes"][index]),
                lookups=table.pooling_factor * asked,
                time_us=sums["time"][index],
            )
            for index, placement in enumerate(self.plan.tables)
        ]


_kept: OrderedDict[str, LoadedPlan] = OrderedDict()
"""By the ids of plans. Several threads read it: each step on it is one that no other can come between."""


def find_row(session: Session, plan_id: str) -> PlanRow:
    """The row, without its documents. Raises Refused where there is none."""
    return found(plans.find(session, plan_id), "plan", plan_id)


def loaded(row: PlanRow) -> LoadedPlan | None:
    """The plan of a row, within its session; None where it has none. Its document is read unless the plan is kept. Raises OutdatedDocument."""
    found = _kept.get(row.id)
    if found is None and row.document is not None:
        found = _kept[row.id] = LoadedPlan(read_stored(row.document, Plan, f"plan {row.id}"))
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found
