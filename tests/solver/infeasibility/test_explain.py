"""Infeasible questions: what is over by how many bytes, and fixes that really help."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.audit import audit
from emplace.placement.memory import rank_bytes, shard_bytes
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.placement.modules import Module, Pooling
from emplace.placement.plan import Explanation, PlanStatus, Question
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.topology import build_topology
from emplace.placement.units import show_gib
from emplace.placement.workload import Objective, PeakBatch, model_loads
from emplace.solver.infeasibility import hardware_edits
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.infeasibility.shortage import Case, cases
from emplace.solver.solve import solve_question
from tests.solver.questions import cpu_host, gpu_host, question, table

SEQUENCES_POOL = "FBGEMM's dense kernel for CPU devices pools, so a table that is not pooled can't be data_parallel on them"


def explained(asked: Question) -> Explanation:
    plan = solve_question(asked)
    assert plan.status is PlanStatus.INFEASIBLE
    assert audit(plan) == []
    assert plan.explanation is not None
    return plan.explanation


def too_many_tables(host: Any, **options: Any) -> Question:
    return question(host, [table(f"t{index}", 100_000 + index, dim=64) for index in range(6)], work_limit=0.4, gap=0.5, **options)


def test_names_the_bytes_that_are_over_and_the_largest_tables() -> None:
    asked = too_many_tables(gpu_host(2, hbm="32MiB"), tiers=["hbm"])
    reason = explained(asked).reasons[0]
    topology = build_topology(asked.host, None, None, with_servers=False)
    loads = model_loads(asked.model, topology, Objective.MEAN)
    # Whole tables are the least there is here: any split repeats the row-wise state or the ids.
    sharding = TableSharding(ShardingType.TABLE_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.ROWWISE_ADAGRAD)
    peaks = [PeakBatch(load.global_peak_ids, load.global_bags, load.global_bags) for load in loads]
    needed = sum(
        int(shard_bytes(sharding, ShardShape(table.num_embeddings, 64), peak, on_cuda=True)[0])
        for table, peak in zip(asked.model.tables, peaks, strict=True)
    )
    capacity = 2 * (31 * 2**20 - rank_bytes(asked.model, loads, is_server=False, on_cuda=True))
    assert f"HBM: the tables need at least {show_gib(needed)}, {show_gib(capacity)} are there" in reason
    assert f": {show_gib(needed - capacity)} over" in reason
    assert "over; the largest tables are t5" in reason


@pytest.mark.parametrize(
    "asked",
    [
        too_many_tables(gpu_host(2, hbm="32MiB"), tiers=["hbm"]),
        too_many_tables(gpu_host(2, hbm="32MiB", ddr="16MiB", servers=1), tiers=["hbm", "ddr"]),
        too_many_tables(cpu_host(1).model_copy(update={"node": cpu_host(1).node.model_copy(update={"ddr_capacity": 1_100_000_000})})),
    ],
    ids=["hbm", "hbm and ddr", "cpu"],
)
def test_every_fix_is_accepted_when_the_question_is_asked_again(asked: Question) -> None:
    fixes = explained(asked).fixes
    assert len({fix.kind for fix in fixes}) >= 3
    for fix in fixes:
        assert fix.verified
        plan = solve_question(patched(asked, fix.patch))
        assert plan.has_placement, fix.change
        assert audit(plan) == []


def test_fixes_are_of_several_kinds_and_the_ones_without_hardware_come_first() -> None:
    fixes = explained(too_many_tables(gpu_host(2, hbm="32MiB"), tiers=["hbm"])).fixes
    kinds = [fix.kind for fix in fixes]
    assert kinds[0] == "tier"
    assert {"tier", "hash_size", "hbm", "nodes"} <= set(kinds)
    assert "--tiers hbm,ddr" in fixes[0].change
    costs = [fix.cost_bytes for fix in fixes if fix.cost_bytes is not None]
    assert costs == sorted(costs)


def test_a_little_over_is_fixed_by_a_narrower_type_of_a_few_tables() -> None:
    fixes = explained(too_many_tables(gpu_host(2, hbm="76MiB"), tiers=["hbm"])).fixes
    narrower = next(fix for fix in fixes if fix.kind == "data_type")
    assert 0 < len(narrower.patch["model"]["tables"]) < 6
    assert "in fp16 instead of fp32" in narrower.change


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"tiers": ["remote"]}, "allow only tiers remote; this target offers ddr, hbm"),
        (
            {"sharding_types": ["data_parallel"]},
            "leave only data_parallel: the dense kernel can't train int8 weights; allow another sharding type, or use data_type fp32",
        ),
        ({"compute_kernels": ["fused_uvm"], "tiers": ["hbm"]}, "together leave no way"),
        ({"ranks": [7]}, "allow only ranks [7], the job has 0..1"),
    ],
)
def test_a_constraint_that_leaves_nothing_is_named(constraints: dict[str, Any], expected: str) -> None:
    asked = question(gpu_host(2), [table("free", 100), table("bound", 100, data_type="int8", constraints=constraints)], work_limit=0.4)
    explanation = explained(asked)
    assert explanation.reasons[0].startswith("table bound: ")
    assert expected in explanation.reasons[0]
    fix = next(fix for fix in explanation.fixes if fix.kind == "constraints")
    assert fix.patch == {"model": {"tables": {"bound": {"constraints": None}}}}


def test_what_adam_on_cpus_rules_out_is_named() -> None:
    asked = question(cpu_host(2), [table("free", 100), table("narrow", 670, dim=16, data_type="int8")], optimizer="adam", work_limit=0.4)
    explanation = explained(asked)
    assert explanation.reasons == (
        "table narrow: with the optimizer adam CPU devices have no fused kernel, and the dense kernel can't train int8 weights; "
        "use another optimizer, or use data_type fp32, fp16 or bf16",
    )
    assert explanation.tables == ("narrow",)
    assert solve_question(question(cpu_host(2), [table("narrow", 670, dim=16)], optimizer="adam", work_limit=0.4)).has_placement


@pytest.mark.parametrize(
    ("optimizer", "constraints", "expected"),
    [
        ("adam", {}, f"with the optimizer adam CPU devices have no fused kernel, and {SEQUENCES_POOL}; use another optimizer"),
        (
            "adam",
            {"sharding_types": ["table_wise"]},
            f"with the optimizer adam CPU devices have no fused kernel, and {SEQUENCES_POOL}; use another optimizer",
        ),
        (
            "sgd",
            {"sharding_types": ["data_parallel"]},
            f"its constraints (sharding_types: data_parallel) leave only data_parallel: {SEQUENCES_POOL}; allow another sharding type",
        ),
        (
            "sgd",
            {"compute_kernels": ["fused_uvm"]},
            "its constraints allow only compute kernels fused_uvm; this target offers fused",
        ),
    ],
)
def test_what_cpus_can_not_do_for_sequences_is_named(optimizer: str, constraints: dict[str, Any], expected: str) -> None:
    """They could not be data_parallel whatever their data type."""
    sequence = Module(path="history", pooling=Pooling.NONE)
    asked = question(cpu_host(2), [table("seen", 100, constraints=constraints)], optimizer=optimizer, work_limit=0.4)
    asked = asked.model_copy(update={"model": asked.model.model_copy(update={"modules": (sequence,)})})
    assert explained(asked).reasons == (f"table seen: {expected}",)


def test_a_table_larger_than_any_device_is_named() -> None:
    only_whole = {"sharding_types": ["table_wise"]}
    asked = question(gpu_host(4, hbm="32MiB"), [table("big", 200_000, dim=64, constraints=only_whole)], tiers=["hbm"], work_limit=0.4)
    reason = explained(asked).reasons[0]
    assert reason.startswith("table big: no device has room for even its most split form (table_wise, fused)")


def test_ranks_that_are_full_before_any_table_are_named() -> None:
    reasons = explained(question(gpu_host(2, hbm="1100KiB"), [table("t", 10, pooling=4000)], work_limit=0.4)).reasons
    assert "each rank on gpu holds" in reasons[0]
    assert "more than its HBM has" in reasons[0]


def test_hardware_that_helps_nothing_is_not_tried_in_larger_and_larger_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One amount each of system memory, servers and nodes shows that the ranks stay as full."""
    tried = []

    def noted(asked: Question) -> list[Case]:
        tried.append(asked)
        return cases(asked)

    monkeypatch.setattr(hardware_edits, "cases", noted)
    reached = explained(question(gpu_host(2, hbm="1100KiB", ddr="1GiB", servers=1), [table("t", 10, pooling=4000)], work_limit=0.4))
    assert [fix.kind for fix in reached.fixes] == ["hbm"]
    others = [
        asked for asked in tried if asked.host.node.devices[0].hbm_capacity == gpu_host(2, hbm="1100KiB").node.devices[0].hbm_capacity
    ]
    assert len(others) == 3


