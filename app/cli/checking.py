"""Many checks, several at once: each in one of as many processes as this machine has cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from emplace.app.cli.before import Before
from emplace.app.cli.comparing import PricedBy, compared
from emplace.app.cli.inputs import about_file
from emplace.app.cli.remote import check_on_server
from emplace.app.reports.change import CheckChange
from emplace.app.reports.checked import RefusedCheck, refused
from emplace.app.reports.outcome import Acknowledgement, CheckOutcome, Strictness
from emplace.app.reports.paste import Paste
from emplace.gate import Budgets, CheckResult, CheckVerdict
from emplace.hardware.machine import cores_here
from emplace.one_check import checked
from emplace.placement.catalog import model_file
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import InvalidDocument, MissingPackage
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import lines_in
from emplace.placement.stack import Stack
from emplace.planning import build_question
from emplace.runtime.side_by_side import in_processes
from emplace.solver.progress import Monitor

Say = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """One model on one host."""

    source: str
    """The model file, or the built-in name."""
    model: ModelSpec
    host: HostSpec
    budgets: Budgets
    options: PlanOptions
    whole: bool = False
    """Whether the best plan is looked for too."""
    cost_model: CostModel | None = None
    stack: Stack | None = None
    """What it is priced by; the host's own figures without either."""
    server: str | None = None
    """The service that answers, where this process does not."""
    where: str | None = None
    """The host as it was named."""
    level: Strictness = Strictness.ERROR
    acknowledged: tuple[Acknowledgement, ...] = ()
    """What comes of a no."""
    why: bool = False
    """Whether each fix is planned with, to say how long the step is then."""
    before: Before | None = None
    max_regression: float | None = None
    """What it is held against, and percent by which the step may be longer."""


def check_all(checks: Sequence[Check], say: Say, monitor: Monitor) -> Iterator[CheckOutcome | RefusedCheck]:
    """The answers in the order of the checks. One check alone is answered in this process, and tells `monitor` how it goes.

    Raises ToolError where a service fails, or a process ends by itself. Whatever ends this, its processes end too.
    """
    workers = min(len(checks), cores_here())
    if workers > 1:
        say(f"checking {len(checks)} in {workers} processes")
        for number, outcome in enumerate(in_processes(checks, _alone, workers), start=1):
            say(f"{number} of {len(checks)} checked")
            yield outcome
        return
    for check in checks:
        say(f"checking {check.model.name} on {check.host.name}")
        yield answered(check, monitor)


def answered(check: Check, monitor: Monitor) -> CheckOutcome | RefusedCheck:
    """The answer, or why the question is bad input. Raises ToolError."""
    started = time.perf_counter()
    try:
        result, change = _result(check, monitor)
    except MissingPackage as error:
        result, change = _undecided(check, error), None
    except InvalidDocument as error:
        return refused(check.source, check.host.name, about_file(error, check.source))
    seconds = time.perf_counter() - started
    found = {"source": check.source, "seconds": seconds, "line": _line(check, result)}
    strict = {
        "change": change,
        "pastes": _pastes(check, result, monitor),
        "where": check.where,
        "level": check.level,
        "acknowledged": check.acknowledged,
    }
    return CheckOutcome.model_construct(**dict(result) | found | strict)


def _line(check: Check, result: CheckResult) -> int | None:
    """Where the first table stands that is to blame; None where none is, or where the file has gone."""
    file, blamed = model_file(check.source), (result.explanation.tables or ()) if result.explanation else ()
    index = next((index for index, table in enumerate(check.model.tables) if table.name in blamed[:1]), None)
    if file is None or index is None:
        return None
    pointer = f"/tables/{index}"
    try:
        return lines_in(file, [pointer])[pointer]
    except InvalidDocument:
        return None


def _undecided(check: Check, error: MissingPackage) -> CheckResult:
    """Nothing easy decides it, and a small installation has nothing else."""
    question = build_question(check.model, check.host, check.options, check.cost_model, check.stack)
    return CheckResult(
        model=check.model.name,
        host=check.host.name,
        fits=None,
        verdict=CheckVerdict.UNDECIDED,
        summary=f"{check.model.name} on {check.host.name} is undecided: {error}",
        cost_source=question.cost_model.source,
    )


def _pastes(check: Check, result: CheckResult, monitor: Monitor) -> tuple[Paste, ...]:
    if result.explanation is None or not result.explanation.fixes:
        return ()
    from emplace.app.cli.pasting import pastes

    question = build_question(check.model, check.host, check.options, check.cost_model, check.stack)
    return pastes(question, result.explanation, check.source, check.where, with_steps=check.why, monitor=monitor)


def _result(check: Check, monitor: Monitor) -> tuple[CheckResult, CheckChange | None]:
    if check.server is not None:
        return check_on_server(
            check.server, check.model, check.host, check.options, check.cost_model, check.stack, check.budgets, whole=check.whole
        ), None
    question = build_question(check.model, check.host, check.options, check.cost_model, check.stack)
    if check.before is not None:
        prices = PricedBy(check.cost_model, check.stack)
        return compared(check.before, question, prices, check.budgets, check.max_regression, whole=check.whole, monitor=monitor)
    return checked(question, check.budgets, monitor, whole=check.whole), None


def _alone(check: Check) -> CheckOutcome | RefusedCheck:
    return answered(check, Monitor())
