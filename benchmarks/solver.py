"""Gap and time of the solver over the generated suite (benchmarks/generate.py).

    python -m benchmarks.solver [CASE...] [--draws N] [--seconds S] [--by-clock] > RESULTS.jsonl
    python -m benchmarks.solver_table RESULTS.jsonl

One JSON line a case: the bound alone and its time, then the plan, the proven gap and the time of the whole solve, bound
included. Each case runs in a process of its own, after a small solve that loads the compiled code; peak memory is that
process's. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from benchmarks.generate import Case, draw, suite
from benchmarks.json_lines import emit
from emplace.placement.placement_gap import placement_gap
from emplace.placement.plan import LimitKind
from emplace.solver.budget import Budget
from emplace.solver.clock import ENDLESS
from emplace.solver.engine import solve
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import bounder_of

SEED, GAP = 0, 1e-6
WARM_UP = Case("warm-up", tables=4, devices=2, hbm_load=0.8, devices_per_node=2)


def main() -> None:
    cases = {case.name: case for case in suite()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(cases)}")
    parser.add_argument("--draws", type=int, default=1, metavar="N", help="so many draws of the tables of each case: one says little")
    parser.add_argument("--seconds", type=float, help="limit of each solve, instead of the case's own")
    parser.add_argument("--by-clock", action="store_true", help="limits are seconds of the wall, not of counted work")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.cases) - set(cases))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    spawn = multiprocessing.get_context("spawn")
    for name in arguments.cases or cases:
        for later in range(arguments.draws):
            case = replace(cases[name], seed=cases[name].seed + later)
            with ProcessPoolExecutor(1, mp_context=spawn) as process:
                emit(process.submit(measure, case, arguments.seconds or case.seconds, arguments.by_clock).result())


def measure(case: Case, seconds: float, by_clock: bool) -> dict[str, Any]:
    """Times in seconds, `work_seconds` of a reference core, objective and bound in microseconds, memory in bytes."""
    solve(draw(WARM_UP), Budget(seconds=1.0, gap=GAP, seed=SEED))
    problem = draw(case)
    start = time.perf_counter()
    bounder = bounder_of(problem)
    bound = bounder.raised(bounder.bound())
    bound_seconds = time.perf_counter() - start
    start = time.perf_counter()
    monitor = Monitor.of(clock=ENDLESS.within(seconds)) if by_clock else Monitor()
    outcome = solve(problem, Budget(seconds=seconds, gap=GAP, seed=SEED, by_clock=by_clock), monitor)
    elapsed = time.perf_counter() - start
    found = outcome.solution is not None
    constant_us = problem.constant_us + float(problem.stage_base_us.sum())
    return {
        "case": case.name,
        "tables": case.tables,
        "devices": case.devices,
        "hbm_load": case.hbm_load,
        "kinds": case.kinds,
        "stages": case.stages,
        "draw": case.seed,
        "limit_seconds": seconds,
        "limit_kind": LimitKind.TIME if by_clock else LimitKind.WORK,
        "root_bound_us": bound.value_us,
        "bound_seconds": bound_seconds,
        "step_time_us": outcome.objective_us if found else None,
        "lower_bound_us": outcome.lower_bound_us if found else None,
        "gap": 1.0 - outcome.lower_bound_us / outcome.objective_us if found else None,
        "placement_gap": placement_gap(outcome.objective_us, outcome.lower_bound_us, constant_us) if found else None,
        "seconds": elapsed,
        "work_seconds": outcome.counted_s,
        "stopped_by": outcome.stopped_by,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
