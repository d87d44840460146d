"""The table of docs/lab/solver.md from the lines of benchmarks/solver.py:  python -m benchmarks.solver_table RESULTS.jsonl"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import head, print_table


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    yield head(
        "tables x devices",
        "draw",
        "HBM load",
        "kinds",
        "stages",
        "limit s",
        "bound s",
        "wall s",
        "work s",
        "proven gap",
        "of placement",
        "peak GiB",
    )
    for line in lines:
        gap = "no plan" if line["gap"] is None else "optimal" if line["stopped_by"] == "exact" else f"{line['gap']:.2%}"
        # Lines of before 24 November 2026 have neither the gap of what placement decides nor counted work.
        of_placement = "" if line.get("placement_gap") is None else f"{line['placement_gap']:.2%}"
        work = "" if line.get("work_seconds") is None else f"{line['work_seconds']:.1f}"
        limit = f"{line['limit_seconds']:.0f} {line.get('limit_kind', 'work')}"
        yield (
            f"| {line['tables']} x {line['devices']} | {line.get('draw', 1)} | {line['hbm_load']:.0%} | {line['kinds']} | {line['stages']} | {limit} "
            f"| {line['bound_seconds']:.1f} | {line['seconds']:.1f} | {work} | {gap} | {of_placement} | {line['peak_bytes'] / 2**30:.1f} |"
        )


if __name__ == "__main__":
    print_table(__doc__, table)
