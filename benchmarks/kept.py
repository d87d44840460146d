"""Questions whose answers stay the same while the code moves.

    python -m benchmarks.kept [NAME...] > RESULTS.jsonl
    python -m benchmarks.kept_table BEFORE.jsonl AFTER.jsonl

One JSON line a question: the digest of its plan without times and version, what the plan says in short, and the seconds that the solve took.
Two checkouts give the same digests, or something changed in what is answered. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.device_prices import device_prices
from benchmarks.json_lines import emit
from emplace.placement.catalog import builtin_host, builtin_model, model_names
from emplace.placement.catalog.suite import SUITE
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.solver.solve import solve_question


@dataclass(frozen=True)
class Kept:
    """A built-in model, changed where `tables` (by index) and `model` say, on a built-in host."""

    name: str
    model_name: str
    host_name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    starts_from: str | None = None
    """The question whose plan is where the tables are now."""

    def question(self, start: Plan | None) -> Question:
        data = builtin_model(self.model_name).to_data() | dict(self.model)
        data["tables"] = [table | dict(self.tables.get(index, {})) for index, table in enumerate(data["tables"])]
        host = builtin_host(self.host_name)
        options: dict[str, Any] = {"work_limit": 2.0} | dict(self.options)
        if start is not None:
            options["start"] = [table.to_data() for table in start.tables]
        return Question(
            model=ModelSpec.model_validate(data),
            host=host,
            cost_model=device_prices(host),
            options=PlanOptions.model_validate(options),
        )


def _pin(sharding_type: str, ranks: list[int] | None = None, **more: Any) -> dict[str, Any]:
    pin = {"sharding_type": sharding_type} | ({} if ranks is None else {"ranks": ranks}) | more
    return {"constraints": {"pin": pin}}


HBM, REMOTE = {"tiers": ["hbm"]}, {"tiers": ["hbm", "ddr", "remote"]}
MODELS = tuple(name for name in model_names() if name != SUITE)
HOSTS = ("cpu-dual-socket", "big-basin-16g", "big-basin-32g", "zion", "dgx-a100-40g", "dgx-a100-80g", "dgx-h100")


KEPT = (
    *(Kept(f"{model} on big-basin-32g", model, "big-basin-32g") for model in MODELS),
    *(Kept(f"criteo-terabyte on {host}", "criteo-terabyte", host) for host in HOSTS if host != "big-basin-32g"),
    *(Kept(f"m2 on {host}", "m2", host) for host in HOSTS if host != "big-basin-32g"),
    Kept("default limit", "m1", "dgx-a100-40g", {"work_limit": 10.0}),
    Kept("gap of nothing", "m2", "dgx-h100", {"gap": 0.0}),
    Kept("gap of nothing, few tables", "wnd", "dgx-a100-80g", {"gap": 0.0}),
    Kept("another seed", "m2", "dgx-a100-80g", {"seed": 7}),
    Kept("short limit", "m3", "zion", {"work_limit": 0.5}),
    Kept("p95", "m2", "big-basin-32g", {"objective": "p95"}),
    Kept("p95, many tables", "m3", "dgx-h100", {"objective": "p95"}),
    Kept("fewest devices", "m1", "dgx-a100-80g", {"objective": "devices"}),
    Kept("fewest devices, several nodes", "m3", "dgx-a100-40g", {"objective": "devices"}),
    Kept("two ranks", "criteo-kaggle", "dgx-h100", {"ranks": 2}),
    Kept("two nodes", "m3", "dgx-h100", {"nodes": 2}),
    Kept("device memory alone", "m1", "big-basin-32g", HBM),
    Kept("system memory alone", "m2", "big-basin-16g", {"tiers": ["ddr"]}),
    Kept("reserves", "m1", "big-basin-32g", {"hbm_reserve": "10%", "ddr_reserve": "2GiB"}),
    Kept("pinned to one rank", "m2", "dgx-a100-40g", tables={0: _pin("table_wise", [3])}),
    Kept("pinned by rows", "m2", "dgx-a100-40g", tables={0: _pin("row_wise"), 1: _pin("column_wise", [0, 2])}),
    Kept(
        "pinned to a cache",
        "m2",
        "big-basin-16g",
        tables={1: _pin("table_wise", [0], compute_kernel="fused_uvm_caching", cache_load_factor=0.2)},
    ),
    Kept("allowed ranks", "m2", "dgx-a100-80g", tables={i: {"constraints": {"ranks": [0, 1]}} for i in range(4)}),
    Kept("allowed types", "m2", "dgx-a100-80g", tables={i: {"constraints": {"sharding_types": ["row_wise"]}} for i in range(6)}),
    Kept(
        "allowed kernels", "m1", "big-basin-16g", tables={i: {"constraints": {"compute_kernels": ["fused_uvm_caching"]}} for i in range(3)}
    ),
    Kept("together", "m1", "dgx-a100-80g", model={"together": [["t002", "t003"]]}, options={"tiers": ["hbm"]}),
    Kept(
        "together, one type",
        "m1",
        "dgx-a100-80g",
        model={"together": [["t000", "t001"], ["t002", "t003", "t004"]]},
        tables={i: {"constraints": {"sharding_types": ["table_wise"]}} for i in range(30)},
    ),
    Kept("together and too large", "m1", "big-basin-16g", model={"together": [[f"t{i:03d}" for i in range(12)]]}, options=HBM),
    Kept("apart", "m2", "dgx-a100-80g", model={"apart": [["t000", "t001", "t002"]]}),
    Kept("apart on too few", "m2", "dgx-a100-80g", {"ranks": 2}, model={"apart": [["t000", "t001", "t002"]]}),
    Kept("moving, free", "m2", "dgx-h100", {"move_price_us_per_gib": 0.0}, starts_from="m2 on dgx-h100"),
    Kept("moving, dear", "m2", "dgx-h100", {"move_price_us_per_gib": 100.0, "seed": 3}, starts_from="another seed"),
    Kept("moving, dear, many tables", "m1", "dgx-a100-40g", {"move_price_us_per_gib": 1.0, "seed": 1}, starts_from="default limit"),
    Kept("infeasible, device memory", "m3", "big-basin-32g", HBM),
    Kept("infeasible, all tiers", "m3", "dgx-a100-40g", {"nodes": 1, "tiers": ["hbm"]}),
    Kept("infeasible on one rank", "criteo-terabyte", "cpu-dual-socket", {"ranks": 1}),
    Kept("infeasible by a pin", "m1", "big-basin-16g", HBM, tables={i: _pin("table_wise", [0]) for i in range(8)}),
    Kept("infeasible by a batch", "m2", "big-basin-16g", HBM, model={"local_batch_size": 1_000_000}),
    Kept("sgd", "m1", "big-basin-32g", HBM, model={"optimizer": "sgd"}),
)
"""60 questions: every built-in model and host, every option, and some that have no answer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, and those whose plans they start from")
    wanted = parser.parse_args().names
    plans: dict[str, Plan] = {}
    by_name = {kept.name: kept for kept in KEPT}
    unknown = sorted(set(wanted) - set(by_name))
    if unknown:
        parser.error(f"no such question: {', '.join(unknown)}")
    solve_question(Kept("", "ncf", "big-basin-32g").question(None))  # loads the compiled code
    for name in wanted or by_name:
        kept = by_name[name]
        if kept.starts_from is not None and kept.starts_from not in plans:
            plans[kept.starts_from] = solve_question(by_name[kept.starts_from].question(None))
        question = kept.question(None if kept.starts_from is None else plans[kept.starts_from])
        started = time.perf_counter()
        plans[name] = plan = solve_question(question)
        emit({"question": name, "seconds": time.perf_counter() - started} | described(plan))


def described(plan: Plan) -> dict[str, Any]:
    """What a plan says, in short, and the digest of all of it but for times and the version."""
    data = plan.to_data()
    solver = data["solver"]
    for key in [key for key in solver if key == "version" or key.endswith("seconds")]:
        del solver[key]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return {
        "status": plan.status.value,
        "step_time_us": plan.step_time_us,
        "gap": plan.gap,
        "stopped_by": plan.solver.stopped_by,
        "digest": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


if __name__ == "__main__":
    main()
