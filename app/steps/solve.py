"""Answer a question: Question in, audited Plan out. SIGTERM ends it at once; there is nothing to clean up."""

from __future__ import annotations

from dataclasses import asdict

from emplace.app.steps.child import Report, run_step
from emplace.placement.plan import Question
from emplace.placement.reading import read_text
from emplace.planning import answer
from emplace.solver.progress import Monitor


def solve(text: str, report: Report) -> str:
    question = read_text(text, Question, source="question", as_json=True)
    plan = answer(question, Monitor.of(lambda progress: report(asdict(progress))))
    return plan.model_dump_json(exclude_none=True)


if __name__ == "__main__":
    run_step(solve)
