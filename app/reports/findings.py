"""What a check found, one finding per broken or open rule: what SARIF, GitHub and JUnit want."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from emplace.app.reports.checked import Checked
from emplace.app.reports.explanation_text import describe_fix
from emplace.gate import CheckResult, CheckVerdict


class Level(StrEnum):
    ERROR = "error"
    WARNING = "warning"


RULES = {
    "capacity": "The model's embedding tables must fit the host's memories.",
    "max-step-time": "The predicted step must not take longer than the stated time.",
    "min-throughput": "The predicted throughput must reach the stated rate.",
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


def findings(checked: Checked) -> list[Finding]:
    """Proven noes and bad input are errors, undecided ones warnings."""
    refused = [Finding("bad-input", Level.ERROR, each.message, each.source) for each in checked.refused]
    return [finding for result in checked.results for finding in findings_of(result)] + refused


def findings_of(result: CheckResult) -> list[Finding]:
    source = result.source or result.model
    if result.verdict is CheckVerdict.DOES_NOT_FIT:
        return [Finding("capacity", Level.ERROR, f"{result.summary}. {_explained(result)}".strip(), source)]
    found = []
    for budget in result.budgets:
        if budget.kept is not True:
            rule, level = (budget.rule, Level.ERROR) if budget.kept is False else ("undecided", Level.WARNING)
            found.append(Finding(rule, level, f"{result.model} on {result.host}: {budget.message}", source))
    if not found and result.verdict is CheckVerdict.UNDECIDED:
        found.append(Finding("undecided", Level.WARNING, result.summary, source))
    return found


def _explained(result: CheckResult) -> str:
    if result.explanation is None:
        return ""
    fixes = [describe_fix(fix) for fix in result.explanation.fixes]
    return "; ".join(result.explanation.reasons) + (f". What would make it fit: {'; '.join(fixes)}" if fixes else "")
