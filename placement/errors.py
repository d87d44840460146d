"""What can go wrong, as one tree. Every leaf is shown to a person without a traceback.

EmplaceError
 |- InvalidDocument             a spec, plan or cost model breaks a rule: says file, field, value and rule
 |- UnknownName                 no built-in model or host of that name, and no such file
 |- ToolError                   the request is fine, but this machine or installation can't do it
 |   `- NotRunnableHere         the plan can't be executed on this machine; says why (executor.errors)
 |- RanksFailed                 processes under torchrun ended early (runtime.torchrun); profiler and executor say so as errors of their own
 |   `- RanksTimedOut           they did not end in time (runtime.torchrun)
 `- ExecutionFailed             a rank failed, or the run took too long; says which and why (executor.errors)
     `- ExecutionCancelled      someone asked it to stop (executor.errors)
"""

from __future__ import annotations

from dataclasses import dataclass


class EmplaceError(Exception):
    """Base of every error that is shown to a person without a traceback."""


@dataclass(frozen=True)
class BrokenRule:
    """A rule of a document that a value breaks. `pointer` is a JSON pointer (RFC 6901); `value` is text, empty where none is shown."""

    pointer: str
    value: str
    rule: str

    def __str__(self) -> str:
        where = self.pointer or "(document)"
        return f"{where}: {self.rule}" + (f" (got {self.value})" if self.value else "")


class InvalidDocument(EmplaceError):
    """The document from `source` breaks one or more rules."""

    def __init__(self, source: str, broken_rules: list[BrokenRule]) -> None:
        self.source = source
        self.broken_rules = broken_rules
        super().__init__("\n".join(f"{source}: {broken}" for broken in broken_rules))


class UnknownName(EmplaceError):
    """Neither a built-in name nor a file."""


class ToolError(EmplaceError):
    """The input is fine; something this needs is missing or failed."""
