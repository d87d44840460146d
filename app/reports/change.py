"""What a change of the documents does to a check: before, after, and what lies between."""

from __future__ import annotations

from enum import StrEnum

from emplace.app.reports.figures import microseconds, percent
from emplace.gate import CheckVerdict, TightestMemory
from emplace.placement.document import Document
from emplace.placement.units import show_gib


class ChangeKind(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    NEW = "new"
    UNKNOWN = "unknown"
    """What was there before can't be read."""


class Side(Document):
    """One of both sides."""

    verdict: CheckVerdict
    table_bytes: int
    """Weights and optimizer state of all tables."""
    step_time_us: float | None = None
    lower_bound_us: float | None = None
    gap: float | None = None
    tightest_memory: TightestMemory | None = None

    @property
    def headroom(self) -> float | None:
        """What part of the fullest memory is left."""
        memory = self.tightest_memory
        return None if memory is None else 1 - memory.used_bytes / max(memory.capacity_bytes, 1)


class CheckChange(Document):
    """From what stood before to what is asked now."""

    against: str
    kind: ChangeKind
    before: Side | None = None
    after: Side | None = None
    notes: tuple[str, ...] = ()
    """What can't be compared, and why."""
    comparable: bool = True
    """Whether both steps are of the same prices."""

    @property
    def step_share(self) -> float | None:
        """By what part the step is longer; None where that can't be said."""
        before, after = self.before, self.after
        if before is None or after is None or before.step_time_us is None or after.step_time_us is None or not self.comparable:
            return None
        return after.step_time_us / before.step_time_us - 1

    @property
    def is_within_gaps(self) -> bool:
        """Whether the best plans of both sides may take equally long."""
        before, after = self.before, self.after
        if before is None or after is None or before.step_time_us is None or after.step_time_us is None:
            return False
        return (after.lower_bound_us or 0.0) <= before.step_time_us and (before.lower_bound_us or 0.0) <= after.step_time_us


def change_cell(change: CheckChange | None) -> str:
    """In a table: by how much the step is longer."""
    if change is None:
        return ""
    if change.kind is not ChangeKind.CHANGED:
        return str(change.kind)
    if not change.comparable:
        return "not comparable"
    return "" if change.step_share is None else _signed(change.step_share)


def change_lines(change: CheckChange | None) -> list[str]:
    """In full: what changed, a line each."""
    if change is None or change.kind is ChangeKind.UNCHANGED:
        return []
    if change.before is None or change.after is None:
        return [f"against {change.against}: {change.kind}", *change.notes]
    return [f"against {change.against}:", *(f"  {line}" for line in _compared(change, change.before, change.after)), *change.notes]


def _compared(change: CheckChange, before: Side, after: Side) -> list[str]:
    lines = []
    if before.verdict is not after.verdict:
        lines.append(f"answer: {_words(before.verdict)}, now {_words(after.verdict)}")
    if before.table_bytes != after.table_bytes:
        more = after.table_bytes - before.table_bytes
        sign = "+" if more > 0 else "-"
        lines.append(f"tables: {show_gib(before.table_bytes)}, now {show_gib(after.table_bytes)} ({sign}{show_gib(abs(more))})")
    if before.step_time_us is None or after.step_time_us is None:
        return lines
    if before.step_time_us != after.step_time_us:
        share = (
            "" if change.step_share is None else f" ({_signed(change.step_share)}{', within the gaps' if change.is_within_gaps else ''})"
        )
        lines.append(f"step: {microseconds(before.step_time_us)}, now {microseconds(after.step_time_us)}{share}")
    for what, then, now in (("free of the fullest memory", before.headroom, after.headroom), ("gap", before.gap, after.gap)):
        if percent(then) != percent(now):
            lines.append(f"{what}: {percent(then)}, now {percent(now)}")
    return lines or ["the documents changed, the figures did not"]


def _words(verdict: CheckVerdict) -> str:
    return verdict.replace("_", " ")


def _signed(share: float) -> str:
    text = f"{share:+.2%}"
    return "0%" if text in ("+0.00%", "-0.00%") else text
