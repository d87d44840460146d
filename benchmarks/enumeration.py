"""Whether proofs hold: small random questions, solved, and every placement that the audit accepts enumerated.

    python -m benchmarks.enumeration [--questions N] [--seed S] [--first F] > RESULTS.jsonl

One JSON line a question, then a summary: bounds that a placement beats, "infeasible" where a placement fits, and errors. A placement
that beats an answer is audited itself. Cache load factors are a continuum; some are tried.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from benchmarks.exhaustive import Found, TooLarge, best_below
from benchmarks.json_lines import emit
from benchmarks.small_questions import small_question
from emplace.placement.audit import audit
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.errors import EmplaceError
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.topology import SERVED
from emplace.planning import answer

SAME_US = 1e-9
"""Share by which a step time may be below a bound: sums of the same figures in another order."""
WORK_LIMIT = 0.3
"""Seconds of counted work for each question."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="F", help="number of the first question")
    arguments = parser.parse_args()
    lines = []
    for number in range(arguments.first, arguments.first + arguments.questions):
        lines.append(judged(arguments.seed, number))
        emit(lines[-1])
    emit(summary(lines))


def judged(seed: int, number: int, work_limit: float = WORK_LIMIT) -> dict[str, Any]:
    """The answer to one question, held against every placement."""
    name, question = small_question(seed, number, work_limit)
    line: dict[str, Any] = {"question": number, "class": name}
    started = time.perf_counter()
    try:
        plan = answer(question)
    except EmplaceError as error:
        return line | {"verdict": "error", "what": str(error)}
    line |= {"status": str(plan.status), "gap": plan.gap, "step_us": plan.step_time_us, "bound_us": plan.lower_bound_us}
    line["solve_s"], started = round(time.perf_counter() - started, 3), time.perf_counter()
    try:
        better = beaten_by(plan)
    except TooLarge:
        return line | {"verdict": "too large"}
    line["enumerate_s"] = round(time.perf_counter() - started, 3)
    if better is None:
        return line | {"verdict": "holds"}
    verdict = "infeasible, and it fits" if plan.status is PlanStatus.INFEASIBLE else "bound beaten"
    tables = [table.to_data() for table in better.tables]
    return line | {"verdict": verdict, "better_us": better.step_time_us, "tables": tables}


def beaten_by(plan: Plan) -> Found | None:
    """A placement that the plan says there is none of. Raises TooLarge, and ValueError where the audit refuses what was enumerated."""
    question = plan.question
    below_us = float("inf") if plan.lower_bound_us is None else plan.lower_bound_us * (1 - SAME_US)
    if plan.status is PlanStatus.UNDECIDED and plan.lower_bound_us is None:
        return None
    found = [one for topology in topologies(question) if (one := best_below(question, topology, below_us)) is not None]
    best = min(found, key=lambda one: one.step_time_us, default=None)
    if best is not None and (violations := audit(_as_plan(question, best))):
        raise ValueError(f"the audit refuses what was enumerated: {violations[0]}")
    return best


def topologies(question: Question) -> Iterator[Any]:
    """The ranks of a plan: trainers alone, or with the servers."""
    yield question.topology(with_servers=False)
    if not SERVED.isdisjoint(question.allowed_tiers):
        yield question.topology(with_servers=True)


def _as_plan(question: Question, found: Found) -> Plan:
    return derive_plan(question, found.tables, found.topology, imported_record(question, version="none"))


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """How many questions of each class came to each verdict, and the mean gap of plans."""
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        verdicts[line["class"]][line["verdict"]] += 1
    gaps = [line["gap"] for line in lines if line.get("gap") is not None]
    statuses = Counter(line["status"] for line in lines if "status" in line)
    mean = sum(gaps) / len(gaps) if gaps else None
    return {"summary": {name: dict(found) for name, found in verdicts.items()}, "statuses": dict(statuses), "mean_gap": mean}


if __name__ == "__main__":
    main()
