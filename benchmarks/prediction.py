"""Predicted step times and peak bytes, held against real training of random models under different plans.

    python -m benchmarks.prediction [--ranks 2,4] [--models N] [--seed S] [--out FILE]
    python -m benchmarks.prediction_table FILE [PLOT.svg]

For each number of ranks, N random models; for each model, plans as people make them by hand and Emplace's own, trained side by
side in two launches, taking turns, and those that are about as fast as the fastest in two more. Models take turns, too: all have
their first launch before any has its second, so that no plan's time is that of one minute. Prints, at the end, one JSON line per
model and number of ranks. Predictions are from the cost model that `emplace profile --ranks R` stored for this machine, which
must exist: nothing here takes part in making it.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hand_placements import plan_by_hand
from benchmarks.json_lines import emit
from benchmarks.measured_prices import measured_prices
from benchmarks.prediction_cases import LAUNCHES, OURS, draw_model, draw_plans
from benchmarks.random_models import asked_models
from benchmarks.step_times import launch_medians, round_medians, slowness, step_times_us, train, typical
from emplace.executor.launch import Launch
from emplace.hardware.discover import discover_host
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import EmplaceError
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.stages import Stage
from emplace.planning import answer, build_question

ROUNDS, STEPS_PER_ROUND = 10, 15
ABOUT_AS_FAST = 1.1
"""A plan whose step takes at most so many times the fastest one's may still turn out to be the fastest."""
SOLVE_SECONDS = 3.0
LAUNCH_SECONDS = 480.0
_COMPUTE = (Stage.LOOKUP_FORWARD, Stage.DENSE, Stage.LOOKUP_BACKWARD)


def main() -> None:
    arguments = asked_models(__doc__, models=10)
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    host = discover_host()
    with tempfile.TemporaryDirectory(prefix="emplace-benchmark-") as workdir:
        for line in _lines(host, arguments.ranks, arguments.models, arguments.seed, Path(workdir)):
            emit(line, arguments.out)


def _lines(host: HostSpec, rank_counts: list[int], models: int, seed: int, workdir: Path) -> Iterator[dict[str, Any]]:
    launch = Launch(steps=ROUNDS * STEPS_PER_ROUND, seed=seed, workdir=workdir, timeout_s=LAUNCH_SECONDS, rounds=ROUNDS)
    for ranks in rank_counts:
        cost = measured_prices(host, ranks)
        cases = [draw_case(host, ranks, cost, seed, number) for number in range(models)]
        train_in_turns(cases, launch)
        about = {"seed": seed, "ranks": ranks, "profiled": cost.measured_at, "profile_noise": cost.noise}
        yield from (about | {"number": number} | case.line() for number, case in enumerate(cases))


@dataclass
class Case:
    """One model with its plans, and what was measured of them so far. `left_out` says why it can't be compared."""

    model: ModelSpec
    plans: dict[str, Plan]
    measured: dict[str, list[Measurement]] = field(default_factory=dict)
    left_out: str = ""

    def line(self) -> dict[str, Any]:
        """The case's figures, as they are printed."""
        if self.left_out:
            return {"left_out": self.left_out}
        return {
            "model": self.model.name,
            "tables": len(self.model.tables),
            "batch": self.model.local_batch_size,
            "optimizer": self.model.optimizer.value,
            "plans": {name: figures(self.plans[name], measured) for name, measured in self.measured.items()},
        }


def draw_case(host: HostSpec, ranks: int, cost: CostModel, seed: int, number: int) -> Case:
    """A random model and its plans, left out where one of them can't be made."""
    rng = np.random.default_rng([seed, ranks, number])
    model = draw_model(rng, f"random-{seed}-{ranks}-{number}", ranks)
    try:
        question = build_question(model, host, PlanOptions(ranks=ranks, work_limit=SOLVE_SECONDS, seed=seed), cost)
        by_hand = {name: plan_by_hand(question, placements) for name, placements in draw_plans(rng, model, ranks)}
        return Case(model, by_hand | {OURS: answer(question)})
    except EmplaceError as error:
        return Case(model, {}, left_out=str(error))


def train_in_turns(cases: Sequence[Case], launch: Launch) -> None:
    """Train the plans of all cases in two launches each, and those about as fast as the fastest of their case in two more."""
    for number in range(2 * LAUNCHES):
        for case in cases:
            plans = case.plans if number < LAUNCHES else _about_as_fast(case)
            if plans and not case.left_out:
                print(f"{case.model.name}: launch {number + 1}, {len(plans)} plans", file=sys.stderr, flush=True)
                _train_once(case, plans, replace(launch, seed=launch.seed + number))


def _train_once(case: Case, plans: dict[str, Plan], launch: Launch) -> None:
    try:
        for name, measured in train(plans, 1, launch).items():
            case.measured.setdefault(name, []).extend(measured)
    except EmplaceError as error:
        case.left_out = str(error)


def _about_as_fast(case: Case) -> dict[str, Plan]:
    """The plans that may be the fastest by the launches that all have; none where one alone may, or none was measured."""
    steps_us = {name: typical(step_times_us(measured[:LAUNCHES])) for name, measured in case.measured.items()}
    close = {name: case.plans[name] for name, step_us in steps_us.items() if step_us <= ABOUT_AS_FAST * min(steps_us.values())}
    return close if len(close) > 1 else {}


def figures(plan: Plan, launches: Sequence[Measurement]) -> dict[str, Any]:
    """The figures of one plan; `rounds_ms` [launches, rounds] are medians of steps, `slowness` [launches] is the machine's by the
    profile's reference step, which is timed between the rounds."""
    times = step_times_us(launches)
    ranks = [rank for launch in launches for rank in launch.ranks]
    worst = max(ranks, key=lambda rank: abs(rank.predicted_bytes - rank.peak_bytes) / rank.peak_bytes)
    return {
        "predicted_ms": launches[0].predicted_step_time_us / 1e3,
        "measured_ms": typical(times) / 1e3,
        "slowness": [slowness(launch) for launch in launches],
        "launches_ms": (launch_medians(times) / 1e3).tolist(),
        "rounds_ms": (round_medians(times, ROUNDS) / 1e3).tolist(),
        "sharding_types": sorted({table.sharding_type.value for table in plan.tables}),
        "predicted_bytes": worst.predicted_bytes,
        "peak_bytes": worst.peak_bytes,
        "stages_ms": {stage.value: _stage_ms(plan, launches, stage) for stage in Stage},
        "failed_verdicts": sorted({verdict.name for launch in launches for verdict in launch.verdicts if not verdict.passed}),
    }


def _stage_ms(plan: Plan, launches: Sequence[Measurement], stage: Stage) -> list[float]:
    """[predicted, measured] milliseconds. An exchange takes as long as on the rank that came last; the others wait for it, too."""
    last = max if stage in _COMPUTE else min
    return [
        max(rank.stages_us[stage] for rank in plan.ranks) / 1e3,
        float(np.median([last(rank.stages_us.get(stage, 0.0) for rank in launch.ranks) for launch in launches])) / 1e3,
    ]


if __name__ == "__main__":
    main()
