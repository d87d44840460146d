"""Whole questions: every plan passes the audit, its bound holds, and the same question gets the same plan."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ShardingType, Tier
from emplace.placement.plan import Plan, PlanOptions, PlanStatus, Question
from emplace.placement.stages import Stage
from emplace.planning import build_question
from emplace.solver.budget import Budget
from emplace.solver.driver.variants import variants
from emplace.solver.engine import solve
from emplace.solver.model.build import price
from emplace.solver.model.extract import assemble
from emplace.solver.progress import Monitor, Progress
from emplace.solver.solve import solve_question
from tests.solver.brute_force import every_assignment
from tests.solver.questions import cpu_host, gpu_host, question, table


def solved(asked: Question) -> Plan:
    plan = solve_question(asked)
    assert audit(plan) == []
    return plan


tables = st.lists(
    st.builds(
        lambda rows, dim, pooling, data_type, access: {
            "rows": rows,
            "dim": dim,
            "pooling": pooling,
            "data_type": data_type,
            "access": access,
        },
        rows=st.integers(1, 300_000),
        dim=st.sampled_from([4, 16, 36, 64]),
        pooling=st.integers(1, 40),
        data_type=st.sampled_from(["fp32", "fp16"]),
        access=st.sampled_from(["uniform", {"zipf": 1.1}]),
    ),
    min_size=1,
    max_size=5,
).map(lambda many: [table(f"t{index}", **one) for index, one in enumerate(many)])

hosts = st.sampled_from(
    [
        gpu_host(2, hbm="24MiB"),
        gpu_host(4, hbm="12MiB", ddr="40MiB"),
        gpu_host(2, nodes=2, hbm="20MiB"),
        gpu_host(1, hbm="16MiB", servers=2),
        gpu_host(2, other_kind={"hbm_capacity": "32MiB", "count": 1}, hbm="8MiB"),
        cpu_host(2),
    ]
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    host=hosts,
    spec=tables,
    optimizer=st.sampled_from(["sgd", "adagrad", "rowwise_adagrad"]),
    objective=st.sampled_from(["mean", "p95"]),
    seed=st.integers(0, 3),
)
def test_every_answer_passes_the_audit(host: Any, spec: Any, optimizer: str, objective: str, seed: int) -> None:
    asked = question(host, spec, optimizer, objective=objective, seed=seed, work_limit=0.08, gap=0.05)
    plan = solved(asked)
    if plan.has_placement:
        assert plan.lower_bound_us is not None
        assert plan.step_time_us is not None
        assert plan.lower_bound_us <= plan.step_time_us
        assert plan.gap is not None
        assert plan.placement_gap is not None
        assert plan.gap - 1e-9 <= plan.placement_gap <= 1
        if all(each.sharding_type is not ShardingType.DATA_PARALLEL for each in plan.tables):
            same = sum(max(rank.stages_us[stage] for rank in plan.ranks) for stage in (Stage.DENSE, Stage.ALL_REDUCE))
            decided_us = plan.step_time_us - asked.cost_model.step_overhead_us - same
            assert plan.placement_gap * decided_us == pytest.approx(plan.step_time_us - plan.lower_bound_us, abs=1e-6)


UNEVEN = [table("a", 1001, dim=36, pooling=20), table("b", 777, dim=64, pooling=7)]


@pytest.mark.parametrize(
    ("host", "spec", "options"),
    [
        (gpu_host(2, hbm="1800KiB"), UNEVEN, {}),
        (gpu_host(2, hbm="1800KiB"), [one | {"constraints": {"sharding_types": ["row_wise", "column_wise"]}} for one in UNEVEN], {}),
        (gpu_host(2, nodes=2, hbm="1800KiB"), UNEVEN, {"tiers": ["hbm"]}),
        (gpu_host(1, hbm="1200KiB", ddr="1100KiB", servers=1), UNEVEN, {}),
        (cpu_host(2), [*UNEVEN, table("c", 501, dim=16)], {}),
    ],
)
def test_the_bound_holds_for_every_plan_there_is(host: Any, spec: Any, options: Any) -> None:
    """Also for those with uneven blocks of rows, whose exact time and bytes differ from the program's."""
    asked = question(host, spec, **options)
    best = float("inf")
    for variant in variants(asked):
        priced = price(asked, variant.topology, variant.tiers)
        for assignment in every_assignment(priced.problem) if priced.every_item_has_an_option else ():
            placement = assemble(priced, assignment)
            if placement.fits:
                best = min(best, placement.step_time_us)
    plan = solved(asked)
    if best == float("inf"):
        assert plan.status is PlanStatus.INFEASIBLE
        return
    assert plan.step_time_us is not None
    assert plan.lower_bound_us is not None
    assert plan.lower_bound_us <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= plan.step_time_us <= best * 1.002


