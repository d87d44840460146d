"""Hold a model against budgets: {"question", "budgets", "plan"} in, CheckResult out. SIGTERM ends it at once."""

from __future__ import annotations

from dataclasses import asdict

from emplace.app.steps.child import Report, run_step
from emplace.gate import Budgets
from emplace.one_check import checked
from emplace.placement.plan import Question
from emplace.placement.reading import from_data, parse_json
from emplace.solver.progress import Monitor


def check(text: str, report: Report) -> str:
    request = parse_json(text, "check")
    question = from_data(request["question"], Question, source="question")
    budgets = from_data(request["budgets"], Budgets, source="budgets")
    monitor = Monitor.of(lambda progress: report(asdict(progress)))
    return checked(question, budgets, monitor, whole=request["plan"]).model_dump_json()  # `fits` may be null


if __name__ == "__main__":
    run_step(check)
