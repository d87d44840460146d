"""A check as Markdown, for a comment on a change or a job summary."""

from __future__ import annotations

from emplace.app.reports.checked import Checked, RefusedCheck
from emplace.app.reports.explanation_text import describe_fix
from emplace.app.reports.figures import microseconds, percent, rate
from emplace.gate import CheckResult, CheckVerdict
from emplace.placement.units import show_gib

MARKER = "<!-- emplace check -->"
"""Begins every report, and is not shown: by it a comment is found again, to be replaced by a newer one."""
_WORDS = {
    CheckVerdict.FITS: "fits",
    CheckVerdict.DOES_NOT_FIT: "**does not fit**",
    CheckVerdict.OVER_BUDGET: "**over budget**",
    CheckVerdict.UNDECIDED: "undecided",
}


def markdown_report(checked: Checked) -> str:
    lines = [
        MARKER,
        "",
        "| model | host | answer | predicted step | gap | of what placement decides | throughput | fullest memory | figures |",
        "|---|---|---|--:|--:|--:|--:|--:|---|",
    ]
    lines += [_row(result) for result in checked.results] + [_refused_row(each) for each in checked.refused]
    for result in checked.results:
        lines += _details(result)
    for each in checked.refused:
        lines += ["", f"**{_escaped(each.summary)}**", "", *(f"- {_escaped(line)}" for line in each.message.splitlines())]
    return "\n".join(lines) + "\n"


def _row(result: CheckResult) -> str:
    memory = result.tightest_memory if result.step_time_us is not None else None
    cells = (
        _escaped(result.source or result.model),
        result.host,
        _WORDS[result.verdict],
        microseconds(result.step_time_us),
        percent(result.gap),
        percent(result.placement_gap),
        rate(result.throughput_samples_per_s),
        f"{show_gib(memory.used_bytes)} of {show_gib(memory.capacity_bytes)}, {memory.where}" if memory else "-",
        str(result.cost_source),
    )
    return f"| {' | '.join(cells)} |"


def _refused_row(refused: RefusedCheck) -> str:
    return f"| {' | '.join((_escaped(refused.source), refused.host or '-', '**bad input**', *'------'))} |"


def _details(result: CheckResult) -> list[str]:
    lines = [f"- {_escaped(budget.message)}" for budget in result.budgets]
    if result.explanation is not None:
        lines += [f"- {_escaped(reason)}" for reason in result.explanation.reasons]
        lines += [f"- fix: {_escaped(describe_fix(fix))}" for fix in result.explanation.fixes]
    return ["", f"**{_escaped(result.summary)}**", "", *lines] if lines else []


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