def test_the_same_question_twice_differs_in_seconds_only() -> None:
    asked = question(gpu_host(4, hbm="12MiB"), [table(f"t{index}", 20_000 * (index + 1)) for index in range(8)], work_limit=0.2)
    first, second = (solve_question(asked).to_data() for _ in range(2))
    for data in (first, second):
        data["solver"].pop("seconds")
    assert json.dumps(first) == json.dumps(second)


def test_a_table_too_large_for_a_device_is_split() -> None:
    plan = solved(question(gpu_host(4, hbm="24MiB"), [table("big", 200_000, dim=64)], tiers=["hbm"]))
    assert plan.has_placement
    assert len(plan.tables[0].shards) == 4


def test_what_does_not_fit_in_device_memory_goes_to_system_memory() -> None:
    spec = [table("big", 500_000, dim=64)]
    assert solved(question(gpu_host(2, hbm="24MiB"), spec, tiers=["hbm"])).status is PlanStatus.INFEASIBLE
    plan = solved(question(gpu_host(2, hbm="24MiB"), spec))
    assert plan.has_placement
    assert sum(node.ddr_bytes for node in plan.nodes) > 0


def test_what_fits_in_neither_goes_to_remote_servers() -> None:
    spec = [table("big", 500_000, dim=64), table("small", 1000)]
    host = gpu_host(2, hbm="24MiB", ddr="24MiB", servers=2)
    assert solved(question(host, spec, tiers=["hbm", "ddr"])).status is PlanStatus.INFEASIBLE
    plan = solved(question(host, spec))
    servers = {rank.rank for rank in plan.ranks if rank.is_server}
    assert servers == {2, 3}
    assert {shard.rank for shard in plan.tables[0].shards} <= servers
    assert all(table.sharding_type in (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE) for table in plan.tables)


def test_a_model_that_is_over_the_trainers_memory_is_placed_near_its_bound() -> None:
    """450 GiB beside 349 on the trainers: what is on servers makes their exchange far longer than the relaxation has it."""
    asked = build_question(builtin_model("m3"), builtin_host("big-basin-16g"), PlanOptions())
    beside_servers = variants(asked)[1]
    found = solve(price(asked, beside_servers.topology, beside_servers.tiers).problem, Budget(1.0, gap=1e-3, seed=0))
    assert found.gap < 0.2


def test_servers_are_left_out_where_they_only_slow_down() -> None:
    plan = solved(question(gpu_host(2, servers=2), [table("small", 1000), table("other", 2000)]))
    assert not any(rank.is_server for rank in plan.ranks)


def test_servers_that_hold_nothing_do_not_slow_a_step() -> None:
    spec = [table(f"t{index}", 400_000, dim=64, pooling=20) for index in range(4)]
    steps = []
    for servers in (2, 40):
        host = gpu_host(2, hbm="24MiB", ddr="24MiB", servers=servers)
        on_two = [each | {"constraints": {"ranks": [2, 3]}} for each in spec]
        steps.append(solved(question(host, on_two, work_limit=0.5)).step_time_us)
    assert steps[0] == pytest.approx(steps[1])