def test_more_nodes_are_found_where_each_brings_a_little() -> None:
    only_whole = {"sharding_types": ["table_wise"]}
    tables = [table(f"t{number}", 40_000, dim=64, constraints=only_whole) for number in range(9)]
    fix = next(
        fix for fix in explained(question(gpu_host(1, hbm="40MiB"), tables, tiers=["hbm"], work_limit=0.4)).fixes if fix.kind == "nodes"
    )
    assert fix.patch["options"]["nodes"] > 2


def test_both_programs_are_explained_where_servers_are_allowed() -> None:
    host = gpu_host(1, hbm="4MiB", ddr="4MiB", servers=1)
    asked = question(host, [table("t", 40_000_000, dim=64)], work_limit=0.4)
    reasons = explained(asked).reasons
    assert any(reason.startswith("trainers: ") for reason in reasons)
    assert any(reason.startswith("trainers and servers: ") for reason in reasons)


def test_a_fix_that_takes_a_search_is_found() -> None:
    """Greedily, tables of 8 and 7, then 6 and 5, leave no room for the 4 within 15 and a little; 8 + 7 and 6 + 5 + 4 fit."""
    whole = {"sharding_types": ["table_wise"]}
    tables = [table(f"t{size}", 40_000 * size, dim=64, constraints=whole) for size in (8, 7, 6, 5, 4)]
    asked = question(gpu_host(2, hbm="156MiB"), tables, tiers=["hbm"], hbm_reserve="20MiB", work_limit=0.2, gap=0.5)
    fix = next(fix for fix in explained(asked).fixes if fix.kind == "reserve")
    assert solve_question(patched(asked, fix.patch)).has_placement
