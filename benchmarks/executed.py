"""TorchRec's own plan and Emplace's, both trained for real on this machine, side by side in several launches, taking turns.

    python -m benchmarks.executed [--models N,N...] [--ranks 2,4] [--seconds S] [--out FILE]
    python -m benchmarks.executed_table FILE

Prints one JSON line per model and number of ranks; docs/reference/benchmarks.md says what is compared. Emplace plans with the cost model
that `emplace profile --ranks N` stored for this machine; where there is none for as many ranks, a quick one is measured first
and stored.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.executed_models import suite
from benchmarks.json_lines import emit
from benchmarks.step_times import Times, launch_medians, step_times_us, train, typical
from benchmarks.torchrec_here import torchrec_plans
from emplace.app.importing import import_plan
from emplace.cost_model_store import find_cost_model
from emplace.executor.imported import TheirPlan
from emplace.executor.launch import Launch
from emplace.hardware.discover import discover_host
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import EmplaceError
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from emplace.planning import answer, build_question
from emplace.profiler.profile import profile_host

SEED = 0
LAUNCHES, ROUNDS, STEPS_PER_ROUND = 4, 3, 8
SOLVE_SECONDS = 5.0
LAUNCH_SECONDS = 120.0
"""The limit of one launch; on two cores it takes from 10 s to half a minute."""
OURS = "emplace"


def main() -> None:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    deadline = time.monotonic() + arguments.seconds
    host = discover_host()
    with tempfile.TemporaryDirectory(prefix="emplace-benchmark-") as workdir:
        for line in _lines(host, arguments.models, arguments.ranks, deadline, Path(workdir)):
            emit(line, arguments.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(suite())
    parser.add_argument("--models", type=lambda text: text.split(","), default=names, help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[2, 4], help="default: 2,4")
    parser.add_argument("--seconds", type=float, default=3600.0, help="what is not done by then is left out, and says so")
    parser.add_argument("--out", type=Path, help="append the lines to this file too")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - set(names):
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    return arguments


def _lines(host: HostSpec, names: Sequence[str], rank_counts: Sequence[int], deadline: float, workdir: Path) -> Iterator[dict[str, Any]]:
    models = suite()
    for ranks in rank_counts:
        cost = _cost_model(host, ranks, workdir)
        for name in names:
            model, matters = models[name]
            line: dict[str, Any] = {"model": name, "ranks": ranks, "placement_matters": matters}
            left = deadline - time.monotonic()
            if left < LAUNCHES * LAUNCH_SECONDS / 8:
                yield line | {"left_out": "time is up"}
                continue
            try:
                yield line | compare(model, host, ranks, cost, workdir)
            except EmplaceError as error:
                yield line | {"left_out": str(error)}


def _cost_model(host: HostSpec, ranks: int, workdir: Path) -> CostModel:
    """Measured here with as many ranks; `find_cost_model` would also offer one of another number."""
    kept = local_cost_models()
    stored = find_cost_model(kept, host, ranks)
    if stored is not None and stored.ranks == ranks:
        return stored
    return profile_host(ranks, True, SEED, _tell, workdir, keep=lambda model: _tell(f"stored as {kept.keep(model)}"))


def compare(model: ModelSpec, host: HostSpec, ranks: int, cost: CostModel, workdir: Path) -> dict[str, Any]:
    """Plan, run and measure one model. Raises EmplaceError when a plan is refused or fails."""
    options = PlanOptions(ranks=ranks, work_limit=SOLVE_SECONDS, seed=SEED)
    plans: dict[str, Plan] = {}
    for name, data in torchrec_plans(model, host, ranks).items():
        theirs = from_data(data, TheirPlan, source=f"TorchRec's plan ({name})")
        plans[f"torchrec {name}"] = import_plan(theirs, f"TorchRec's plan ({name})", model, host, options, cost)
    plans[OURS] = answer(build_question(model, host, options, cost))
    _tell(f"{model.name}, {ranks} ranks: {', '.join(plans)}")
    return comparison(train(plans, LAUNCHES, Launch(ROUNDS * STEPS_PER_ROUND, SEED, workdir, LAUNCH_SECONDS, rounds=ROUNDS)), plans)


def comparison(measured: dict[str, list[Measurement]], plans: dict[str, Plan]) -> dict[str, Any]:
    """The figures of one line. The ratio is the best of TorchRec's plans, as measured, over Emplace's: above 1, Emplace is faster.
    By the cost model no plan at all has a larger one than `largest_ratio`."""
    times = {name: step_times_us(launches) for name, launches in measured.items()}
    best = min((name for name in times if name != OURS), key=lambda name: typical(times[name]))
    ratios = launch_medians(times[best]) / launch_medians(times[OURS])
    predicted_us, bound_us = measured[best][0].predicted_step_time_us, plans[OURS].lower_bound_us
    assert bound_us is not None  # a plan that was found has one
    return {
        "ratio": float(np.median(ratios)),
        "ratio_interval": [float(ratios.min()), float(ratios.max())],
        "predicted_ratio": predicted_us / measured[OURS][0].predicted_step_time_us,
        "largest_ratio": predicted_us / bound_us,
        "torchrec_best": best.removeprefix("torchrec "),
        "same_placement": _holds(plans[best]) == _holds(plans[OURS]),
        "plans": {name: _figures(measured[name], times[name], plans[name]) for name in measured},
    }


def _holds(plan: Plan) -> list[list[tuple[str, tuple[int, int], tuple[int, int]]]]:
    """What each rank holds, whichever it is: ranks of a CPU are alike."""
    held: dict[int, list[tuple[str, tuple[int, int], tuple[int, int]]]] = {}
    for table in plan.tables:
        for shard in table.shards:
            held.setdefault(shard.rank, []).append((table.name, shard.rows, shard.columns))
    return sorted(sorted(shards) for shards in held.values())


def _figures(launches: list[Measurement], times: Times, plan: Plan) -> dict[str, Any]:
    kinds = [table.sharding_type.value for table in plan.tables]
    by_launch = launch_medians(times) / 1e3
    return {
        "step_ms": typical(times) / 1e3,
        "fastest_launch_ms": float(by_launch.min()),
        "slowest_launch_ms": float(by_launch.max()),
        "predicted_ms": launches[0].predicted_step_time_us / 1e3,
        "sharding_types": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "failed_verdicts": sorted({verdict.name for launch in launches for verdict in launch.verdicts if not verdict.passed}),
    }


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
