"""FOLDER EXAMPLE...: each rank writes what became of two plans that can't be made; then it is each of the examples in turn."""

import json
import os
import runpy
import sys
from pathlib import Path

import torch.distributed as dist
from torchrec.distributed.planner.types import PlannerError

from tests.torchrec.models import config, model, planner, sharders, topology

FOLDER, EXAMPLES = Path(sys.argv[1]), sys.argv[2:]


def main() -> None:
    dist.init_process_group("gloo")
    said = []
    for made, rows in ((planner(topology(2, device="cpu")), 10**11), (planner(topology(4, device="cpu")), 10)):
        try:
            made.collective_plan(model(config("a", rows)), sharders())
        except PlannerError as error:
            said.append([error.error_type.value, str(error)])
    good = planner(topology(2, device="cpu"))
    plan = good.collective_plan(model(config("a")), None, dist.group.WORLD)
    assert good.last_plan is not None
    said.append([str(plan), good.last_plan.content_digest()])
    (FOLDER / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(said))
    # A second group of the same name would find the addresses of the first one in torchrun's store.
    destroy, dist.init_process_group, dist.destroy_process_group = dist.destroy_process_group, lambda *_: None, lambda *_: None
    for example in EXAMPLES:
        sys.argv = [example, "--check"]
        runpy.run_path(example, run_name="__main__")
    destroy()


main()
