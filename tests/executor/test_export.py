"""What `--format torchrec` writes, read by a program that imports nothing of ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from executor.errors import NotRunnableHere
from executor.export import to_torchrec
from placement.catalog import builtin_host
from placement.host import HostSpec
from placement.plan import PlanStatus
from tests.executor.plans import build_plan, grid_layouts, make_model, mixed_layouts, table_wise

DOCS = Path(__file__).parents[2] / "docs" / "execution.md"

PRINT_IT = """
import json, sys
def plain(sharding):
    spec = sharding.sharding_spec
    shards = None if spec is None else [[s.shard_offsets, s.shard_sizes, str(s.placement)] for s in spec.shards]
    return [sharding.sharding_type, sharding.compute_kernel, sharding.ranks, shards]
print(json.dumps({table: plain(sharding) for table, sharding in plan.plan["ebc"].items()}))
assert not {"placement", "executor", "solver", "app"} & set(sys.modules)
"""


def test_the_loader_in_the_docs_builds_the_plan(here: HostSpec, tmp_path: Path) -> None:
    """The program in the docs runs as it stands, in a folder of its own."""
    [loader] = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    model = make_model()
    exported = to_torchrec(build_plan(model, here, grid_layouts(model), ranks=4, nodes=2))
    (tmp_path / "plan.torchrec.json").write_text(json.dumps(exported))
    (tmp_path / "loader.py").write_text(loader + PRINT_IT)
    run = subprocess.run([sys.executable, "-P", "loader.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    loaded = json.loads(run.stdout.splitlines()[-1])
    assert loaded["user"] == [
        "grid_shard",
        "fused",
        [2, 3, 0, 1],
        [
            [[0, 0], [10006, 8], "rank:2/cpu"],
            [[10006, 0], [10005, 8], "rank:3/cpu"],
            [[0, 8], [10006, 8], "rank:0/cpu"],
            [[10006, 8], [10005, 8], "rank:1/cpu"],
        ],
    ]
    assert loaded["tag"] == ["data_parallel", "dense", [0, 1, 2, 3], None]


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
    assert exported["item"]["cache_params"] == {"load_factor": 0.25}
    assert "cache_params" not in exported["page"]


def test_no_placement_no_export(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2).model_copy(update={"status": PlanStatus.UNDECIDED})
    with pytest.raises(NotRunnableHere, match="undecided"):
        to_torchrec(plan)


def test_exporting_imports_no_torch() -> None:
    code = "import sys, executor.export; assert not {'torch', 'torchrec', 'fbgemm_gpu'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=DOCS.parents[1], timeout=60).returncode == 0
