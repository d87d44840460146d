"""The answer to one check as the command reports it: with how strict it was asked, and what is known of it."""

from __future__ import annotations

from datetime import date
from enum import StrEnum

from emplace.app.reports.change import CheckChange
from emplace.app.reports.paste import Paste
from emplace.gate import CheckResult, CheckVerdict
from emplace.placement.document import Document


class Strictness(StrEnum):
    """What comes of a no, and of an answer that is open: nothing is asked, a warning, or it fails the check."""

    OFF = "off"
    WARN = "warn"
    ERROR = "error"


class Acknowledgement(Document):
    """A broken rule that is known: a warning, until the day is over."""

    rule: str
    reason: str
    until: date
    is_over: bool

    @property
    def said(self) -> str:
        """For people."""
        return f"acknowledged until {self.until}{', which is over' if self.is_over else ''}: {self.reason}"


class CheckOutcome(CheckResult):
    """A result, and what comes of it."""

    where: str | None = None
    """The host as it was named: a built-in name or a file."""
    level: Strictness = Strictness.ERROR
    acknowledged: tuple[Acknowledgement, ...] = ()
    pastes: tuple[Paste, ...] = ()
    """One for each fix of the explanation."""
    change: CheckChange | None = None
    """From what it is held against, where that was asked for."""

    @property
    def broken_rules(self) -> list[str]:
        """What is proven to be broken."""
        if self.verdict is CheckVerdict.DOES_NOT_FIT:
            return ["capacity"]
        return [budget.rule for budget in self.budgets if budget.kept is False]

    def known(self, rule: str) -> Acknowledgement | None:
        """What is known of a broken rule: of several, what holds longest."""
        return max((each for each in self.acknowledged if each.rule == rule), key=lambda each: each.until, default=None)

    def warns_only(self, rule: str) -> bool:
        """Whether a broken rule fails nothing."""
        known = self.known(rule)
        return self.level is Strictness.WARN or (known is not None and not known.is_over)

    @property
    def fails(self) -> bool:
        """Whether it is a no that counts."""
        return any(not self.warns_only(rule) for rule in self.broken_rules)

    @property
    def is_open(self) -> bool:
        """Whether it is undecided, and that counts."""
        return self.fits is None and self.level is Strictness.ERROR