def test_more_servers_never_slow_a_model_that_needs_them() -> None:
    spec = [table(f"t{index}", 200_000, dim=64, pooling=20) for index in range(3)]
    hosts_ = [gpu_host(2, hbm="24MiB", ddr="24MiB", servers=servers) for servers in (1, 2, 3)]
    plans = [solved(question(host, spec, tiers=["remote"])) for host in hosts_]
    assert all(plan.status is PlanStatus.OPTIMAL for plan in plans)
    steps = [plan.step_time_us or 0.0 for plan in plans]
    assert steps[0] > steps[1] >= steps[2]


def test_constraints_are_kept() -> None:
    spec = [
        table("pinned", 1000, constraints={"ranks": [1], "sharding_types": ["table_wise"]}),
        table("uvm", 1000, constraints={"tiers": ["ddr"]}),
        table("free", 1000),
    ]
    plan = solved(question(gpu_host(2), spec))
    assert [shard.rank for shard in plan.tables[0].shards] == [1]
    assert plan.tables[1].compute_kernel == "fused_uvm"


def test_p95_is_never_faster_than_the_mean() -> None:
    spec = [table(f"t{index}", 10_000, pooling=5.5) for index in range(4)]
    mean, p95 = (solved(question(gpu_host(2), spec, objective=objective)) for objective in ("mean", "p95"))
    assert mean.step_time_us is not None
    assert p95.step_time_us is not None
    assert p95.step_time_us > mean.step_time_us


def test_more_ranks_than_devices_is_bad_input() -> None:
    with pytest.raises(InvalidDocument, match="2 devices"):
        solve_question(question(gpu_host(2), [table("t", 10)], ranks=3))


def test_stopping_gives_an_answer_at_once() -> None:
    spec = [table(f"t{index}", 5000 * (index + 1), pooling=index + 1) for index in range(20)]
    plan = solve_question(question(gpu_host(8), spec, work_limit=60), Monitor.of(None, lambda: True))
    assert plan.solver.stopped_by == "cancelled"
    assert plan.solver.seconds < 20
    assert audit(plan) == []


def test_progress_is_of_the_whole_question() -> None:
    seen: list[Progress] = []
    plan = solve_question(
        question(gpu_host(2, servers=2), [table(f"t{index}", 5000) for index in range(6)], work_limit=0.2), Monitor.of(seen.append)
    )
    assert seen
    incumbents = [progress.incumbent_us for progress in seen if progress.incumbent_us is not None]
    assert incumbents == sorted(incumbents, reverse=True)
    assert plan.step_time_us is not None
    assert {progress.phase.split(":")[0] for progress in seen} <= {"trainers", "trainers and servers"}


def test_tiers_that_the_host_lacks_are_explained() -> None:
    plan = solved(question(cpu_host(), [table("t", 10)], tiers=["hbm"]))
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation is not None
    assert "allows only the tiers hbm" in plan.explanation.reasons[0]
    assert plan.explanation.fixes[0].patch == {"options": {"tiers": [Tier.HBM, Tier.DDR]}}


def _uneven_beside(rank: int, hbm: str) -> Question:
    """A table split into blocks of 501 and 500 rows, and one that must lie on `rank`."""
    split = table("split", 1001, dim=64, constraints={"sharding_types": ["row_wise"], "tiers": ["hbm"]})
    return question(gpu_host(2, hbm=hbm), [split, table("whole", 5000, dim=64, constraints={"ranks": [rank]})])


def test_a_plan_that_fits_only_because_the_last_block_is_shorter_is_found() -> None:
    needed = solved(_uneven_beside(1, "64MiB")).ranks[1].hbm_bytes
    assert solved(_uneven_beside(1, f"{needed + 2**20}B")).tables[1].compute_kernel == "fused"


def test_a_plan_that_would_be_over_by_the_longer_block_is_not_given() -> None:
    needed = solved(_uneven_beside(0, "64MiB")).ranks[0].hbm_bytes
    plan = solved(_uneven_beside(0, f"{needed - 1 + 2**20}B"))
    assert plan.has_placement
    assert plan.tables[1].compute_kernel != "fused"
