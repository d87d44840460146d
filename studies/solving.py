"""Questions solved one after the other, each from the plan of the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from emplace.placement.model import Tier
from emplace.placement.plan import Plan, Question
from emplace.placement.topology import allowed_tiers
from emplace.planning import answer
from emplace.runtime.side_by_side import in_processes
from emplace.studies.figures import Figures, figures_of

_MOST_IN_CHAIN, _CHAINS = 8, 4
"""Few questions are solved in so many rows, many in rows of so many: the same whatever the number of processes, and so the answers."""
T = TypeVar("T")
Tell = Callable[[int, int], None]
"""Told how many of how many are solved."""


def solve_points(questions: Sequence[Question], processes: int, tell: Tell) -> list[Figures]:
    """The figures of each question's best plan, in their order. Neighbours should differ a little."""
    return _in_rows(questions, solve_chain, processes, tell)


def solve_plans(questions: Sequence[Question], processes: int, tell: Tell) -> list[Plan]:
    """The same best plans themselves."""
    return _in_rows(questions, plan_chain, processes, tell)


def _in_rows(questions: Sequence[Question], work: Callable[[Sequence[Question]], list[T]], processes: int, tell: Tell) -> list[T]:
    length = chain_length(len(questions))
    chains = [questions[first : first + length] for first in range(0, len(questions), length)]
    found: list[T] = []
    for answers in in_processes(chains, work, processes):
        found += answers
        tell(len(found), len(questions))
    return found


def chain_length(questions: int) -> int:
    """After so many questions one begins anew, without the plan of the one before."""
    return min(-(-questions // _CHAINS), _MOST_IN_CHAIN)


def solve_chain(questions: Sequence[Question]) -> list[Figures]:
    """The figures of questions, each solved from the last one's plan."""
    return list(map(figures_of, plan_chain(questions)))


def plan_chain(questions: Sequence[Question]) -> list[Plan]:
    """The best plans of questions, each solved from the last one that has a placement."""
    found: list[Plan] = []
    last: Plan | None = None
    for question in questions:
        found.append(best_plan(question, last))
        last = found[-1] if found[-1].has_placement else last
    return found


def solve_next(question: Question, last: Plan | None) -> tuple[Figures, Plan | None]:
    """The figures of a question in a chain, and the plan that the next one is solved from."""
    plan = best_plan(question, last)
    return figures_of(plan), plan if plan.has_placement else last


def best_plan(question: Question, warm_start: Plan | None = None) -> Plan:
    """The best plan; with remote servers, which a job pays for, only where nothing fits without them or the options name them."""
    nearby = _without_servers(question)
    if nearby is not None:
        plan = best_of(nearby, warm_start)
        if plan.has_placement:
            return plan
    return best_of(question, warm_start)


def _without_servers(question: Question) -> Question | None:
    """The question with tables on the trainers' nodes only; None where its options say where tables may live, or there are no servers."""
    if question.host.remote_servers is None or question.options.tiers is not None:
        return None
    near = tuple(tier for tier in allowed_tiers(question.host, None) if tier is not Tier.REMOTE)
    return question.model_copy(update={"options": question.options.model_copy(update={"tiers": near})})


def best_of(question: Question, warm_start: Plan | None = None) -> Plan:
    """The best plan, searched from another one that has some of its tables."""
    start = warm_start if warm_start is not None and _has_common(question, warm_start) else None
    return answer(question, warm_start=start)


def _has_common(question: Question, plan: Plan) -> bool:
    ours = {table.name for table in question.model.tables}
    return question.options.start is None and any(table.name in ours for table in plan.tables)
