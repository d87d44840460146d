"""What a check is: a question answered as far as its budgets need, and the answer held against them."""

from __future__ import annotations

from emplace.gate import Budgets, CheckResult, enough_us, judge
from emplace.placement.plan import Question
from emplace.planning import answer
from emplace.solver.progress import Monitor


def checked(question: Question, budgets: Budgets, monitor: Monitor, *, whole: bool) -> CheckResult:
    """What becomes of the budgets; with `whole` of the best plan, else of one that decides them."""
    return judge(answer(question, monitor.wanting(None if whole else enough_us(question, budgets))), budgets)
