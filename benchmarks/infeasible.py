"""How long it takes to prove that a model fits nowhere, to say why, and to find what would help.

    python -m benchmarks.infeasible [CASE...] > RESULTS.jsonl
    python -m benchmarks.infeasible_table RESULTS.jsonl

One JSON line a case: `emplace plan` of 1000 tables on 16 nodes of 8 GPUs with 32 GiB, without reading the documents. Times are from
the question to the explanation, every fix re-solved. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.device_prices import device_prices
from benchmarks.json_lines import emit
from emplace.placement.catalog import builtin_host
from emplace.placement.model import ModelSpec, Tier
from emplace.placement.plan import PlanOptions, PlanStatus, Question
from emplace.solver.solve import solve_question

TABLES, NODES, HOST = 1000, 16, "big-basin-32g"
_HBM_BYTES = NODES * 8 * 30 * 2**30
"""Device memory of all GPUs, the host's reserve taken off."""
LOADS = {
    "HBM by 1%": (1.01, (Tier.HBM,)),
    "HBM by a quarter": (1.25, (Tier.HBM,)),
    "HBM four times": (4.0, (Tier.HBM,)),
    "HBM and system memory": (4.0, (Tier.HBM, Tier.DDR)),
}
"""(bytes of all tables over _HBM_BYTES, the tiers that are allowed) of each case."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(LOADS)}".replace("%", "%%"))
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.cases) - set(LOADS))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    solve_question(question(4, 0.5, (Tier.HBM,)))  # loads the compiled code
    for name in arguments.cases or LOADS:
        emit({"case": name} | measure(*LOADS[name]))


def measure(load: float, tiers: tuple[Tier, ...]) -> dict[str, Any]:
    asked = question(TABLES, load, tiers)
    start = time.perf_counter()
    plan = solve_question(asked)
    elapsed = time.perf_counter() - start
    explanation = plan.explanation
    return {
        "tables": TABLES,
        "devices": 8 * NODES,
        "load": load,
        "tiers": [tier.value for tier in tiers],
        "proven": plan.status is PlanStatus.INFEASIBLE,
        "seconds": elapsed,
        "reasons": [] if explanation is None else list(explanation.reasons),
        "fixes": [] if explanation is None else [fix.change for fix in explanation.fixes],
    }


def question(tables: int, load: float, tiers: tuple[Tier, ...]) -> Question:
    """Rows are lognormal and scaled so that all weights with row-wise Adagrad's state are `load` times the HBM."""
    rng = np.random.default_rng(0)
    dims = rng.choice([16, 32, 64, 128], tables)
    rows = rng.lognormal(0.0, 1.5, tables)
    rows *= load * _HBM_BYTES / float((rows * (dims + 1) * 4).sum())
    host = builtin_host(HOST)
    model = ModelSpec.model_validate(
        {
            "schema_version": 1,
            "name": "over",
            "local_batch_size": 1024,
            "dense_features": 13,
            "bottom_mlp": [512, 64],
            "top_mlp": [512, 1],
            "interaction": "cat",
            "optimizer": "rowwise_adagrad",
            "tables": [
                {
                    "name": f"t{number}",
                    "num_embeddings": max(1, int(rows[number])),
                    "embedding_dim": int(dims[number]),
                    "features": [{"name": f"f{number}", "length": {"poisson": float(rng.uniform(1, 30))}}],
                }
                for number in range(tables)
            ],
        }
    )
    return Question(model=model, host=host, cost_model=device_prices(host), options=PlanOptions(nodes=NODES, tiers=tiers))


if __name__ == "__main__":
    main()
