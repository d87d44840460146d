"""The table of docs/lab/planner.md from lines of benchmarks/torchrec_planner.py:  python -m benchmarks.torchrec_table RESULTS.jsonl"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

from benchmarks.markdown import head, print_table


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: a row per case, then the geometric mean over the cases where both have a plan."""
    yield head("case", "TorchRec ms", "s", "Emplace ms", "s", "proven gap", "TorchRec / Emplace")
    ratios = []
    for line in lines:
        theirs, ours = line["torchrec"], line["emplace"]
        ratio = theirs["rating_ms"] / ours["rating_ms"] if theirs and theirs["ok"] and ours["ok"] else None
        ratios += [] if ratio is None else [ratio]
        yield f"| {line['case']} | {_theirs(theirs)} | {_ours(ours)} | {'' if ratio is None else f'{ratio:.2f}'} |"
    yield ""
    if ratios:
        mean = geometric_mean(ratios)
        yield f"Geometric mean of the last column {mean:.2f}, least {min(ratios):.2f}, over {len(ratios)} cases with both plans."


def _theirs(torchrec: dict[str, Any] | None) -> str:
    if torchrec is None:
        return "not run | "
    return f"{torchrec['rating_ms']:.4g} | {torchrec['seconds']:.1f}" if torchrec["ok"] else f"no plan | {torchrec['seconds']:.1f}"


def _ours(emplace: dict[str, Any]) -> str:
    if not emplace["ok"]:
        return f"{emplace['status']} | {emplace['seconds']:.1f} | "
    gap = "optimal" if emplace["status"] == "optimal" else f"{emplace['gap']:.2%}"
    return f"{emplace['rating_ms']:.4g} | {emplace['seconds']:.1f} | {gap}"


if __name__ == "__main__":
    print_table(__doc__, table)
