"""Tables that may share no device."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.solver.driver.conflict_repair import dealt_out
from emplace.solver.driver.variants import variants
from emplace.solver.heuristics.greedy import pack
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.model.build import price
from emplace.solver.model.conflicts import keeps_apart
from emplace.solver.model.extract import assemble
from emplace.solver.solve import solve_question
from tests.solver.brute_force import every_assignment
from tests.solver.questions import gpu_host, question, table


def asked(
    host: Any, spec: list[dict[str, Any]], apart: list[list[str]], together: list[list[str]] | None = None, **options: Any
) -> Question:
    plain = question(host, spec, **({"work_limit": 0.4} | options))
    model = ModelSpec.model_validate(plain.model.to_data() | {"apart": apart} | ({"together": together} if together else {}))
    return plain.model_copy(update={"model": model})


def solved(of: Question) -> Plan:
    plan = solve_question(of)
    assert audit(plan) == []
    return plan


SPEC = [table(f"t{index}", 2000 * (index + 1), pooling=2 + 3 * index) for index in range(6)]
NAMES = [each["name"] for each in SPEC]


@settings(max_examples=8, deadline=None)
@given(
    groups=st.lists(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True), min_size=1, max_size=3),
    host=st.sampled_from([gpu_host(4), gpu_host(2, nodes=2), gpu_host(2, other_kind={"count": 2}), gpu_host(3, servers=1)]),
)
def test_no_device_holds_two_of_a_group(groups: list[list[str]], host: Any) -> None:
    """Three groups of four may need five devices, so some of these have no plan."""
    plan = solved(asked(host, SPEC, groups, work_limit=0.12, gap=0.05))
    assert plan.has_placement or len(groups) == 3


@pytest.mark.parametrize("groups", [[["t0", "t5"]], [["t3", "t4", "t5"]], [["t5", "t4"], ["t4", "t3"], ["t3", "t5"]]])
def test_the_bound_holds_and_the_plan_is_close_to_the_best(groups: list[list[str]]) -> None:
    only = [each | {"constraints": {"sharding_types": ["table_wise"], "compute_kernels": ["fused"]}} for each in SPEC]
    of = asked(gpu_host(3), only, groups, tiers=["hbm"])
    variant = variants(of)[0]
    priced = price(of, variant.topology, variant.tiers)
    best = min(
        assemble(priced, each).step_time_us for each in every_assignment(priced.problem) if keeps_apart(priced.problem, priced.apart, each)
    )
    plan = solved(of)
    assert plan.lower_bound_us is not None
    assert plan.step_time_us is not None
    assert plan.lower_bound_us <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= plan.step_time_us <= best * 1.25


def test_where_the_best_plan_keeps_them_apart_it_is_given() -> None:
    only = [each | {"constraints": {"sharding_types": ["table_wise"]}} for each in SPEC[:2]]
    free = solved(question(gpu_host(2), only))
    plan = solved(asked(gpu_host(2), only, [["t0", "t1"]]))
    assert plan.status is PlanStatus.OPTIMAL
    assert plan.step_time_us == pytest.approx(free.step_time_us, rel=1e-9)


def test_devices_dealt_out_are_disjoint_in_every_group() -> None:
    of = asked(gpu_host(4), SPEC, [NAMES[:4], ["t3", "t4", "t5"]])
    variant = variants(of)[0]
    problem = price(of, variant.topology, variant.tiers).problem
    assignment = pack(problem)
    assert assignment is not None
    groups = ((0, 1, 2, 3), (3, 4, 5))
    allowed = dealt_out(problem, groups, assignment).allowed
    assert allowed is not None
    for group in groups:
        assert all(not (allowed[one] & allowed[other]).any() for one, other in combinations(group, 2))
        assert np.array_equal(allowed[list(group)].any(axis=1), [True] * len(group))


def test_more_tables_than_devices_are_proven_impossible_and_sharing_is_a_fix() -> None:
    of = asked(gpu_host(2), SPEC[:3], [["t0", "t1", "t2"]])
    plan = solved(of)
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation is not None
    assert any("t0 + t1 + t2: must be apart, which takes 3 devices" in reason for reason in plan.explanation.reasons)
    fix = next(fix for fix in plan.explanation.fixes if fix.kind == "apart")
    assert solve_question(patched(of, fix.patch)).has_placement


def test_pinned_tables_and_groups_are_kept_apart_too() -> None:
    pin = {"pin": {"sharding_type": "table_wise", "ranks": [1]}}
    spec = [table("pinned", 1000, constraints=pin), *SPEC[:3]]
    plan = solved(asked(gpu_host(3), spec, [["pinned", "t0"], ["t1", "t2"]], [["t0", "t1"]]))
    ranks = {each.name: {shard.rank for shard in each.shards} for each in plan.tables}
    assert ranks["t0"] == ranks["t1"]
    assert not ranks["t0"] & ({1} | ranks["t2"])
    both = solved(asked(gpu_host(3), [table(name, 1000, constraints=pin) for name in "ab"], [["a", "b"]]))
    assert both.status is PlanStatus.INFEASIBLE
    assert both.explanation is not None
    assert any("both are pinned to rank 1" in reason for reason in both.explanation.reasons)


def test_the_device_of_a_pinned_table_is_forbidden_even_where_it_is_the_idlest() -> None:
    busy = [
        table(f"busy{rank}", 1000, pooling=60, constraints={"pin": {"sharding_type": "table_wise", "ranks": [rank]}}) for rank in (0, 2)
    ]
    idle = table("idle", 1000, pooling=1, constraints={"pin": {"sharding_type": "table_wise", "ranks": [1]}})
    free = table("free", 1000, pooling=30, constraints={"sharding_types": ["table_wise"]})
    assert solved(asked(gpu_host(3), [*busy, idle, free], [["busy0", "busy2"]])).tables[3].shards[0].rank == 1
    assert solved(asked(gpu_host(3), [*busy, idle, free], [["free", "idle"]])).tables[3].shards[0].rank != 1


def test_a_start_that_breaks_it_is_left() -> None:
    start = solved(question(gpu_host(3), [each | {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}} for each in SPEC]))
    of = asked(gpu_host(3), SPEC, [["t0", "t5"]])
    options = of.options.model_copy(update={"start": start.tables, "move_price_us_per_gib": 1e9})
    plan = solved(of.model_copy(update={"options": options}))
    assert plan.has_placement
    assert plan.moved_bytes is not None
    assert 0 < plan.moved_bytes <= 2000 * 32 * 4 * 2


def test_a_plan_that_breaks_it_fails_the_audit() -> None:
    pins = [each | {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}} for each in SPEC[:2]]
    plan = solved(question(gpu_host(2), pins))
    model = plan.question.model.model_copy(update={"apart": (("t0", "t1"),)})
    changed = plan.model_copy(
        update={
            "question": plan.question.model_copy(update={"model": model}),
            "model": plan.model.model_copy(update={"digest": model.content_digest()}),
        }
    )
    assert [violation.what for violation in audit(changed)] == ["t0 and t1 must be apart, both are on rank 0"]


@pytest.mark.parametrize(
    ("apart", "together"), [([["t0"]], None), ([["t0", "t0"]], None), ([["t0", "x"]], None), ([["t0", "t1"]], [["t1", "t0"]])]
)
def test_groups_that_make_no_sense_are_refused(apart: list[list[str]], together: list[list[str]] | None) -> None:
    with pytest.raises(ValidationError):
        asked(gpu_host(2), SPEC, apart, together)


def test_groups_that_overlap_and_need_every_device_are_dealt_one_each() -> None:
    plan = solved(asked(gpu_host(4), SPEC, [["t0", "t1", "t5"], ["t3", "t4", "t5", "t0"]], work_limit=0.12, gap=0.05))
    assert plan.has_placement
