"""The table of docs/lab/infeasible.md from the lines of benchmarks/infeasible.py:  python -m benchmarks.infeasible_table RESULTS.jsonl"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import head, print_table


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    yield head("tables over", "tables x devices", "proven", "seconds", "fixes, each re-solved")
    for line in lines:
        proven = "yes" if line["proven"] else "no"
        yield f"| {line['case']} | {line['tables']} x {line['devices']} | {proven} | {line['seconds']:.1f} | {'; '.join(line['fixes'])} |"


if __name__ == "__main__":
    print_table(__doc__, table)
