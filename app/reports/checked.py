"""What a check of many models on many hosts found: what the reports are of."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.gate import CheckResult


@dataclass(frozen=True)
class Refused:
    """What could not be checked, because the model, or its question about the host, is bad input."""

    source: str
    """The model file, or the built-in name."""
    host: str | None
    """None where the model itself can't be read."""
    message: str

    @property
    def summary(self) -> str:
        return f"{self.source} is not checked" if self.host is None else f"{self.source} is not checked on {self.host}"


@dataclass(frozen=True)
class Checked:
    """Each model on each host, in the order asked for."""

    results: tuple[CheckResult, ...]
    refused: tuple[Refused, ...] = ()
