"""A plan in one sentence, and in which tone it is said."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.app.dashboard import tones
from emplace.app.dashboard.runs.lines import MeasuredStep
from emplace.app.dashboard.units import time_unit
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow
from emplace.app.reports.figures import count, percent
from emplace.placement.plan import LimitKind, Plan, PlanStatus, SolverRecord


@dataclass(frozen=True)
class PlanVerdict:
    sentence: str
    tone: tones.Tone


def verdict(row: PlanRow, plan: Plan | None, measured: MeasuredStep | None) -> PlanVerdict:
    tone = tones.of_plan(row.state, row.status, row.gap)
    if plan is None:
        return PlanVerdict(_of_job(State(row.state)), tone)
    if plan.status is PlanStatus.INFEASIBLE:
        return PlanVerdict(_does_not_fit(plan), tone)
    if plan.status is PlanStatus.UNDECIDED:
        limit = describe_limit(plan.solver)
        return PlanVerdict(f"Undecided: within its limit of {limit} the solver found no plan, and no proof that there is none.", tone)
    if measured is not None and measured.tone is not tones.Tone.GOOD:
        tone = measured.tone
    return PlanVerdict(f"{_fits(plan)}{_measured(measured)}", tone)


def describe_limit(solver: SolverRecord) -> str:
    """`20 s of counted work`: what a limit's seconds are."""
    return f"{solver.limit:g} s of {'counted work' if solver.limit_kind is LimitKind.WORK else 'wall time'}"


def describe_solve(solver: SolverRecord) -> str:
    """How long it took by the clock, and the limit in what it counts: they are different seconds."""
    return f"{solver.seconds:.1f} s by the clock; the limit was {describe_limit(solver)}, and it stopped by {_why(solver)}"


def _why(solver: SolverRecord) -> str:
    return {"limit": "that limit", "time": "that limit", "gap": "the gap it was asked for"}.get(solver.stopped_by, solver.stopped_by)


def _of_job(state: State) -> str:
    match state:
        case State.QUEUED:
            return "Waits for a worker."
        case State.RUNNING:
            return "A worker is solving it."
        case State.CANCELLED:
            return "Cancelled before it was answered: this says nothing about the model."
        case _:
            return "The job failed: this says nothing about the model."


def _does_not_fit(plan: Plan) -> str:
    fixes = 0 if plan.explanation is None else sum(fix.verified for fix in plan.explanation.fixes)
    found = (
        f"{count(fixes, 'change')} that would make it fit {'was' if fixes == 1 else 'were'} found"
        if fixes
        else "no change was found that helps"
    )
    return f"It does not fit, which is proven; {found}."


def _fits(plan: Plan) -> str:
    step = time_unit([plan.step_time_us]).show(plan.step_time_us)
    if plan.lower_bound_us is None or not plan.lower_bound_us:
        return f"It fits, in a step of {step} as predicted; nothing is known of other placements."
    if plan.status is PlanStatus.OPTIMAL or (plan.gap or 0.0) <= tones.GOOD_GAP:
        rest = "no placement is faster" if not plan.gap else f"no placement is more than {percent(plan.gap)} faster"
        return f"It fits, in a step of {step} as predicted, and {rest}."
    return f"It fits, in a step of {step} as predicted; a placement up to {percent(plan.gap)} faster is not ruled out."


def _measured(measured: MeasuredStep | None) -> str:
    if measured is None or measured.step_time_us is None:
        return ""
    step = time_unit([measured.step_time_us]).show(measured.step_time_us)
    if not measured.verified:
        return f" A run measured {step} and did not verify."
    if measured.error is None:
        return f" A run measured {step}."
    close = abs(measured.error) <= tones.GOOD_ERROR
    how = "as predicted" if close else f"{abs(measured.error):.0%} {'longer' if measured.error > 0 else 'shorter'} than predicted"
    return f" A run measured {step}, {how}."
