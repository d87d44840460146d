"""Which side of a gap is weak, plan or bound, over the generated suite (benchmarks/generate.py).

    python -m benchmarks.planted [CASE...] [--draws N] [--seconds S] > RESULTS.jsonl
    python -m benchmarks.planted_table RESULTS.jsonl

A plan is found, and the question is changed so that the plan becomes an even one: times of what single devices hold are
scaled until all last equally long in each stage, but in those whose loads come in equal steps. So a good plan of the changed
question is known. It is solved again without a word of it: how far the new plan is above the known one, and the new bound
below it, says which side is weak. A better plan than the known one may exist, so the first is a least and the second a most.

One JSON line a case. Work is counted, so other programs may run beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.generate import Case, draw, suite
from benchmarks.json_lines import emit
from emplace.solver.budget import Budget
from emplace.solver.engine import solve
from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem, Scope, loads_of, objective_us
from emplace.solver.presolve.granularity import common_divisor
from emplace.solver.progress import Monitor

SEED, GAP, SECONDS = 0, 1e-6, 10.0


def main() -> None:
    cases = {case.name: case for case in suite()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(cases)}")
    parser.add_argument("--draws", type=int, default=1, metavar="N", help="so many draws of the tables of each case")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="counted work of each of the two solves (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.cases) - set(cases))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    for name in arguments.cases or cases:
        for later in range(arguments.draws):
            emit(measure(replace(cases[name], seed=cases[name].seed + later), arguments.seconds))


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Times in microseconds; nothing is known of a case without a plan."""
    line = {"case": case.name, "tables": case.tables, "devices": case.devices, "hbm_load": case.hbm_load, "kinds": case.kinds}
    line |= {"stages": case.stages, "draw": case.seed, "limit_seconds": seconds}
    budget = Budget(seconds=seconds, gap=GAP, seed=SEED)
    problem = draw(case)
    first = solve(problem, budget, Monitor())
    if first.solution is None:
        return line | {"planted_us": None}
    planted = evened(problem, first.solution)
    again = solve(planted, budget, Monitor())
    return line | {
        "gap": 1.0 - first.lower_bound_us / first.objective_us,
        "planted_us": objective_us(planted, loads_of(planted, first.solution)),
        "step_time_us": again.objective_us if again.solution is not None else None,
        "lower_bound_us": again.lower_bound_us,
    }


def evened(problem: Problem, assignment: Assignment) -> Problem:
    """The problem with the times of units on single devices scaled, so that an assignment loads all devices alike: in each stage as long as
    the mean of them was, where what the device holds of whole nodes leaves that much, and no stage of equal steps."""
    loads_us = loads_of(problem, assignment).time_us
    times_us, steps = problem.unit_time_us.copy(), _in_steps(problem, loads_us.mean(axis=0) - problem.stage_base_us)
    for device, units in enumerate(_units_of_devices(problem, assignment)):
        own_us = times_us[units, problem.device_kind[device]].sum(axis=0)
        wanted_us = loads_us.mean(axis=0) - (loads_us[device] - own_us)
        scaled = (own_us > 0) & (wanted_us > 0) & ~steps
        factor = np.where(scaled, wanted_us / np.where(scaled, own_us, 1.0), 1.0)
        times_us[units] *= factor
    return replace(problem, unit_time_us=times_us)


def _in_steps(problem: Problem, usual_us: Floats) -> Bools:
    """[K] whether what single devices of each kind may hold comes in equal steps, none too small beside what devices usually hold."""
    unit_kind = np.repeat(problem.option_kind, np.diff(problem.option_first_unit))  # -1 on whole nodes
    times_us = [problem.unit_time_us[unit_kind == kind, kind] for kind in range(problem.num_kinds)]
    return np.array([all(common_divisor(each[:, stage], usual) > 0 for each in times_us) for stage, usual in enumerate(usual_us.tolist())])


def _units_of_devices(problem: Problem, assignment: Assignment) -> Iterator[Ints]:
    """For each device the units of single devices that it holds."""
    held: list[list[int]] = [[] for _ in range(problem.num_devices)]
    for option, targets in zip(assignment.option, assignment.targets, strict=True):
        if problem.option_scope[option] == Scope.DEVICE:
            for offset, device in enumerate(targets):
                held[device].append(int(problem.option_first_unit[option]) + offset)
    return (np.array(units, dtype=np.int64) for units in held)


if __name__ == "__main__":
    main()
