"""What the text and the Markdown report have in common: one sentence, and a row for each model on each host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from emplace.app.reports.change import ChangeKind, change_cell
from emplace.app.reports.checked import Checked, RefusedCheck
from emplace.app.reports.figures import count, microseconds, percent
from emplace.app.reports.outcome import CheckOutcome
from emplace.gate import CheckVerdict
from emplace.placement.units import show_gib

_SHOWN = 3
_WORDS = {
    CheckVerdict.FITS: "fits",
    CheckVerdict.DOES_NOT_FIT: "does not fit",
    CheckVerdict.OVER_BUDGET: "over budget",
    CheckVerdict.UNDECIDED: "undecided",
}


class Row(NamedTuple):
    """The cells of one check."""

    answer: str
    model: str
    host: str
    step: str
    change: str
    fullest: str
    free: str


HEADING = Row("", "model", "host", "step", "change", "fullest memory", "free")


def row_of(result: CheckOutcome) -> Row:
    """A no that fails nothing is a warning."""
    memory = result.tightest_memory if result.step_time_us is not None else None
    words = _WORDS[result.verdict]
    fullest = f"{_of(memory.used_bytes, memory.capacity_bytes)}, {memory.where}" if memory else ""
    return Row(
        answer=f"{words} (warning)" if _only_warns(result) else words,
        model=result.source or result.model,
        host=result.host,
        step=microseconds(result.step_time_us) if result.step_time_us is not None else "",
        change=change_cell(result.change),
        fullest=fullest,
        free="" if memory is None else percent(1 - memory.used_bytes / max(memory.capacity_bytes, 1)),
    )


def row_of_refused(refused: RefusedCheck) -> Row:
    return Row("bad input", refused.source, refused.host or "", "", "", "", "")


def is_shown(result: CheckOutcome) -> bool:
    """All but what fits and has not changed, where only changes were asked for."""
    return result.change is None or result.change.kind is not ChangeKind.UNCHANGED or result.fits is not True


def sentence(checked: Checked) -> str:
    """The verdict on all of it, which a person reads first."""
    results, refused = checked.results, checked.refused
    if len(results) == 1 and not refused:
        return _alone(results[0])
    failing = [result.summary for result in results if result.fails]
    total = len(results) + len(refused)
    if not failing and not refused and all(result.fits for result in results):
        said = f"All {count(total, 'check')} fit"
    elif failing:
        named = "; ".join(failing[:_SHOWN]) + (f"; and {len(failing) - _SHOWN} more" if len(failing) > _SHOWN else "")
        said = f"{len(failing)} of {count(total, 'check')} {'fails' if len(failing) == 1 else 'fail'}: {named}"
    else:
        fit = sum(result.fits is True for result in results)
        said = f"{fit} of {count(total, 'check')} {'fits' if fit == 1 else 'fit'}"
    return f"{said}{_beside(checked)}."


def _alone(result: CheckOutcome) -> str:
    known = [each.said for rule in result.broken_rules if (each := result.known(rule))]
    warning = ", which is a warning here" if _only_warns(result) and not known else ""
    return f"{result.summary}{warning}{''.join(f' ({said})' for said in known)}{_unchanged([result])}."


def _beside(checked: Checked) -> str:
    """What else there is to say, in numbers."""
    counts = (
        (sum(map(_only_warns, checked.results)), "only warned of"),
        (sum(result.fits is None for result in checked.results), "undecided"),
        (len(checked.refused), "bad input"),
    )
    return "".join(f"; {number} {words}" for number, words in counts if number) + _unchanged(checked.results)


def _unchanged(results: Sequence[CheckOutcome]) -> str:
    changes = [result.change for result in results if result.change is not None]
    if not changes:
        return ""
    same = sum(change.kind is ChangeKind.UNCHANGED for change in changes)
    return f"; {len(changes) - same} changed since {changes[0].against}, {same} did not"


def _only_warns(result: CheckOutcome) -> bool:
    return bool(result.broken_rules) and not result.fails


def _of(used_bytes: int, capacity_bytes: int) -> str:
    """With one unit where it is the same."""
    used, there = show_gib(used_bytes), show_gib(capacity_bytes)
    number, _, unit = used.partition(" ")
    return f"{number} of {there}" if there.endswith(f" {unit}") else f"{used} of {there}"
