"""Tables with one placement only, and tables that share a device."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.model import ModelSpec, Tier
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.model.build import price
from emplace.solver.model.colocation import MAX_COMBINATIONS
from emplace.solver.model.extract import assemble
from emplace.solver.solve import solve_question
from tests.solver.brute_force import every_assignment
from tests.solver.questions import gpu_host, question, table

MIB = 2**20


def asked(host: Any, spec: list[dict[str, Any]], together: list[list[str]] | None = None, **options: Any) -> Question:
    plain = question(host, spec, **({"work_limit": 0.4} | options))
    if together is None:
        return plain
    model = ModelSpec.model_validate(plain.model.to_data() | {"together": together})
    return plain.model_copy(update={"model": model})


def solved(of: Question) -> Plan:
    plan = solve_question(of)
    assert audit(plan) == []
    return plan


PINS: list[tuple[dict[str, Any], list[tuple[int, list[int], list[int]]]]] = [
    ({"sharding_type": "table_wise", "ranks": [3]}, [(3, [0, 1001], [0, 36])]),
    ({"sharding_type": "column_wise", "ranks": [2, 0]}, [(0, [0, 1001], [20, 36]), (2, [0, 1001], [0, 20])]),
    ({"sharding_type": "column_wise", "ranks": [0, 1, 3]}, [(0, [0, 1001], [0, 12]), (1, [0, 1001], [12, 24]), (3, [0, 1001], [24, 36])]),
    ({"sharding_type": "table_row_wise", "ranks": [2, 3]}, [(2, [0, 501], [0, 36]), (3, [501, 1001], [0, 36])]),
    ({"sharding_type": "row_wise"}, [(rank, [251 * rank, min(251 * (rank + 1), 1001)], [0, 36]) for rank in range(4)]),
    ({"sharding_type": "data_parallel"}, [(rank, [0, 1001], [0, 36]) for rank in range(4)]),
    (
        {"sharding_type": "grid_shard", "ranks": [2, 3, 0, 1]},
        [(0, [0, 501], [20, 36]), (1, [501, 1001], [20, 36]), (2, [0, 501], [0, 20]), (3, [501, 1001], [0, 20])],
    ),
]


@pytest.mark.parametrize(("pin", "shards"), PINS, ids=[str(pin["sharding_type"]) for pin, _ in PINS])
def test_a_pinned_table_is_placed_exactly_so(pin: dict[str, Any], shards: list[Any]) -> None:
    spec = [table("a", 1001, dim=36, constraints={"pin": pin}), table("b", 2000), table("c", 900)]
    plan = solved(asked(gpu_host(2, nodes=2), spec, work_limit=0.2))
    assert [(shard.rank, list(shard.rows), list(shard.columns)) for shard in plan.tables[0].shards] == shards
    assert plan.tables[0].sharding_type == pin["sharding_type"]


def test_a_pinned_kernel_and_cache_are_kept() -> None:
    pin = {"sharding_type": "table_wise", "ranks": [0], "compute_kernel": "fused_uvm_caching", "cache_load_factor": 0.3}
    plan = solved(asked(gpu_host(2), [table("a", 1000, constraints={"pin": pin}), table("b", 2000)]))
    assert (plan.tables[0].compute_kernel, plan.tables[0].cache_load_factor) == ("fused_uvm_caching", 0.3)


def test_the_rest_is_planned_around_pinned_tables() -> None:
    """As well as around a table that other constraints leave no other place."""
    pin = {"pin": {"sharding_type": "table_wise", "ranks": [1]}}
    ranks = {"ranks": [1], "sharding_types": ["table_wise"], "compute_kernels": ["fused"]}
    rest = [table(f"t{index}", 1000 * (index + 1), pooling=7 * (index + 1)) for index in range(4)]
    pinned, ranked = (solved(asked(gpu_host(2), [table("a", 1000, pooling=60, constraints=limits), *rest])) for limits in (pin, ranks))
    assert pinned.status is ranked.status is PlanStatus.OPTIMAL
    assert pinned.step_time_us == pytest.approx(ranked.step_time_us, rel=1e-6)


def test_every_table_may_be_pinned() -> None:
    spec = [table(name, 1000, constraints={"pin": {"sharding_type": "table_wise", "ranks": [0]}}) for name in "ab"]
    plan = solved(asked(gpu_host(2), spec))
    assert plan.status is PlanStatus.OPTIMAL


def test_an_unpinned_placement_fails_the_audit() -> None:
    plan = solve_question(asked(gpu_host(2), [table("a", 1000, constraints={"ranks": [0], "sharding_types": ["table_wise"]})]))
    data = plan.to_data()
    data["question"]["model"]["tables"][0]["constraints"] = {"pin": {"sharding_type": "table_wise", "ranks": [1]}}
    changed = Question.model_validate(data["question"])
    data["model"]["digest"] = changed.model.content_digest()
    assert [violation.what for violation in audit(Plan.model_validate(data))] == ["table a: is on ranks 0, it is pinned to 1"]


@pytest.mark.parametrize(
    ("pin", "rows", "reason"),
    [
        ({"sharding_type": "table_wise", "ranks": [7]}, 1000, "no rank 7"),
        ({"sharding_type": "table_row_wise", "ranks": [1]}, 1000, "every rank of node 0"),
        ({"sharding_type": "table_wise", "ranks": [1]}, 600_000, "rank 1: the tables pinned to it need"),
    ],
)
def test_a_pin_that_cannot_be_is_explained_and_dropping_it_is_a_fix(pin: dict[str, Any], rows: int, reason: str) -> None:
    of = asked(gpu_host(2), [table("a", rows, constraints={"pin": pin}), table("b", 100)])
    plan = solved(of)
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation is not None
    assert any(reason in each for each in plan.explanation.reasons), plan.explanation.reasons
    fix = next(fix for fix in plan.explanation.fixes if fix.kind == "constraints")
    assert solve_question(patched(of, fix.patch)).has_placement


@pytest.mark.parametrize(
    "constraints",
    [
        {"pin": {"sharding_type": "table_wise"}},
        {"pin": {"sharding_type": "table_wise", "ranks": [0, 1]}},
        {"pin": {"sharding_type": "column_wise", "ranks": [0, 0]}},
        {"pin": {"sharding_type": "table_wise", "ranks": [0], "compute_kernel": "dense"}},
        {"pin": {"sharding_type": "table_wise", "ranks": [0], "cache_load_factor": 0.5}},
        {"pin": {"sharding_type": "table_wise", "ranks": [0]}, "ranks": [0]},
    ],
)
def test_pins_that_contradict_themselves_are_refused(constraints: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(gpu_host(2), [table("a", 1000, constraints=constraints)])


SPEC = [table("a", 1500, pooling=20), table("b", 900, pooling=3), table("c", 1200, pooling=11), table("d", 500, pooling=7)]


@pytest.mark.parametrize("together", [[["a", "b"]], [["d", "a"], ["c", "b"]], [["a", "b", "c"]]])
@pytest.mark.parametrize("tiers", [["hbm"], ["ddr"]])
def test_tables_kept_together_are_planned_to_the_optimum(together: list[list[str]], tiers: list[str]) -> None:
    """Against every placement that keeps them together."""
    only = [each | {"constraints": {"sharding_types": ["table_wise"]}} for each in SPEC]
    plan = solved(asked(gpu_host(2), only, together, tiers=tiers))
    apart = asked(gpu_host(2), only, tiers=tiers)
    index = {each["name"]: number for number, each in enumerate(only)}
    groups = [[index[name] for name in group] for group in together]
    priced = price(apart, apart.topology(with_servers=False), frozenset(apart.options.tiers or ()), may_be_concrete=False)
    best = min(
        assemble(priced, assignment).step_time_us
        for assignment in every_assignment(priced.problem)
        if all(len({assignment.targets[member] for member in group}) == 1 for group in groups)
    )
    assert plan.step_time_us == pytest.approx(best, rel=1e-9)
    assert plan.status is PlanStatus.OPTIMAL


def test_a_table_kept_with_a_pinned_one_follows_it() -> None:
    spec = [table("a", 1000, constraints={"pin": {"sharding_type": "table_wise", "ranks": [1]}}), table("b", 900), table("c", 800)]
    plan = solved(asked(gpu_host(2), spec, [["c", "a"]]))
    assert [shard.rank for shard in plan.tables[2].shards] == [1]


def test_kernels_of_tables_kept_together_may_differ() -> None:
    spec = [table("hot", 100_000, dim=64, pooling=30), table("cold", 250_000, dim=64, pooling=1)]
    plan = solved(asked(gpu_host(2, hbm="40MiB"), spec, [["hot", "cold"]]))
    assert plan.has_placement
    assert plan.tables[0].compute_kernel == "fused"
    assert plan.tables[1].compute_kernel != "fused"


def test_a_plan_that_parts_them_fails_the_audit() -> None:
    only = [each | {"constraints": {"ranks": [number % 2], "sharding_types": ["table_wise"]}} for number, each in enumerate(SPEC)]
    plan = solve_question(asked(gpu_host(2), only))
    model = plan.question.model.model_copy(update={"together": (("a", "b"),)})
    of = plan.question.model_copy(update={"model": model})
    reference = plan.model.model_copy(update={"digest": model.content_digest()})
    found = audit(plan.model_copy(update={"question": of, "model": reference}))
    assert [violation.what for violation in found] == ["must be on one rank together: a on 0, b on 1"]


def test_what_is_too_large_together_is_explained_and_parting_is_a_fix() -> None:
    of = asked(gpu_host(2, hbm="20MiB"), [table(name, 50_000, dim=64) for name in "ab"], [["a", "b"]], tiers=["hbm"])
    plan = solved(of)
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.explanation is not None
    assert any("tables a + b: no device has room for them together" in reason for reason in plan.explanation.reasons)
    fix = next(fix for fix in plan.explanation.fixes if fix.kind == "together")
    assert solve_question(patched(of, fix.patch)).has_placement


@pytest.mark.parametrize(
    ("together", "rule"),
    [([["a"]], "at least 2"), ([["a", "x"]], "name of a table"), ([["a", "b"], ["b", "c"]], "unique"), ([["a", "row"]], "table_wise")],
)
def test_groups_that_make_no_sense_are_refused(together: list[list[str]], rule: str) -> None:
    spec = [*SPEC, table("row", 100, constraints={"sharding_types": ["row_wise"]})]
    with pytest.raises(ValidationError, match=rule):
        asked(gpu_host(2), spec, together)


def test_many_kernels_of_many_tables_are_thinned_and_bounded_without_groups() -> None:
    spec = [table(f"t{index}", 3000 + index, access={"zipf": 1.05}) for index in range(6)]
    of = asked(gpu_host(2), spec, [[each["name"] for each in spec]])
    priced = price(of, of.topology(with_servers=False), frozenset({Tier.HBM, Tier.DDR}))
    assert priced.cover is not None
    assert priced.problem.num_options <= MAX_COMBINATIONS
    plan = solve_question(of)
    free_us = solve_question(asked(gpu_host(2), spec, [])).step_time_us
    assert plan.lower_bound_us is not None
    assert free_us is not None
    assert plan.lower_bound_us <= free_us + 1e-6


def test_combinations_are_all_there_where_few() -> None:
    spec = [table("a", 3000), table("b", 2000)]
    of = asked(gpu_host(2), [each | {"constraints": {"compute_kernels": ["fused", "fused_uvm"]}} for each in spec], [["a", "b"]])
    priced = price(of, of.topology(with_servers=False), frozenset({Tier.HBM, Tier.DDR}), may_be_concrete=False)
    kernels = {tuple(str(layout.kernel) for layout in priced.layouts_of(option)) for option in range(priced.problem.num_options)}
    assert kernels == set(product(["fused", "fused_uvm"], repeat=2))
