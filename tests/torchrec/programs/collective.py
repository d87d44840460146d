"""FOLDER EXAMPLE...: each rank writes what became of plans that can't be made, and the rest; then it is each of the examples in turn, and ends
with a plan that can't be made."""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torchrec.distributed.planner import ParameterConstraints
from torchrec.distributed.planner.types import PlannerError

from emplace.torchrec import observe
from tests.torchrec.models import config, ids, model, planner, sharders, topology
from tests.torchrec.programs.resharded import losses

FOLDER, EXAMPLES = Path(sys.argv[1]), sys.argv[2:]


def main() -> None:
    dist.init_process_group("gloo")
    said: list[Any] = []
    on_cpu, small = topology(2, device="cpu"), model(config("a", 10))
    by_rows = {"a": ParameterConstraints(sharding_types=["row_wise"])}
    for made, module in (
        (planner(on_cpu), model(config("a", 10**11))),
        (planner(topology(4, device="cpu")), small),
        (planner(on_cpu), nn.Linear(3, 4)),
        (planner(on_cpu, constraints=by_rows), small),
        (planner(on_cpu, server="http://127.0.0.1:9"), small),
        (planner(on_cpu, plan_file=FOLDER / "none.json"), small),
        (planner(on_cpu), model(config("a", 10), config("b", 10 + dist.get_rank()))),
        (planner(on_cpu), model(config("a", 10), *[config("c")] * dist.get_rank())),
    ):
        try:
            made.collective_plan(module, sharders())
        except PlannerError as error:
            said.append([error.error_type.value, str(error)])
    good = planner(topology(2, device="cpu"))
    plan = good.collective_plan(model(config("a")), None, dist.group.WORLD)
    assert good.last_plan is not None
    said.append([str(plan), good.last_plan.content_digest()])
    seen = observe([ids(["a", f"own-{dist.get_rank()}"], 4, each=2)]).gather()
    said.append({name: [each.batches, each.accesses.lookups] for name, each in seen.features.items()})
    said.append([losses(), losses(reshard_after=2)])
    (FOLDER / f"rank-{os.environ['RANK']}.json").write_text(json.dumps({"process": os.getpid(), "said": said}))
    # A second group of the same name would find the addresses of the first one in torchrun's store.
    dist.init_process_group, dist.destroy_process_group = lambda *_: None, lambda *_: None
    sys.path.insert(0, str(Path(EXAMPLES[0]).parent))  # where torchrun would have found what they share
    for example in EXAMPLES:
        sys.argv = [example, "--check"]
        runpy.run_path(example, run_name="__main__")
    planner(on_cpu).collective_plan(model(config("a", 10**11)), sharders())  # nobody catches what it raises


main()
