"""A check as text, for a terminal or a log: a sentence, a table, and of each no why, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emplace.app.reports.change import change_lines
from emplace.app.reports.checked import Checked
from emplace.app.reports.columns import in_columns, paragraph, width
from emplace.app.reports.explanation_text import describe_fix
from emplace.app.reports.figures import microseconds, percent, rate
from emplace.app.reports.outcome import CheckOutcome
from emplace.app.reports.rows import HEADING, is_shown, row_of, row_of_refused, sentence
from emplace.gate import CheckVerdict
from emplace.placement.plan import Explanation, StoppedBy

_SHOWN = 3
"""Reasons and fixes of a no, where nothing longer was asked for."""
_FIGURES = (3, 6)
"""Columns that are set to the right."""
_RAN_OUT = {
    StoppedBy.TIME: "the time ran out: a longer --time-limit may decide it",
    StoppedBy.WORK: "the counted work ran out: a longer --work-limit may decide it",
}
"""By `stopped_by`."""


def text_report(checked: Checked) -> str:
    """No line is longer than the terminal is wide."""
    columns = width()
    shown = [result for result in checked.results if is_shown(result)]
    rows = [HEADING, *map(row_of, shown), *map(row_of_refused, checked.refused)]
    lines = [*paragraph(sentence(checked), columns), ""]
    lines += in_columns(rows, columns, right=_FIGURES) if len(rows) > 1 else []
    at_length = checked.why or len(rows) == 2
    for result in shown:
        if said := list(details(result, in_full=at_length, why=checked.why)):
            lines += ["", *paragraph(f"{result.source or result.model} on {result.host}", columns), *_wrapped(said, columns)]
    for result in shown if checked.why else ():
        lines += _patches(result)
    for each in checked.refused:
        lines += ["", *paragraph(each.summary, columns), *_wrapped(each.message.splitlines(), columns)]
    return "\n".join(lines) + "\n"


def _patches(result: CheckOutcome) -> list[str]:
    """To be pasted: neither wrapped nor indented."""
    return [
        line
        for paste in result.pastes
        if paste.patch
        for line in ("", f"git apply, to {paste.change}:", "", *paste.patch.rstrip("\n").split("\n"))
    ]


def details(result: CheckOutcome, *, in_full: bool, why: bool) -> Iterator[str]:
    """What there is to say of a check: a line each, not yet wrapped."""
    if in_full and result.step_time_us is not None:
        yield f"step {microseconds(result.step_time_us)}, {_how_good(result)}; {rate(result.throughput_samples_per_s)}"
        yield f"{result.cost_source} figures{_range(result)}"
    yield from (budget.message for budget in result.budgets if in_full or budget.kept is not True or budget.sure is False)
    if result.verdict is CheckVerdict.UNDECIDED and result.stopped_by in _RAN_OUT:
        yield _RAN_OUT[result.stopped_by]
    yield from change_lines(result.change)
    explanation = result.explanation
    if explanation is None:
        return
    yield "why:"
    yield from (f"- {reason}" for reason in _cut(explanation.reasons, why))
    if explanation.fixes:
        yield "what would make it fit:"
        yield from (f"- {fix}" for fix in _cut(_fixes(result, explanation), why))


def _fixes(result: CheckOutcome, explanation: Explanation) -> list[str]:
    """With the step that each leads to, where that was asked for."""
    steps = [paste.step_time_us for paste in result.pastes] or [None] * len(explanation.fixes)
    then = ("" if step_us is None else f"; then the step takes {microseconds(step_us)}" for step_us in steps)
    return [f"{describe_fix(fix)}{said}" for fix, said in zip(explanation.fixes, then, strict=True)]


def _cut(lines: Sequence[str], why: bool) -> list[str]:
    if why or len(lines) <= _SHOWN:
        return list(lines)
    return [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more: --why"]


def _wrapped(lines: Sequence[str], columns: int) -> Iterator[str]:
    for line in lines:
        text = line.lstrip()
        indent = " " * (2 + len(line) - len(text))
        yield from paragraph(text.removeprefix("- "), columns, first=f"{indent}- " if text.startswith("- ") else indent)


def _range(result: CheckOutcome) -> str:
    if result.step_range_us is None:
        return ""
    fast_us, slow_us = result.step_range_us
    return f", the step may take {microseconds(fast_us)} to {microseconds(slow_us)}"


def _how_good(result: CheckOutcome) -> str:
    bound = f"no placement takes less than {microseconds(result.lower_bound_us)}"
    if result.stopped_by is StoppedBy.TARGET:  # its gap says nothing of how good a plan could be
        return f"not optimised, --plan does that; {bound}"
    return f"{bound}: gap {percent(result.gap)}, {percent(result.placement_gap)} of what placement decides"
