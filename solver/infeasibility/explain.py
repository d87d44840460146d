"""Why no plan exists, and what would help."""

from __future__ import annotations

from emplace.placement.plan import Explanation, Question
from emplace.placement.topology import host_tiers
from emplace.solver.infeasibility.fixes import find_fixes
from emplace.solver.infeasibility.shortage import Case, cases, describe, largest
from emplace.solver.progress import Monitor

_SHOWN_TABLES = 10


def explain(question: Question, monitor: Monitor) -> Explanation:
    """The reasons, and the fixes that were found by solving with them, cheapest first. Where the time is over, that it is."""
    if monitor.clock.is_over:
        return Explanation(reasons=("it is proven that nothing fits; the time limit left no time to say what is too much",))
    parts = cases(question)
    reasons = [f"{case.name}: {reason}" if len(parts) > 1 else reason for case in parts for reason in _reasons(case)]
    if not parts:
        asked, there = ", ".join(question.options.tiers or ()), ", ".join(host_tiers(question.host))
        reasons = [f"the question allows only the tiers {asked}; {question.host.name} has {there}"]
    reasons += _reserves(question)
    blamed = tuple(dict.fromkeys(name for case in parts for name in _blamed(case)))
    return Explanation(reasons=tuple(reasons), fixes=tuple(find_fixes(question, parts, monitor)), tables=blamed or None)


def _reserves(question: Question) -> list[str]:
    """What the question itself keeps free; capacities are stated without it."""
    options = question.options
    asked = (("each device's HBM", options.hbm_reserve), ("each node's system memory", options.ddr_reserve))
    return [f"the question keeps {reserve} of {memory} free beside the host's own reserve" for memory, reserve in asked if reserve]


def _blamed(case: Case) -> list[str]:
    """The tables that the reasons name."""
    if case.ranks:
        return []
    items = [name for name, _ in case.tables[:_SHOWN_TABLES]]
    items = items or [case.priced.item_name(index) for shortage in case.sums[:1] for index in largest(shortage)]
    return [name for item in items for name in item.split(" + ")]


def _reasons(case: Case) -> list[str]:
    if case.ranks:
        return list(case.ranks)
    tables = [f"table{'s' if ' + ' in name else ''} {name}: {why}" for name, why in case.tables]
    found = tables[:_SHOWN_TABLES] + ([f"and {len(tables) - _SHOWN_TABLES} more tables like these"] if len(tables) > _SHOWN_TABLES else [])
    found += [describe(shortage, case.priced) for shortage in case.sums[:1]]
    return found or ["each table fits somewhere and every total fits, but no arrangement of all of them does"]
