"""The fewest devices that a model fits."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.audit import audit
from emplace.placement.plan import JobSize, Plan, PlanStatus, Question
from emplace.placement.workload import Objective
from emplace.solver.driver.fewest_devices import smallest_size
from emplace.solver.progress import Monitor
from emplace.solver.solve import solve_question
from tests.solver.questions import cpu_host, gpu_host, question, table


def solved(of: Question) -> Plan:
    plan = solve_question(of)
    assert audit(plan) == []
    return plan


def spec(count: int) -> list[dict[str, Any]]:
    """Tables of about 12 MiB each."""
    return [table(f"t{index}", 50_000, dim=64) for index in range(count)]


@pytest.mark.parametrize(
    ("tables", "nodes", "ranks", "impossible"), [(1, 1, 1, 0), (6, 1, 2, 1), (12, 1, 3, 2), (18, 1, 4, 3), (30, 2, 8, 4), (50, 3, 12, 5)]
)
def test_it_is_found_and_every_smaller_job_is_proven_impossible(tables: int, nodes: int, ranks: int, impossible: int) -> None:
    plan = solved(question(gpu_host(4, nodes=3), spec(tables), tiers=["hbm"], objective="devices", work_limit=0.4, gap=0.2))
    assert plan.fewest is not None
    assert plan.fewest.size == JobSize(nodes=nodes, ranks=ranks)
    assert len(plan.fewest.impossible) == impossible
    assert plan.fewest.undecided == ()
    assert len(plan.ranks) == ranks


@pytest.mark.parametrize("tables", [3, 7, 11])
def test_no_smaller_job_has_a_plan(tables: int) -> None:
    """Each smaller size asked on its own is infeasible."""
    of = question(gpu_host(4), spec(tables), tiers=["hbm"], objective="devices", work_limit=0.4, gap=0.2)
    plan = solved(of)
    assert plan.fewest is not None
    assert plan.fewest.size is not None
    for ranks in range(1, plan.fewest.size.ranks):
        options = of.options.model_copy(update={"ranks": ranks, "objective": Objective.MEAN})
        assert solved(of.model_copy(update={"options": options})).status is PlanStatus.INFEASIBLE


def test_the_whole_host_is_the_most_and_too_little_is_explained() -> None:
    plan = solved(question(gpu_host(2, nodes=2), spec(60), tiers=["hbm"], objective="devices", work_limit=0.4))
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.fewest is not None
    assert [(size.nodes, size.ranks) for size in plan.fewest.impossible] == [(1, 1), (1, 2), (2, 4)]
    assert plan.explanation is not None
    assert any("GiB over" in reason or "MiB over" in reason for reason in plan.explanation.reasons)
    assert any(fix.verified for fix in plan.explanation.fixes)


def test_asked_ranks_and_nodes_are_the_most() -> None:
    plan = solved(question(gpu_host(4, nodes=4), spec(1), objective="devices", nodes=2, ranks=4, work_limit=0.08))
    assert plan.fewest is not None
    assert plan.fewest.size == JobSize(nodes=1, ranks=1)
    assert solved(question(cpu_host(2), spec(1), objective="devices", work_limit=0.08)).status is not PlanStatus.INFEASIBLE


def test_a_table_pinned_to_a_rank_needs_that_many() -> None:
    pinned = table("t", 1000, constraints={"pin": {"sharding_type": "table_wise", "ranks": [2]}})
    plan = solved(question(gpu_host(4), [pinned], objective="devices", work_limit=0.08))
    assert plan.fewest is not None
    assert plan.fewest.size == JobSize(nodes=1, ranks=3)


def test_servers_count_as_memory_not_as_devices() -> None:
    host = gpu_host(2, hbm="16MiB", ddr="16MiB", servers=1)
    plan = solved(question(host, spec(4), objective="devices", work_limit=0.4))
    assert plan.fewest is not None
    assert plan.fewest.size == JobSize(nodes=1, ranks=1)
    assert any(rank.is_server for rank in plan.ranks)


def test_a_cancelled_search_decides_nothing() -> None:
    of = question(gpu_host(2), spec(2), objective="devices")
    plan = solve_question(of, Monitor.of(None, lambda: True))
    assert audit(plan) == []
    assert plan.status is PlanStatus.UNDECIDED
    assert plan.solver.stopped_by == "cancelled"
    assert smallest_size(of, Monitor.of(None, lambda: True)).record.undecided == (JobSize(nodes=1, ranks=1), JobSize(nodes=1, ranks=2))


def test_a_size_that_the_job_does_not_offer_fails_the_audit() -> None:
    plan = solved(question(gpu_host(4), spec(7), tiers=["hbm"], objective="devices", work_limit=0.4))
    assert plan.fewest is not None
    foreign = JobSize(nodes=1, ranks=77)
    for key, where in (("size", "/fewest/size"), ("impossible", "/fewest/impossible/0"), ("undecided", "/fewest/undecided/0")):
        changed = plan.fewest.model_copy(update={key: foreign if key == "size" else (foreign,)})
        found = [each for each in audit(plan.model_copy(update={"fewest": changed})) if each.where == where]
        assert [each.what for each in found] == ["is 77 ranks on 1 nodes, which the question doesn't offer"]


def test_a_size_left_out_or_undecided_in_an_optimal_plan_fails_the_audit() -> None:
    plan = solved(question(gpu_host(4), spec(7), tiers=["hbm"], objective="devices", work_limit=0.4))
    assert plan.fewest is not None
    left_out = plan.fewest.model_copy(update={"impossible": ()})
    assert any("must name each of the 1 smaller" in each.what for each in audit(plan.model_copy(update={"fewest": left_out})))
    undecided = left_out.model_copy(update={"undecided": plan.fewest.impossible})
    changed = plan.model_copy(update={"fewest": undecided, "status": PlanStatus.OPTIMAL})
    assert any("1 ranks on 1 nodes is undecided" in each.what for each in audit(changed))
    assert any(each.where == "/fewest" for each in audit(plan.model_copy(update={"fewest": None})))
