"""A check beside what it was before: both sides planned as well as the limit allows, where anything changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from emplace.app.cli.before import Before
from emplace.app.reports.change import ChangeKind, CheckChange, Side
from emplace.gate import Budgets, CheckResult, judge
from emplace.one_check import checked
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import InvalidDocument
from emplace.placement.memory import optimizer_state_bytes, weight_bytes
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, Question
from emplace.placement.stack import Stack
from emplace.planning import answer, build_question
from emplace.solver.progress import Monitor


@dataclass(frozen=True)
class PricedBy:
    """What both sides are priced by: the host's own figures without either."""

    cost_model: CostModel | None
    stack: Stack | None


def compared(
    before: Before, question: Question, prices: PricedBy, budgets: Budgets, max_regression: float | None, *, whole: bool, monitor: Monitor
) -> tuple[CheckResult, CheckChange]:
    """The answer, and the change from what stood there. Raises InvalidDocument for a question of now that is bad input."""
    if is_same(before, question):
        return checked(question, budgets, monitor, whole=whole), CheckChange(against=before.name, kind=ChangeKind.UNCHANGED)
    try:
        then = plan_before(before, question, prices, monitor)
    except InvalidDocument as error:
        then, before = None, replace(before, unreadable=str(error))
    if then is None:
        kind = ChangeKind.NEW if before.unreadable is None else ChangeKind.UNKNOWN
        notes = () if before.unreadable is None else (before.unreadable,)
        return checked(question, budgets, monitor, whole=whole), CheckChange(against=before.name, kind=kind, notes=notes)
    now = answer(question, monitor)
    change = change_between(before, then, now)
    if max_regression is not None:
        if change.comparable and then.has_placement and then.model.name == question.model.name:
            budgets = budgets.model_copy(update={"baseline": then, "max_regression": max_regression})
        else:
            change = change.model_copy(update={"notes": (*change.notes, f"a regression of at most {max_regression:g}% is not judged")})
    return judge(now, budgets), change


def is_same(before: Before, question: Question) -> bool:
    """Whether nothing changed that decides the answer."""
    if before.plan is not None:
        then = before.plan.question
        same_prices = then.cost_model.content_digest() == question.cost_model.content_digest()
        return same_prices and (then.model, then.host, _asked(then)) == (question.model, question.host, _asked(question))
    return (before.model, before.host) == (question.model, question.host)


def plan_before(before: Before, question: Question, prices: PricedBy, monitor: Monitor) -> Plan | None:
    """The plan of what stood there, under the same options. None where the model is new. Raises InvalidDocument."""
    if before.plan is not None or before.model is None or before.host is None:
        return before.plan
    return answer(build_question(before.model, before.host, question.options, prices.cost_model, prices.stack), monitor)


def change_between(before: Before, then: Plan, now: Plan) -> CheckChange:
    """From one plan to the other."""
    notes = _notes(then, now)
    return CheckChange(
        against=before.name,
        kind=ChangeKind.CHANGED,
        before=side(then),
        after=side(now),
        notes=notes,
        comparable=is_comparable(then, now.question),
    )


def is_comparable(then: Plan, question: Question) -> bool:
    """Whether its step is priced as those of this question are, for as many trainers."""
    trainers = len(question.topology(with_servers=False).ranks)
    return then.cost_model.digest == question.cost_model.content_digest() and then.num_trainers in (0, trainers)


def side(plan: Plan) -> Side:
    result = judge(plan, Budgets())
    return Side(
        verdict=result.verdict,
        table_bytes=_table_bytes(plan.question.model),
        step_time_us=plan.step_time_us,
        lower_bound_us=plan.lower_bound_us,
        gap=plan.gap,
        tightest_memory=result.tightest_memory if plan.has_placement else None,
    )


def _notes(then: Plan, now: Plan) -> tuple[str, ...]:
    if is_comparable(then, now.question):
        return ()
    if then.cost_model.digest != now.question.cost_model.content_digest():
        why = "the host changed, and its prices with it" if then.host.digest != now.host.digest else "cost model changed"
        return (f"{why}: the two steps are not comparable",)
    return (f"{then.num_trainers} trainers before, {now.num_trainers} now: the two steps are not comparable",)


def _asked(question: Question) -> dict[str, object]:
    """The options that decide what may be planned, not how long is searched."""
    data = question.options.to_data()
    return {key: value for key, value in data.items() if key not in ("time_limit", "work_limit", "gap", "seed")}


def _table_bytes(model: ModelSpec) -> int:
    return sum(
        weight_bytes(table) + optimizer_state_bytes(model.optimizer, table.num_embeddings, table.embedding_dim) for table in model.tables
    )
