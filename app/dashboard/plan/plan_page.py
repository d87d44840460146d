"""One plan: a verdict, the step as it passes, memories, the search, what limits it, and what can be done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session, undefer

from emplace.app.dashboard.charts.memory import MemoryChart, memory_charts
from emplace.app.dashboard.charts.search import SearchChart, search_chart
from emplace.app.dashboard.charts.step import StepChart, step_chart
from emplace.app.dashboard.loaded import KEPT, LoadedPlan, find_row, loaded
from emplace.app.dashboard.plan.limits import Limits, limits
from emplace.app.dashboard.plan.table_lines import TableLine, table_lines
from emplace.app.dashboard.plan.verdict import PlanVerdict, describe_limit, describe_solve, verdict
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import Later, show
from emplace.app.dashboard.run_lines import RunLine, measurement_of, run_line
from emplace.app.dashboard.sorting import in_order
from emplace.app.dashboard.units import THOUSANDS, time_unit
from emplace.app.database import jobs, paging, runs
from emplace.app.database.priorities import Priority
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.reports.figures import percent
from emplace.app.reports.options_text import set_options
from emplace.app.web.dependencies import TheService
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.plan import Explanation, Plan, PlanOptions, PlanStatus
from emplace.placement.reading import from_data

router = APIRouter()

_RUNS = 25
_LARGEST_TABLES = 20


@dataclass(frozen=True)
class Fact:
    """`note` stands small behind the value."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, eq=False)
class Charts:
    """A plan as it is drawn. It is made once, so that its part of the page is."""

    step: StepChart
    memory: list[MemoryChart]


@dataclass(frozen=True, eq=False)
class Derived:
    """What takes longer than to read a plan: it stands below the charts, which don't wait for it."""

    certainty: str | None
    limits: Limits
    tables: list[TableLine]


@dataclass(frozen=True)
class PlanView:
    """What there is to say depends on where the plan is; what there is not is None or empty."""

    plan: PlanLine
    verdict: PlanVerdict
    facts: list[Fact]
    options: dict[str, str]
    by_load: bool
    progress: dict[str, Any] | None
    ahead: int | None
    priority: Priority
    error: str | None
    explanation: Explanation | None
    charts: Charts | None
    search: SearchChart | None
    num_tables: int
    runs: list[RunLine]
    running: RunLine | None
    extrapolated: tuple[str, ...]
    runs_in_torchrec: bool
    derived: Later[Derived] | None


@router.get("/plans/{plan_id}")
async def plan_page(
    request: Request, plan_id: str, service: TheService, ranks: Annotated[Literal["number", "load"], Query()] = "number"
) -> Response:
    """One plan. `ranks` orders its charts by the rank's number or by its load."""
    return show(request, "plan.html", await service.read_together(_page, plan_id, ranks))


def _page(session: Session, plan_id: str, ranks: str) -> PlanView:
    row, by_load = find_row(session, plan_id), ranks == "load"
    found = loaded(row)
    plan = None if found is None else found.plan
    placed = found if plan is not None and plan.has_placement else None
    line = plan_line(row, runs.latest_done(session, [plan_id]).get(plan_id))
    events = [json.loads(event.data) for event in jobs.events_after(session, plan_id, 0)]
    run_lines = [
        run_line(row, run, measurement_of(run))
        for run in paging.page(session, RunRow, {"plan_id": plan_id}, None, _RUNS, undefer(RunRow.document))[0]
    ]
    return PlanView(
        plan=line,
        verdict=verdict(row, plan, line.measured),
        facts=[] if found is None else _facts(found, line),
        options=_options(row, plan),
        by_load=by_load,
        progress=events[-1] if events else None,
        ahead=jobs.count_ahead(session, row) if row.state == State.QUEUED else None,
        priority=Priority.of_rank(row.priority),
        error=row.error,
        explanation=None if plan is None else plan.explanation,
        charts=None if placed is None else _charts(placed, by_load=by_load),
        search=search_chart(events),
        num_tables=0 if placed is None else len(placed.plan.tables),
        runs=run_lines,
        running=next((run for run in run_lines if not State(run.state).is_final), None),
        extrapolated=() if plan is None else plan.extrapolated,
        runs_in_torchrec=placed is not None and placed.runs_in_torchrec,
        derived=None if placed is None else Later(partial(_derived, placed)),
    )


