"""The table of docs/reference/benchmarks.md from the lines of benchmarks/planted.py:  python -m benchmarks.planted_table RESULTS.jsonl"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import head, print_table


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    yield head("tables x devices", "draw", "HBM load", "kinds", "stages", "work s", "gap", "plan above the known one", "bound below it")
    for line in lines:
        known, sides = line["planted_us"], ["no plan", "", ""]
        if known is not None:
            above = "no plan" if line["step_time_us"] is None else f"{line['step_time_us'] / known - 1:.2%}"
            sides = [f"{line['gap']:.2%}", above, f"{1 - line['lower_bound_us'] / known:.2%}"]
        yield (
            f"| {line['tables']} x {line['devices']} | {line['draw']} | {line['hbm_load']:.0%} | {line['kinds']} | {line['stages']} "
            f"| {line['limit_seconds']:.0f} | {' | '.join(sides)} |"
        )


if __name__ == "__main__":
    print_table(__doc__, table)
