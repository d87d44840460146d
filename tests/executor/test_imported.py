"""A TorchRec plan made elsewhere becomes a plan that audits clean, or is refused with every reason."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology

from emplace.app.importing import import_plan
from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan
from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import constant_us
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data, read_file
from emplace.runtime.dlrm import Dlrm
from emplace.solver.solve import solve_question
from tests.executor.plans import build_plan, grid_layouts, make_model, mixed_layouts, table_wise

pytestmark = pytest.mark.torch


def _imported(data: dict[str, Any], host: HostSpec, **options: Any) -> Plan:
    return import_plan(from_data(data, TheirPlan, source="theirs"), "theirs", make_model(), host, PlanOptions(**options))


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_is_exported_comes_back_with_the_same_prices(here: HostSpec, nodes: int) -> None:
    model = make_model()
    layouts = mixed_layouts(model) if nodes == 1 else grid_layouts(model)
    plan = build_plan(model, here, layouts, ranks=2 * nodes, nodes=nodes, cost=datasheet_cost_model(here))
    again = _imported(to_torchrec(plan), here)
    assert audit(again) == []
    assert again.ranks == plan.ranks
    assert again.step_time_us == plan.step_time_us
    assert again.question.options.ranks == 2 * nodes
    assert again.question.options.nodes == nodes


def test_the_bound_is_the_solvers_and_holds_for_the_solvers_plan(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, {table.name: table_wise(table, 0) for table in model.tables}, ranks=2)
    again = _imported(to_torchrec(plan), here, work_limit=1.0)
    best = solve_question(again.question)
    assert again.lower_bound_us is not None
    assert again.step_time_us is not None
    assert best.step_time_us is not None
    assert 0 < again.lower_bound_us <= best.step_time_us < again.step_time_us
    assert again.gap == pytest.approx(1 - again.lower_bound_us / again.step_time_us)
    assert (again.gap or 0.0) < (again.placement_gap or 0.0) < 1
    assert (again.status, again.solver.stopped_by) == ("feasible", "imported")


def test_the_plan_of_torchrecs_own_planner(here: HostSpec, tmp_path: Path) -> None:
    """Dumped with the lines of the docs."""
    planner = EmbeddingShardingPlanner(topology=Topology(world_size=2, compute_device="cpu"))
    plan = planner.plan(Dlrm(make_model(), torch.device("meta")), [EmbeddingBagCollectionSharder()])
    dump = json.dumps(
        {"world_size": 2, "plan": plan.plan}, default=lambda value: asdict(value) if is_dataclass(type(value)) else str(value)
    )
    (tmp_path / "theirs.json").write_text(dump)
    theirs = read_file(tmp_path / "theirs.json", TheirPlan)
    found = import_plan(theirs, "theirs", make_model(), here, PlanOptions(nodes=1))
    assert audit(found) == []
    for table, sharding in plan.plan["ebc"].items():
        [placement] = [placement for placement in found.tables if placement.name == table]
        assert placement.sharding_type == sharding.sharding_type
        if sharding.sharding_spec is not None:
            assert {shard.rank for shard in placement.shards} == {shard.placement.rank() for shard in sharding.sharding_spec.shards}


def test_a_plan_that_is_too_large_is_priced_and_the_audit_says_what_is_over(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, mixed_layouts(model), ranks=2)
    small = here.model_copy(update={"node": here.node.model_copy(update={"ddr_capacity": 1 << 20, "ddr_reserve": 0}), "fingerprint": None})
    found = _imported(to_torchrec(plan), small)
    assert {violation.where for violation in audit(found)} == {"/nodes/0/ddr_bytes"}
    assert found.lower_bound_us == constant_us(found.question, found.topology())
    assert (found.placement_gap, found.solver.bound) == (1.0, "step without tables")


def test_a_cache_without_a_load_factor_has_fbgemms_default() -> None:
    model = make_model()
    host = builtin_host("dgx-h100")
    data = to_torchrec(build_plan(model, host, {table.name: table_wise(table, 0) for table in model.tables}, ranks=2))
    data["plan"]["ebc"]["item"] |= {"compute_kernel": "fused_uvm_caching"}
    assert _imported(data, host).tables[1].cache_load_factor == 0.2
    data["plan"]["ebc"]["item"] |= {"cache_params": {"load_factor": 0.5, "algorithm": "CacheAlgorithm.LRU"}}
    found = _imported(data, host)
    assert found.tables[1].cache_load_factor == 0.5
    assert audit(found) == []


def test_neighbouring_columns_on_one_rank_are_one_piece(here: HostSpec) -> None:
    model = make_model()
    data = to_torchrec(build_plan(model, here, mixed_layouts(model), ranks=2))
    pieces = [([0, 8], 0), ([0, 0], 1), ([0, 4], 1), ([0, 12], 0)]
    shards = [{"shard_offsets": start, "shard_sizes": [20011, 4], "placement": f"rank:{rank}/cpu"} for start, rank in pieces]
    data["plan"]["ebc"]["user"] |= {"ranks": [0, 1, 1, 0], "sharding_spec": {"shards": shards}}
    found = _imported(data, here)
    assert [(shard.rank, shard.columns) for shard in found.tables[0].shards] == [(1, (0, 8)), (0, (8, 16))]
    assert audit(found) == []
    shards[3]["placement"], shards[1]["placement"] = "rank:1/cpu", "rank:0/cpu"
    data["plan"]["ebc"]["user"]["ranks"] = [0, 0, 1, 1]
    with pytest.raises(InvalidDocument, match="each shard needs a rank of its own"):
        _imported(data, here)


def _no_table(tables: dict[str, Any]) -> None:
    del tables["item"]


def _unknown_table(tables: dict[str, Any]) -> None:
    tables["goods"] = tables["item"]


def _unknown_kernel(tables: dict[str, Any]) -> None:
    tables["item"]["compute_kernel"] = "key_value"


def _uneven_rows(tables: dict[str, Any]) -> None:
    first, second = tables["page"]["sharding_spec"]["shards"]
    first["shard_sizes"][0] += 1
    second["shard_offsets"][0] += 1
    second["shard_sizes"][0] -= 1


def _no_such_rank(tables: dict[str, Any]) -> None:
    tables["item"]["sharding_spec"]["shards"][0]["placement"] = "rank:2/cpu"


def _no_rank(tables: dict[str, Any]) -> None:
    tables["item"]["sharding_spec"]["shards"][0]["placement"] = "cpu"


def _other_ranks(tables: dict[str, Any]) -> None:
    tables["item"]["ranks"] = [7]


def _other_order(tables: dict[str, Any]) -> None:
    tables["user"]["ranks"].reverse()


def _no_shards(tables: dict[str, Any]) -> None:
    tables["item"]["sharding_spec"] = None


def _uvm_on_a_cpu(tables: dict[str, Any]) -> None:
    tables["item"]["compute_kernel"] = "fused_uvm"


@pytest.mark.parametrize(
    ("spoil", "where", "what"),
    [
        (_no_table, "/plan", "does not place the table item"),
        (_unknown_table, "/plan/ebc/goods", "the model small has no table goods"),
        (_unknown_kernel, "/plan/ebc/item/compute_kernel", "must be 'fused'"),
        (_uneven_rows, "/plan/ebc/page", "even blocks of ceil(rows / ranks) = 15001"),
        (_no_such_rank, "/plan/ebc/item", "there is no rank 2"),
        (_no_rank, "/plan/ebc/item/sharding_spec/shards/0/placement", "must name a rank"),
        (_other_ranks, "/plan/ebc/item/ranks", "must be [0], as the placements of its shards say"),
        (_other_order, "/plan/ebc/user/ranks", "must be [1, 0]"),
        (_no_shards, "/plan/ebc/item/sharding_spec", "is required of table_wise"),
        (_uvm_on_a_cpu, "/plan/ebc/item", "needs a CUDA device"),
    ],
)
def test_what_can_not_run_is_refused(here: HostSpec, spoil: Any, where: str, what: str) -> None:
    model = make_model()
    data = to_torchrec(build_plan(model, here, mixed_layouts(model), ranks=2))
    spoil(data["plan"]["ebc"])
    with pytest.raises(InvalidDocument) as refusal:
        _imported(data, here)
    assert any(broken.pointer == where and what in broken.rule for broken in refusal.value.broken_rules), refusal.value


def test_ranks_must_agree_with_the_file(here: HostSpec) -> None:
    model = make_model()
    data = to_torchrec(build_plan(model, here, mixed_layouts(model), ranks=2))
    with pytest.raises(InvalidDocument, match="is for 2 ranks, local is asked for 4"):
        _imported(data, here, ranks=4)
    with pytest.raises(InvalidDocument, match="must divide the world size"):
        _imported(data | {"local_world_size": 3}, here)


def test_a_table_in_two_modules(here: HostSpec) -> None:
    model = make_model()
    data = to_torchrec(build_plan(model, here, mixed_layouts(model), ranks=2))
    data["plan"]["model/other"] = {"item": data["plan"]["ebc"]["item"]}
    with pytest.raises(InvalidDocument, match=r"/plan/model~1other/item: the table item is placed twice"):
        _imported(data, here)
