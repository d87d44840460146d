"""The interchangeable reports of a check: each turns a list of results into text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from emplace.app.reports.checked import Checked
from emplace.app.reports.explanation_text import explanation_lines
from emplace.app.reports.figures import microseconds, percent, rate
from emplace.app.reports.github import github_report
from emplace.app.reports.gitlab import gitlab_report
from emplace.app.reports.json_report import json_report
from emplace.app.reports.junit import junit_report
from emplace.app.reports.markdown import markdown_report
from emplace.app.reports.sarif import sarif_report
from emplace.gate import CheckResult, CheckVerdict
from emplace.placement.plan import AT_TARGET
from emplace.placement.units import show_gib

Reporter = Callable[[Checked], str]

MARKS = {CheckVerdict.FITS: "ok", CheckVerdict.DOES_NOT_FIT: "NO", CheckVerdict.OVER_BUDGET: "NO", CheckVerdict.UNDECIDED: "??"}


REFUSED = "!!"
_IN_WORDS = {
    CheckVerdict.FITS: "fit",
    CheckVerdict.DOES_NOT_FIT: "do not fit",
    CheckVerdict.OVER_BUDGET: "break a budget",
    CheckVerdict.UNDECIDED: "undecided",
}


def text_report(checked: Checked) -> str:
    """The results as text for a terminal or a log: of several the count of each answer, then each with its file, then each."""
    of_several = len(checked.results) + len(checked.refused) > 1
    lines = [_counted(checked), ""] if of_several else []
    for result in checked.results:
        lines += _lines(result, with_source=of_several)
    lines += [f"{REFUSED}  {each.summary}: bad input" for each in checked.refused]
    return "\n".join(lines) + "\n"


def _counted(checked: Checked) -> str:
    counts = Counter(result.verdict for result in checked.results)
    words = [f"{counts[verdict]} {words}" for verdict, words in _IN_WORDS.items() if counts[verdict]]
    if checked.refused:
        words.append(f"{len(checked.refused)} bad input")
    return f"{len(checked.results) + len(checked.refused)} checks: {', '.join(words)}"


def _lines(result: CheckResult, *, with_source: bool) -> list[str]:
    source = f"  ({result.source})" if with_source and result.source not in (None, result.model) else ""
    lines = [f"{MARKS[result.verdict]}  {result.summary}{source}"]
    if result.step_time_us is not None:
        step = f"step {microseconds(result.step_time_us)} ({_how_good(result)})"
        lines.append(f"    {step}, {rate(result.throughput_samples_per_s)}, {result.cost_source} figures{_range(result)}")
    if (memory := result.tightest_memory) is not None and result.step_time_us is not None:
        share = percent(memory.used_bytes / max(memory.capacity_bytes, 1))
        lines.append(f"    fullest memory: {memory.where}, {show_gib(memory.used_bytes)} of {show_gib(memory.capacity_bytes)} ({share})")
    lines += [f"    {budget.message}" for budget in result.budgets]
    if result.explanation is not None:
        lines += [f"    {line}" for line in explanation_lines(result.explanation)]
    return lines


def _range(result: CheckResult) -> str:
    if result.step_range_us is None:
        return ""
    fast_us, slow_us = result.step_range_us
    return f": {microseconds(fast_us)} to {microseconds(slow_us)}"


def _how_good(result: CheckResult) -> str:
    bound = f"bound {microseconds(result.lower_bound_us)}"
    if result.stopped_by == AT_TARGET:  # its gap says nothing of how good a plan could be
        return f"not optimised, --plan does that; {bound}"
    return f"{bound}, gap {percent(result.gap)}, {percent(result.placement_gap)} of what placement decides"


REPORTERS: dict[str, Reporter] = {
    "text": text_report,
    "json": json_report,
    "junit": junit_report,
    "sarif": sarif_report,
    "github": github_report,
    "markdown": markdown_report,
    "gitlab": gitlab_report,
}
