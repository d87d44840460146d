"""Memory that a question keeps free."""

from __future__ import annotations

import pytest

from emplace.placement.audit import audit
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import PlanOptions, PlanStatus
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.solve import solve_question
from tests.solver.questions import gpu_host, question, table

MIB = 2**20
SPEC = [table(f"t{index}", 60_000, dim=64) for index in range(4)]


@pytest.mark.parametrize(("reserve", "kept"), [("25%", 16 * MIB), ("3MiB", 3 * MIB)])
def test_a_reserve_is_kept_free_on_every_device(reserve: str, kept: int) -> None:
    plan = solve_question(question(gpu_host(2), SPEC, hbm_reserve=reserve))
    assert audit(plan) == []
    assert {rank.hbm_capacity_bytes for rank in plan.ranks} == {63 * MIB - kept}
    assert all(rank.hbm_bytes <= 63 * MIB - kept for rank in plan.ranks)


def test_a_plan_that_uses_the_reserve_fails_the_audit() -> None:
    plan = solve_question(question(gpu_host(2), SPEC, tiers=["hbm"]))
    used = max(rank.hbm_bytes for rank in plan.ranks)
    options = plan.question.options.model_copy(update={"hbm_reserve": f"{63 * MIB - used + 1}B"})
    asked = plan.question.model_copy(update={"options": options})
    ranks = tuple(rank.model_copy(update={"hbm_capacity_bytes": used - 1}) for rank in plan.ranks)
    found = audit(plan.model_copy(update={"question": asked, "ranks": ranks}))
    assert any("1 over" in violation.what for violation in found)


def test_a_reserve_that_is_too_much_is_explained_and_dropping_it_is_a_fix() -> None:
    asked = question(gpu_host(2), SPEC, tiers=["hbm"], hbm_reserve="90%")
    plan = solve_question(asked)
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation is not None
    assert any("keeps 90% of each device's HBM free" in reason for reason in plan.explanation.reasons)
    fix = next(fix for fix in plan.explanation.fixes if fix.kind == "reserve")
    assert solve_question(patched(asked, fix.patch)).has_placement


def test_system_memory_is_reserved_on_nodes_and_servers() -> None:
    topology = question(gpu_host(2, nodes=2, servers=1), SPEC, ddr_reserve="50%").topology(with_servers=True)
    assert topology.node_ddr_capacity_bytes == (511 * MIB, 511 * MIB, 1023 * MIB)


@pytest.mark.parametrize("options", [{"hbm_reserve": "63MiB"}, {"ddr_reserve": "99.99%"}])
def test_a_reserve_that_leaves_nothing_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidDocument, match="must leave something"):
        solve_question(question(gpu_host(2), SPEC, **options))


def test_questions_without_the_new_options_keep_their_digest() -> None:
    assert set(PlanOptions().to_data()) == {"objective", "work_limit", "gap", "seed"}
