"""`python -m benchmarks.prediction_table FILE [PLOT.svg]`: what benchmarks.prediction wrote, as table and plot of docs/lab/prediction.md."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.json_lines import read_lines
from benchmarks.markdown import head
from benchmarks.prediction_cases import LAUNCHES, OURS
from benchmarks.prediction_plot import plot
from emplace.executor.verdicts import median_interval

Plans = Mapping[str, dict[str, Any]]
"""The figures of one model's plans, by name."""
CLOSE = 1.02
"""A choice this close to the fastest measured plan is right."""
LARGE_BYTES = 128 * 2**20
"""Peaks below it are mostly what a process takes whatever it trains."""
_SMALLEST_ERROR = 1e-3
"""Errors below this count as much as this, or luck would decide the geometric mean."""


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown: a row for each seed and number of ranks, one for all, how choices stand up to later launches, then what was left out."""
    compared = [line for line in lines if "left_out" not in line]
    yield head(
        "seed",
        "ranks",
        "pairs",
        "step: geometric mean error",
        "median",
        "p90",
        "worst",
        "geometric mean at the machine's present speed",
        "between launches, median",
        "speed of the machine, p10 to p90",
        "fastest by hand chosen",
        "or not told apart",
        "fastest of all chosen",
        "or not told apart",
        "peaks of 128 MiB and more: lowest, highest",
    )
    groups = sorted({(line["seed"], line["ranks"]) for line in compared})
    for seed, ranks in groups:
        yield _row(str(seed), str(ranks), [line for line in compared if (line["seed"], line["ranks"]) == (seed, ranks)])
    if len(groups) > 1:
        yield _row("all", "all", compared)
    yield f"- judged by the last launches alone, {_chosen_again([line['plans'] for line in compared])}"
    yield from (f"- left out: model {line['number']} on {line['ranks']} ranks: {line['left_out']}" for line in lines if "left_out" in line)


def _row(seed: str, ranks: str, lines: Sequence[dict[str, Any]]) -> str:
    plans = [plan for line in lines for plan in line["plans"].values()]
    errors = np.array([error_of(plan) for plan in plans])
    present = np.array([error_at_present_speed(plan) for plan in plans])
    slowness = [slow for plan in plans for slow in plan["slowness"]]
    memory = [plan["predicted_bytes"] / plan["peak_bytes"] - 1 for plan in plans if plan["peak_bytes"] >= LARGE_BYTES] or [math.nan]
    noise = float(np.median([_launch_noise(plan) for plan in plans]))
    figures = [
        _geometric(errors),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        float(errors.max()),
        _geometric(present),
        noise,
    ]
    shown = " | ".join(f"{figure:.1%}" for figure in figures)
    speeds = f"{1 / np.quantile(slowness, 0.9) - 1:+.0%}, {1 / np.quantile(slowness, 0.1) - 1:+.0%}"
    by_hand = [{name: plan for name, plan in line["plans"].items() if name != OURS} for line in lines]
    choices = f"{_choices(by_hand)} | {_choices([line['plans'] for line in lines])}"
    return f"| {seed} | {ranks} | {len(plans)} | {shown} | {speeds} | {choices} | {min(memory):+.1%}, {max(memory):+.1%} |"


def _choices(models: Sequence[Plans]) -> str:
    right, undecided = sum(map(chose_well, models)), sum(chose_well(plans) or is_undecided(plans) for plans in models)
    return f"{right} of {len(models)} | {undecided} of {len(models)}"


def _geometric(errors: NDArray[np.float64]) -> float:
    return math.exp(float(np.log(np.maximum(errors, _SMALLEST_ERROR)).mean()))


def _launch_noise(plan: dict[str, Any]) -> float:
    """How far one launch of a plan is from the next on average, as a share of their middle."""
    return float(np.abs(np.diff(plan["launches_ms"])).mean()) / float(plan["measured_ms"])


def error_of(plan: dict[str, Any]) -> float:
    """The error of the predicted step time as a share of the measured one."""
    return abs(_predicted_ms(plan) / _measured_ms(plan) - 1)


def error_at_present_speed(plan: dict[str, Any]) -> float:
    """The same with the slowness of the machine in each launch taken out of it."""
    return abs(_predicted_ms(plan) / float(np.median(np.divide(plan["launches_ms"], plan["slowness"]))) - 1)


def chose_well(plans: Plans) -> bool:
    """Whether the plan with the least predicted time is the fastest measured, or about as fast."""
    chosen, fastest = _chosen_and_fastest(plans)
    return float(chosen["measured_ms"]) <= CLOSE * float(fastest["measured_ms"])


def is_undecided(plans: Plans) -> bool:
    """Whether the plan with the least predicted time and the fastest measured one, which took turns, may be equally fast:
    in a launch of both, the 95% interval of the ratio of their rounds has 1 in it or is below."""
    launches = zip(*(plan["rounds_ms"] for plan in _chosen_and_fastest(plans)), strict=False)
    intervals = [median_interval(np.array(chosen) / np.array(fastest)) for chosen, fastest in launches]
    return any(interval is not None and interval[0] <= 1.0 for interval in intervals)


def _chosen_again(models: Sequence[Plans]) -> str:
    """How many choices, by predicted times and by the times of a plan's first launches, are right by later launches. The second is
    what a cost model could reach that knows of each plan what two launches say."""
    by_prediction = sum(is_right_again(plans, _least(plans, _predicted_ms)) for plans in models)
    by_launches = sum(is_right_again(plans, _least(plans, _first_ms)) for plans in models)
    return f"{by_prediction} of {len(models)} choices by prediction are right, {by_launches} of {len(models)} by the launches before"


def is_right_again(plans: Plans, chosen: str) -> bool:
    """Whether a plan is the fastest, or about as fast, in the launches that only plans close to the fastest have; where one alone
    was close, whether it is that one."""
    later = {name: float(np.median(plan["launches_ms"][LAUNCHES:])) for name, plan in plans.items() if len(plan["launches_ms"]) > LAUNCHES}
    if not later:
        return chosen == _least(plans, _measured_ms)
    return chosen in later and later[chosen] <= CLOSE * min(later.values())


def _least(plans: Plans, figure: Callable[[dict[str, Any]], float]) -> str:
    return min(plans, key=lambda name: figure(plans[name]))


def _predicted_ms(plan: dict[str, Any]) -> float:
    return float(plan["predicted_ms"])


def _measured_ms(plan: dict[str, Any]) -> float:
    return float(plan["measured_ms"])


def _first_ms(plan: dict[str, Any]) -> float:
    return float(np.median(plan["launches_ms"][:LAUNCHES]))


def _chosen_and_fastest(plans: Plans) -> tuple[dict[str, Any], dict[str, Any]]:
    return plans[_least(plans, _predicted_ms)], plans[_least(plans, _measured_ms)]


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    lines = read_lines(Path(sys.argv[1]))
    print("\n".join(table(lines)))
    if len(sys.argv) == 3:
        points = [
            (f"{line['ranks']} ranks", plan["measured_ms"], plan["predicted_ms"])
            for line in lines
            for plan in line.get("plans", {}).values()
        ]
        Path(sys.argv[2]).write_text(plot(points), encoding="utf-8")


if __name__ == "__main__":
    main()
