"""`python -m benchmarks.executed_table FILE`: what benchmarks.executed wrote, as the table of docs/lab/executed.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from benchmarks.markdown import head, print_table

_RATIOS = ("ratio", "predicted_ratio", "largest_ratio")


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown: a row per comparison, then geometric means, then what was left out."""
    compared = [line for line in lines if "left_out" not in line]
    yield head("model", "ranks", "TorchRec, ms", "Emplace, ms", "TorchRec / Emplace", "predicted", "at most", "Emplace's sharding types")
    for line in compared:
        yield _row(line)
    yield ""
    yield from _means(compared)
    yield from (f"- left out: {line['model']}, {line['ranks']} ranks: {line['left_out']}" for line in lines if "left_out" in line)


def _row(line: dict[str, Any]) -> str:
    theirs, ours = line["plans"][f"torchrec {line['torchrec_best']}"], line["plans"]["emplace"]
    low, high = line["ratio_interval"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in ours["sharding_types"].items())
    kinds += " (TorchRec's plan)" if line["same_placement"] else ""
    name = line["model"] if line["placement_matters"] else f"{line['model']} *"
    measured, predicted, largest = (f"{line[key]:.2f}" for key in _RATIOS)
    ratios = f"{measured} ({low:.2f} .. {high:.2f}) | {predicted} | {largest}"
    return f"| {name} | {line['ranks']} | {_time(theirs)} | {_time(ours)} | {ratios} | {kinds} |"


def _time(figures: dict[str, Any]) -> str:
    return f"{figures['step_ms']:.1f} ({figures['fastest_launch_ms']:.1f} .. {figures['slowest_launch_ms']:.1f})"


def _means(compared: Sequence[dict[str, Any]]) -> Iterator[str]:
    for matters, which in ((True, "where placement can matter"), (False, "where it can't (*)")):
        lines = [line for line in compared if line["placement_matters"] is matters]
        if lines:
            measured, predicted, largest = (geometric_mean([line[key] for line in lines]) for key in _RATIOS)
            yield (
                f"- geometric mean {which}: {measured:.3f} over {len(lines)} comparisons; predicted {predicted:.3f}, "
                f"and by the cost model {largest:.3f} at most under any plan"
            )
    slower = [line for line in compared if line["ratio_interval"][1] < 1]
    yield f"- Emplace slower in every launch: {', '.join(_named(line) for line in slower) or 'nowhere'}"
    faster = [line for line in compared if line["ratio_interval"][0] > 1]
    yield f"- faster in every launch: {len(faster)} of {len(compared)}"
    if failed := [line for line in compared if _failed(line)]:
        yield f"- verdicts that failed: {'; '.join(f'{_named(line)}: {_failed(line)}' for line in failed)}"


def _named(line: dict[str, Any]) -> str:
    return f"{line['model']} on {line['ranks']} ranks"


def _failed(line: dict[str, Any]) -> str:
    return ", ".join(f"{name} {verdict}" for name, figures in line["plans"].items() for verdict in figures["failed_verdicts"])


if __name__ == "__main__":
    print_table(__doc__, table)
