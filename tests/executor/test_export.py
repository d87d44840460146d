"""What `--format torchrec` writes, read by a program that imports nothing of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan, placements
from emplace.placement.catalog import builtin_host
from emplace.placement.host import HostSpec
from emplace.placement.plan import PlanStatus, TablePlacement
from emplace.placement.reading import read_file
from emplace.placement.topology import build_topology
from tests.executor.plans import build_plan, make_model, mixed_layouts, table_wise

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "torchrec.md"

PROGRAM = Path(__file__).parent / "programs" / "torchrec_program.py"


def code_of_the_docs(first_line: str) -> list[str]:
    """The lines after the imports of the block in the docs that holds `first_line`."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    [block] = [block for block in blocks if first_line in block]
    return [line for line in block.splitlines() if line and not line.startswith(("import", "from"))]


def test_the_three_lines_in_the_docs_are_those_that_a_torchrec_program_trains_with() -> None:
    loader = code_of_the_docs("build = ")
    assert len(loader) == 3
    program = re.sub(r"  # noqa: \w+", "", PROGRAM.read_text())
    assert "\n".join(loader) in program
    assert code_of_the_docs("plain = ")[0] in program


@pytest.mark.torch
@pytest.mark.usefixtures("own_temporary_folder")
def test_a_program_without_emplace_trains_under_the_plan_and_hands_it_back(here: HostSpec, tmp_path: Path) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2)
    (tmp_path / "plan.torchrec.json").write_text(json.dumps(to_torchrec(plan)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
    run = subprocess.run([*torchrun, str(PROGRAM)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    held = [re.findall(r"embedding_bags\.(\w+)\.weight", (tmp_path / f"held-{rank}.txt").read_text()) for rank in (0, 1)]
    assert [set(names) for names in held] == [{"country", "item", "page", "user"}, {"country", "page", "tag", "user"}]

    theirs = read_file(tmp_path / "theirs.json", TheirPlan)
    assert (theirs.world_size, theirs.local_world_size) == (2, 2)
    again = placements(theirs, "theirs", plan.question, build_topology(here, 1, 2, with_servers=False))
    assert [_places(table) for table in again] == [_places(table) for table in plan.tables]


def _places(table: TablePlacement) -> tuple[Any, ...]:
    shards = {(shard.rank, shard.rows, shard.columns) for shard in table.shards}
    return table.name, table.sharding_type, table.compute_kernel, shards


def test_cuda_ranks_name_their_local_device() -> None:
    model = make_model()
    layouts = {table.name: table_wise(table, rank) for table, rank in zip(model.tables, (0, 7, 8, 9, 15), strict=True)}
    exported = to_torchrec(build_plan(model, builtin_host("dgx-h100"), layouts, ranks=16, nodes=2))
    assert (exported["world_size"], exported["local_world_size"]) == (16, 8)
    placements = [exported["plan"]["ebc"][name]["sharding_spec"]["shards"][0]["placement"] for name in layouts]
    assert placements == ["rank:0/cuda:0", "rank:7/cuda:7", "rank:8/cuda:0", "rank:9/cuda:1", "rank:15/cuda:7"]


def test_columns_are_listed_from_left_to_right(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2)
    user = plan.tables[0].model_copy(update={"shards": plan.tables[0].shards[::-1]})
    exported = to_torchrec(plan.model_copy(update={"tables": (user, *plan.tables[1:])}))["plan"]["ebc"]["user"]
    assert exported["ranks"] == [1, 0]
    assert [shard["shard_offsets"] for shard in exported["sharding_spec"]["shards"]] == [[0, 0], [0, 8]]


def test_the_cache_load_factor_goes_along(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2)
    item = plan.tables[1].model_copy(update={"cache_load_factor": 0.25})
    exported = to_torchrec(plan.model_copy(update={"tables": (plan.tables[0], item, *plan.tables[2:])}))["plan"]["ebc"]
    assert exported["item"]["cache_params"]["load_factor"] == 0.25
    assert "cache_params" not in exported["page"]


def test_no_placement_no_export(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2).model_copy(update={"status": PlanStatus.UNDECIDED})
    with pytest.raises(NotRunnableHere, match="undecided"):
        to_torchrec(plan)
