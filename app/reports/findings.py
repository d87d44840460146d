"""What a check found, one finding per broken or open rule: what SARIF, GitHub, GitLab and JUnit want."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from emplace.app.reports.checked import Checked, RefusedCheck
from emplace.app.reports.explanation_text import describe_fix
from emplace.app.reports.outcome import CheckOutcome
from emplace.app.reports.paste import Paste
from emplace.gate import CheckResult, CheckVerdict


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"


RULES = {
    "capacity": "The model's embedding tables must fit the host's memories.",
    "max-step-time": "The predicted step must not take longer than the stated time.",
    "min-throughput": "The predicted throughput must reach the stated rate.",
    "max-power": "The job's servers must draw no more than the stated watts.",
    "max-regression": "The predicted step must not take longer than the baseline's, by more than the stated percentage.",
    "undecided": "The check must be decided within its limit.",
    "bad-input": "A model and its question must keep the rules of their documents.",
}


@dataclass(frozen=True)
class Finding:
    rule: str
    level: Level
    message: str
    source: str
    """The model file, or the built-in name."""
    what: str
    """Tells this finding from others of its rule and source, in words that stay the same while it does: no figures, no lines."""
    line: int | None = None
    pastes: tuple[Paste, ...] = ()

    @property
    def located(self) -> str:
        """The message with its place, where nothing else says it."""
        return self.message if self.line is None else f"{self.source}:{self.line}: {self.message}"

    @property
    def fingerprint(self) -> str:
        """The same for the same finding, wherever its line has moved to and whatever its figures are now."""
        return hashlib.sha256("\0".join((self.rule, Path(self.source).as_posix(), self.what)).encode(errors="replace")).hexdigest()[:32]


def findings(checked: Checked) -> list[Finding]:
    """Proven noes and bad input are errors, undecided ones warnings."""
    found = [finding for result in checked.results for finding in findings_of(result)]
    return found + [finding for each in checked.refused for finding in findings_of_refused(each)]


def findings_of_refused(refused: RefusedCheck) -> list[Finding]:
    """One for each rule that is broken."""
    on = refused.host or ""
    times = Counter[str]()
    found = []
    for problem in refused.problems:
        times[problem.pointer] += 1
        what = f"{on} {problem.pointer} {times[problem.pointer]}"
        found.append(Finding("bad-input", Level.ERROR, problem.message, refused.source, what, problem.line))
    return found


def findings_of(result: CheckOutcome) -> list[Finding]:
    """What is broken is an error; a warning where the config says so, or where it is acknowledged. What is open is a warning."""
    source = result.source or result.model
    if result.verdict is CheckVerdict.DOES_NOT_FIT:
        message = f"{result.summary}. {_explained(result)}".strip()
        return [_broken(result, "capacity", message, result.host, result.line)]
    found = []
    for budget in result.budgets:
        message, what = f"{result.model} on {result.host}: {budget.message}", f"{result.host} {budget.rule}"
        if budget.kept is False:
            found.append(_broken(result, budget.rule, message, what))
        elif budget.kept is None:
            found.append(Finding("undecided", Level.WARNING, message, source, what))
    if not found and result.verdict is CheckVerdict.UNDECIDED:
        found.append(Finding("undecided", Level.WARNING, result.summary, source, result.host))
    return found


def _broken(result: CheckOutcome, rule: str, message: str, what: str, line: int | None = None) -> Finding:
    known = result.known(rule)
    said = message if known is None else f"{message} ({known.said})"
    level = Level.WARNING if result.warns_only(rule) else Level.ERROR
    return Finding(rule, level, said, result.source or result.model, what, line, result.pastes if rule == "capacity" else ())


def _explained(result: CheckResult) -> str:
    if result.explanation is None:
        return ""
    fixes = [describe_fix(fix) for fix in result.explanation.fixes]
    return "; ".join(result.explanation.reasons) + (f". What would make it fit: {'; '.join(fixes)}" if fixes else "")
