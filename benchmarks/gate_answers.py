"""Whether the gate's answers hold: small random checks, with and without budgets, held against every placement that the audit accepts.

    python -m benchmarks.gate_answers [--checks N] [--seed S] [--first F] > RESULTS.jsonl

One JSON line a check, then a summary. A yes has a plan, which the audit accepted: it is wrong where its step breaks the budget. A no is
wrong where any placement keeps it. Budgets are near the best step, where a wrong answer would hide.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from typing import Any

import numpy as np

from benchmarks.enumeration import SAME_US, WORK_LIMIT, topologies
from benchmarks.exhaustive import TooLarge, best_below
from benchmarks.json_lines import emit
from benchmarks.small_questions import small_question
from emplace.app.cli.checking import Check, answered
from emplace.app.reports.checked import RefusedCheck
from emplace.gate import Budgets
from emplace.placement.plan import Question
from emplace.planning import answer
from emplace.solver.progress import Monitor

BUDGETS = (None, None, 0.7, 0.95, 0.999, 1.0, 1.001, 1.05, 1.5)
"""Longest steps, as parts of that of a plan; none asks only whether the model fits."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=5_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="F", help="number of the first check")
    arguments = parser.parse_args()
    lines = []
    for number in range(arguments.first, arguments.first + arguments.checks):
        lines.append(judged(arguments.seed, number))
        emit(lines[-1])
    emit(summary(lines))


def judged(seed: int, number: int) -> dict[str, Any]:
    """The gate's answer to one check, and whether it holds."""
    name, question = small_question(seed, number, WORK_LIMIT)
    longest_us = _budget(question, np.random.default_rng([seed, number, 1]))
    budgets = Budgets(max_step_time_us=longest_us)
    started = time.perf_counter()
    check = Check(f"q{number}", question.model, question.host, budgets, question.options, cost_model=question.cost_model)
    result = answered(check, Monitor())
    line: dict[str, Any] = {
        "check": number,
        "class": name,
        "max_step_time_us": longest_us,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if isinstance(result, RefusedCheck):
        return line | {"fits": None, "verdict": "refused", "what": result.message}
    line |= {"fits": result.fits, "step_us": result.step_time_us}
    most_us = math.inf if longest_us is None else longest_us * (1 + SAME_US)
    if result.fits is None:
        return line | {"verdict": "undecided"}
    if result.fits:  # by a plan, which was audited
        return line | {"verdict": "holds" if (result.step_time_us or math.inf) <= most_us else "WRONG"}
    try:
        return line | {"verdict": "WRONG" if is_kept(question, most_us) else "holds"}
    except TooLarge:
        return line | {"verdict": "too large"}


def _budget(question: Question, rng: np.random.Generator) -> float | None:
    """None where only the fit is asked for, or nothing fits."""
    part = BUDGETS[int(rng.integers(len(BUDGETS)))]
    step_us = None if part is None else answer(question).step_time_us
    return None if step_us is None or part is None else step_us * part


def is_kept(question: Question, below_us: float) -> bool:
    """Whether any placement takes less. Raises TooLarge."""
    found = (best_below(question, topology, below_us) for topology in topologies(question))
    return any(one is not None for one in found)


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """How many answers of each kind came to each verdict."""
    kinds = {True: "yes", False: "no", None: "open"}
    counts = Counter(f"{kinds[line['fits']]}, {'a budget' if line['max_step_time_us'] else 'none'}: {line['verdict']}" for line in lines)
    return {"summary": dict(sorted(counts.items())), "wrong": sum(line["verdict"] == "WRONG" for line in lines)}


if __name__ == "__main__":
    main()
