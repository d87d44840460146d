"""The tables of small asynchronous fleets, from the JSON lines of `python -m benchmarks.asynchronous`.

python -m benchmarks.asynchronous_table RESULTS.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import head, print_table


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """Throughput and what limits it, then quality where a case has a baseline."""
    yield head("case", "examples/s predicted", "measured", "ratio", "limits, predicted", "measured")
    for line in lines:
        predicted, measured = line["predicted"], line["measured"]
        rates = f"{predicted['throughput_examples_per_s']:,.0f} | {measured['throughput_examples_per_s']:,.0f}"
        yield f"| {line['case']} | {rates} | {line['predicted_over_measured']:.2f} | {_limit(predicted)} | {_limit(measured)} |"
    yield ""
    yield head("case", "normalised entropy", "synchronous", "best possible", "rows stale, mean", "most", "centre stale, mean", "most")
    for line in lines:
        if line["synchronous"] is not None:
            quality, rows, centre = line["quality"], line["staleness"]["rows"], line["staleness"]["centre"]
            reached = (quality["normalised_entropy"], line["synchronous"]["normalised_entropy"], quality["best_normalised_entropy"])
            stale = f"{rows['mean']:.2f} | {rows['most']} | {centre['mean']:.2f} | {centre['most']}"
            yield f"| {line['case']} | {' | '.join(f'{each:.4f}' for each in reached)} | {stale} |"


def _limit(loads: dict[str, Any]) -> str:
    limiting = loads["limiting"]
    return f"{limiting.replace('_', ' ')} {loads['utilisation'][limiting]:.0%}"


if __name__ == "__main__":
    print_table(__doc__, table)
