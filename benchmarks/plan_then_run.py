"""Emplace's own plans of models that no profile has seen, planned and then trained, each by itself, as a user does.

    python -m benchmarks.plan_then_run [--models N,N...] [--ranks R] [--out FILE]

For each of the models of `benchmarks.executed_models`: `emplace plan --host local`, then `emplace run`. Prints one JSON line per model, and last
one that sums up: the mean of |ln(predicted / measured)|, the mean of its logarithm (the bias) and the bias's standard error. All are given twice:
of the prediction as it is, and at the machine's present speed by the reference step. Predictions are from the cost model that
`emplace profile --ranks R` stored for this machine, which must exist.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.executed_models import suite
from benchmarks.json_lines import emit
from benchmarks.measured_prices import measured_prices
from benchmarks.step_times import slowness, step_times_us, typical
from emplace.executor.launch import Launch
from emplace.executor.run import run_plan
from emplace.hardware.discover import discover_host
from emplace.placement.cost_model import CostModel
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.planning import answer, build_question

SEED = 0
RUN_SECONDS = 600.0
EIGHT = [
    "skewed-lengths",
    "skewed-sizes",
    "skewed-both",
    "skewed-both-adagrad",
    "three-giants",
    "mixed-dims",
    "hot-small-tables",
    "zipf-skewed",
]
"""The models that are trained unless others are named."""


def main() -> None:
    arguments = _arguments()
    host, models = discover_host(), suite()
    cost = measured_prices(host, arguments.ranks)
    lines = []
    with tempfile.TemporaryDirectory(prefix="emplace-benchmark-") as workdir:
        for name in arguments.models:
            lines.append(predicted_and_measured(models[name][0], host, cost, Path(workdir)))
            emit({"model": name, "ranks": arguments.ranks} | lines[-1], arguments.out)
    emit({"models": len(lines), "profiled": cost.measured_at} | summary(lines), arguments.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(suite())
    parser.add_argument(
        "--models",
        type=lambda text: names if text == "all" else text.split(","),
        default=EIGHT,
        help=f"'all', or names; default: {','.join(EIGHT)}",
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--out", type=Path, help="append the lines to this file too")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - set(names):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return arguments


def predicted_and_measured(model: ModelSpec, host: HostSpec, cost: CostModel, workdir: Path) -> dict[str, Any]:
    """Plan and train one model. Raises EmplaceError when the plan is refused or fails."""
    plan = answer(build_question(model, host, PlanOptions(ranks=cost.ranks), cost))
    measured = run_plan(plan, Launch(steps=None, seed=SEED, workdir=workdir, timeout_s=RUN_SECONDS))
    step_us, predicted_us = typical(step_times_us([measured])), measured.predicted_step_time_us
    slow = slowness(measured)
    return {
        "predicted_ms": predicted_us / 1e3,
        "step_ms": step_us / 1e3,
        "slowness": slow,
        "as_it_is": float(np.log(predicted_us / step_us)),
        "at_present_speed": float(np.log(predicted_us * slow / step_us)),
        "failed_verdicts": [verdict.name for verdict in measured.verdicts if not verdict.passed],
    }


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Error and bias over models, of each way to look at a prediction."""
    return {way: _figures(np.array([line[way] for line in lines])) for way in ("as_it_is", "at_present_speed")}


def _figures(logarithms: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    spread = float(logarithms.std(ddof=1)) if len(logarithms) > 1 else float("nan")
    return {
        "error": float(np.abs(logarithms).mean()),
        "bias": float(logarithms.mean()),
        "bias_standard_error": spread / len(logarithms) ** 0.5,
    }


if __name__ == "__main__":
    main()
