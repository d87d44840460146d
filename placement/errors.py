"""What can go wrong, as one tree. Every leaf is shown to a person without a traceback.

EmplaceError
 |- InvalidDocument             a spec, plan or cost model breaks a rule: says file, line, field, value and rule
 |- OutdatedDocument            an earlier version stored it, and this one can't read it (app.database.stored)
 |- UnknownName                 no built-in model or host of that name, and no such file
 |- ToolError                   the request is fine, but this machine or installation can't do it
 |   |- MissingPackage          the question takes a package that is not installed; says which, and how to install it
 |   `- NotRunnableHere         the plan can't be executed on this machine; says why (executor.errors)
 |- RanksFailed                 processes that train or measure ended early (runtime.ranks); profiler and executor say so as errors of their own
 |   `- RanksTimedOut           they did not end in time (runtime.ranks)
 `- ExecutionFailed             a rank failed, or the run took too long; says which and why (executor.errors)
     `- ExecutionCancelled      someone asked it to stop (executor.errors)
"""

from __future__ import annotations

from dataclasses import dataclass


class EmplaceError(Exception):
    """Base of every error that is shown to a person without a traceback."""


_MAX_POINTER = 200


@dataclass(frozen=True)
class BrokenRule:
    """A rule of a document that a value breaks. `pointer` is a JSON pointer (RFC 6901); `value` is text, empty where none is shown."""

    pointer: str
    value: str
    rule: str
    line: int | None = None
    """Where the document was read from text: the line on which the value begins, or what should hold it."""
    named: str = ""
    """The value's way through the document with names in place of numbers, up to the last that has one: tables[user_id]."""

    def __str__(self) -> str:
        where = _shown(self.pointer) or "(document)"
        return f"{where}: {self.rule}" + (f" (got {self.value})" if self.value else "") + (f", in {self.named}" if self.named else "")


def _shown(pointer: str) -> str:
    """A pointer on one line of a terminal, whatever a key holds."""
    cut = pointer if len(pointer) <= _MAX_POINTER else pointer[: _MAX_POINTER - 3] + "..."
    return cut if cut.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


class InvalidDocument(EmplaceError):
    """The document from `source` breaks one or more rules."""

    def __init__(self, source: str, broken_rules: list[BrokenRule]) -> None:
        self.source = source
        self.broken_rules = broken_rules
        super().__init__("\n".join(f"{source}{'' if broken.line is None else f':{broken.line}'}: {broken}" for broken in broken_rules))


class UnknownName(EmplaceError):
    """Neither a built-in name nor a file."""


class ToolError(EmplaceError):
    """The input is fine; something this needs is missing or failed."""


class MissingPackage(ToolError):
    """The answer takes a package that a small installation leaves out."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"this takes {package}, which is not installed: pip install '.[solve]' in a checkout of Emplace (docs/dependencies.md)"
        )
