"""What a check of many models on many hosts found: what the reports are of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emplace.app.reports.outcome import CheckOutcome
from emplace.placement.errors import EmplaceError, InvalidDocument


@dataclass(frozen=True)
class Flaw:
    """One thing that is wrong with a question."""

    message: str
    pointer: str = ""
    """A JSON pointer into the document that breaks a rule."""
    line: int | None = None
    """The line of the model's file, where it is the one that breaks a rule."""


@dataclass(frozen=True)
class RefusedCheck:
    """What could not be checked, because the model, or its question about the host, is bad input."""

    source: str
    """The model file, or the built-in name."""
    host: str | None
    """None where the model itself can't be read."""
    message: str
    problems: tuple[Flaw, ...]

    @property
    def summary(self) -> str:
        return f"{self.source} is not checked" if self.host is None else f"{self.source} is not checked on {self.host}"


def refused(source: str, host: str | None, error: EmplaceError) -> RefusedCheck:
    """Why it was, rule by rule."""
    if not isinstance(error, InvalidDocument):
        return RefusedCheck(source, host, str(error), (Flaw(str(error)),))
    of_model = Path(error.source) == Path(source)
    problems = (
        Flaw(str(broken) if of_model else f"{error.source}: {broken}", broken.pointer, broken.line if of_model else None)
        for broken in error.broken_rules
    )
    return RefusedCheck(source, host, str(error), tuple(problems))


@dataclass(frozen=True)
class Checked:
    """Each model on each host, in the order asked for."""

    results: tuple[CheckOutcome, ...]
    refused: tuple[RefusedCheck, ...] = ()
    why: bool = False
    """Whether each no is to be explained at length."""