@lru_cache(maxsize=KEPT)
def _charts(found: LoadedPlan, *, by_load: bool) -> Charts:
    return Charts(step_chart(found.plan, by_load=by_load), memory_charts(found.plan, by_load=by_load))


@lru_cache(maxsize=KEPT)
def _derived(found: LoadedPlan) -> Derived:
    tables = in_order(table_lines(found), lambda each: each.bytes, descending=True)
    return Derived(_certainty(found), limits(found), tables[:_LARGEST_TABLES])


def _certainty(found: LoadedPlan) -> str | None:
    """How sure the predicted step is where nobody measured."""
    spread, stack = found.step_range, found.plan.question.cost_model.stack
    if spread is None or stack is None:
        return None
    unit = time_unit([found.plan.step_time_us])
    over = f"{unit.number(spread.fast_us)} to {unit.show(spread.slow_us)}"
    return f"Nothing was measured on this host: over what {stack.name} is known to reach of its rates, this placement's step lasts {over}."


def _options(row: PlanRow, plan: Plan | None) -> dict[str, str]:
    """Without its limit once a plan says how it was used."""
    if plan is not None:
        return {name: value for name, value in set_options(plan.question.options).items() if name not in ("time limit", "work limit")}
    return set_options(from_data(json.loads(row.question)["options"], PlanOptions, source=f"options of plan {row.id}"))


def _facts(found: LoadedPlan, line: PlanLine) -> list[Fact]:
    plan = found.plan
    facts = _step_facts(found, line) if plan.has_placement else []
    if plan.status is PlanStatus.UNDECIDED:
        facts.append(Fact("Limit", describe_limit(plan.solver)))
    facts.append(Fact("Costs", _costs(plan.question.cost_model), _stack(plan.question.cost_model)))
    seconds, _, rest = describe_solve(plan.solver).partition(" by the clock; ")
    return [*facts, Fact("Solved in", seconds, f"by the clock; {rest}")]


def _step_facts(found: LoadedPlan, line: PlanLine) -> list[Fact]:
    plan = found.plan
    unit = time_unit([plan.step_time_us])
    decided = "" if plan.placement_gap is None else f"{percent(plan.placement_gap)} of what placement decides"
    facts = [Fact("Predicted step", unit.show(plan.step_time_us))]
    if line.measured is not None:
        facts.append(Fact("Measured step", unit.show(line.measured.step_time_us)))
    return [
        *facts,
        Fact("No plan is faster than", unit.show(plan.lower_bound_us)),
        Fact("Gap", percent(plan.gap), decided),
        Fact("Predicted throughput", f"{THOUSANDS.number(plan.throughput_samples_per_s)} k examples/s", _size(plan)),
        Fact("Imbalance", f"{plan.imbalance:.3f}" if plan.imbalance else "-", "busiest trainer's own work / mean of trainers"),
    ]


def _size(plan: Plan) -> str:
    servers = len(plan.ranks) - plan.num_trainers
    beside = f" and {servers} servers" if servers else ""
    return f"{plan.num_trainers} ranks{beside} x {plan.question.model.local_batch_size:,} examples"


def _costs(cost_model: CostModel) -> str:
    return "measured" if cost_model.source is CostSource.MEASURED else cost_model.source.value


def _stack(cost_model: CostModel) -> str:
    if cost_model.source is CostSource.MEASURED:
        return f"on this host, {cost_model.measured_at}" if cost_model.measured_at else "on this host"
    return "assumed shares of datasheet rates" if cost_model.stack is None else f"rates, at what {cost_model.stack.name} reaches of them"
