"""TorchRec's planner and Emplace's solver side by side under the same per-shard estimates.

    python -m benchmarks.torchrec_planner CASE.json... [--skip-torchrec] [--seconds S]

TorchRec runs at its defaults. Emplace gets the options of TorchRec's own enumerator, priced by TorchRec's own estimators;
enumeration is not in its seconds. Both ratings are TorchRec's: the slowest rank's sum of shard times. One JSON line a case.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from pathlib import Path
from typing import Any

from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner.perf_models import NoopPerfModel
from torchrec.distributed.planner.types import PlannerError, ShardingOption, Topology

from benchmarks.json_lines import emit
from benchmarks.torchrec_estimates import PlannerCase, enumerate_options, module_of, planner_of, topology_of
from benchmarks.torchrec_problem import plan_of, problem_of
from emplace.solver.budget import Budget
from emplace.solver.engine import solve

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Path)
    parser.add_argument("--skip-torchrec", action="store_true", help="leave TorchRec's planner out (it takes minutes on 856 tables)")
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each solve")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    for path in arguments.cases:
        case = PlannerCase.read(path)
        torchrec = None if arguments.skip_torchrec else run_torchrec(case)
        emit({"case": case.name, "torchrec": torchrec, "emplace": run_emplace(case, arguments.seconds)})


def run_torchrec(case: PlannerCase) -> dict[str, Any]:
    planner = planner_of(case)
    start = time.perf_counter()
    try:
        planner.plan(module_of(case), [EmbeddingBagCollectionSharder()])
    except PlannerError as error:
        return {"ok": False, "rating_ms": None, "seconds": time.perf_counter() - start, "error": error.error_type.value}
    return {"ok": True, "rating_ms": rate(planner._best_plan, topology_of(case)), "seconds": time.perf_counter() - start}


def run_emplace(case: PlannerCase, seconds: float) -> dict[str, Any]:
    topology = topology_of(case)
    for device in topology.devices:
        device.storage.hbm = int((1 - case.reserve) * device.storage.hbm)
    options = enumerate_options(case, module_of(case), variants=True)
    torchrec = problem_of(options, [table["name"] for table in case.tables], topology)
    start = time.perf_counter()
    outcome = solve(torchrec.problem, Budget(seconds=seconds, gap=1e-6, seed=SEED))
    elapsed = time.perf_counter() - start
    if outcome.solution is None:
        status = "infeasible" if outcome.is_infeasible else "undecided"
        return {"ok": False, "rating_ms": None, "lower_bound_ms": None, "gap": None, "seconds": elapsed, "status": status}
    rating = rate(plan_of(torchrec, outcome.solution), topology)
    gap = max(0.0, rating - outcome.lower_bound_us) / rating
    return {
        "ok": True,
        "rating_ms": rating,
        "lower_bound_ms": outcome.lower_bound_us,
        "gap": gap,
        "seconds": elapsed,
        "status": "optimal" if gap <= 1e-6 else "feasible",
    }


def rate(plan: list[ShardingOption], topology: Topology) -> float:
    """TorchRec's own rating of a plan, in milliseconds."""
    return float(NoopPerfModel(topology).rate(plan))


if __name__ == "__main__":
    main()
