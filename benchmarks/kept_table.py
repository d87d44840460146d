"""Two runs of benchmarks.kept side by side:  python -m benchmarks.kept_table BEFORE.jsonl AFTER.jsonl

Exit code 1 where a question is answered differently.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.json_lines import read_lines
from benchmarks.markdown import head


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    before, after = (_by_question(Path(name)) for name in sys.argv[1:3])
    both = [(before[name], after[name]) for name in before if name in after]
    print(head("question", "status", "step, ms", "gap", "the same", "seconds before", "after"))
    for one, other in both:
        print(f"| {' | '.join(_row(one, other))} |")
    differ = sum(one["digest"] != other["digest"] for one, other in both)
    total = sum(other["seconds"] for _, other in both) / sum(one["seconds"] for one, _ in both)
    ratio = statistics.median(other["seconds"] / one["seconds"] for one, other in both)
    print(f"\n{len(both)} questions, {differ} answered differently; seconds in all x {total:.3f}, median ratio {ratio:.3f}")
    sys.exit(1 if differ or len(both) < len(before) else 0)


def _by_question(path: Path) -> dict[str, dict[str, Any]]:
    """Each question's line; of several runs the one with the median of seconds."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for answered in read_lines(path):
        runs.setdefault(answered["question"], []).append(answered)
    return {name: sorted(lines, key=lambda each: each["seconds"])[len(lines) // 2] for name, lines in runs.items()}


def _row(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    step_us, gap = before["step_time_us"], before["gap"]
    return [
        before["question"],
        before["status"],
        "" if step_us is None else f"{step_us / 1e3:.3f}",
        "" if gap is None else f"{100 * gap:.2f}%",
        "yes" if before["digest"] == after["digest"] else "NO",
        f"{before['seconds']:.2f}",
        f"{after['seconds']:.2f}",
    ]


if __name__ == "__main__":
    main()
