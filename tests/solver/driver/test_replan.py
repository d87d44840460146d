"""Planning from where tables are: bytes that move have a price."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.cost_model import LaunchCost
from emplace.placement.model import ModelSpec, ShardingType, Tier
from emplace.placement.moving import moved_bytes
from emplace.placement.plan import Plan, PlanStatus, Question, TablePlacement
from emplace.solver.driver.as_placed import earlier_placement
from emplace.solver.driver.relabel_ranks import relabelled
from emplace.solver.driver.replan_local_search import ReplanLocalSearch
from emplace.solver.model.build import price
from emplace.solver.model.extract import assemble
from emplace.solver.solve import solve_question
from tests.solver.brute_force import every_assignment
from tests.solver.questions import gpu_host, question, table


def solved(of: Question) -> Plan:
    plan = solve_question(of)
    assert audit(plan) == []
    return plan


def from_start(plan: Plan, us_per_gib: float, **changes: Any) -> Question:
    """The question of `plan`, starting from it; `changes` are to the question."""
    asked = plan.question.model_copy(update=changes)
    options = asked.options.model_copy(update={"start": plan.tables, "move_price_us_per_gib": us_per_gib, "work_limit": 0.5})
    return asked.model_copy(update={"options": options})


def cost_us(plan: Plan) -> float:
    assert plan.step_time_us is not None
    assert plan.move_cost_us is not None
    return plan.step_time_us + plan.move_cost_us


SPEC = [table(f"t{index}", 20_000 + 5_000 * index, pooling=3 + 5 * index) for index in range(7)]
HOST = gpu_host(4, nodes=1)


def reversed_ranks(plan: Plan) -> tuple[Any, ...]:
    """The tables of a plan with its ranks in reverse: as good, and elsewhere."""
    last = len(plan.ranks) - 1
    return tuple(
        each.model_copy(update={"shards": tuple(shard.model_copy(update={"rank": last - shard.rank}) for shard in each.shards[::-1])})
        for each in plan.tables
    )


def test_nothing_moves_from_the_best_plan() -> None:
    best = solved(question(HOST, SPEC, work_limit=0.2))
    again = solved(from_start(best, 1e6))
    assert (again.moved_bytes, again.move_cost_us) == (0, 0.0)
    assert again.step_time_us == pytest.approx(best.step_time_us, rel=1e-9)


def test_ranks_are_renamed_before_bytes_are_moved() -> None:
    """Even where moving is free: the mirror of the best plan is as good as it."""
    only = [each | {"constraints": {"sharding_types": ["table_wise"], "tiers": ["hbm"]}} for each in SPEC]
    best = solved(question(HOST, only, work_limit=0.2))
    mirror = best.model_copy(update={"tables": reversed_ranks(best)})
    again = solved(from_start(mirror, 0.001))
    assert again.moved_bytes == 0
    assert again.step_time_us == pytest.approx(best.step_time_us, rel=1e-9)


@pytest.mark.parametrize("types", [["table_wise"], ["column_wise", "table_row_wise"]])
def test_renaming_finds_back_to_where_tables_were(types: list[str]) -> None:
    host = gpu_host(2, nodes=2)
    only = [each | {"constraints": {"sharding_types": types, "tiers": ["hbm"]}} for each in SPEC]
    plan = solved(question(host, only, work_limit=0.2))
    swapped = [3, 2, 0, 1] if types == ["table_wise"] else [2, 3, 0, 1]
    elsewhere = tuple(
        each.model_copy(
            update={"shards": tuple(shard.model_copy(update={"rank": swapped[shard.rank]}) for shard in each.shards)},
        )
        for each in plan.tables
    )
    model = plan.question.model
    assert moved_bytes(model, plan.tables, elsewhere) > 0
    back = relabelled(plan.question, elsewhere, {each.name: each for each in plan.tables}, plan.question.topology(with_servers=False))
    assert moved_bytes(model, plan.tables, back) == 0


def lopsided() -> Plan:
    """Every table on rank 0."""
    pinned = [each | {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}} for each in SPEC]
    return solved(question(HOST, pinned, work_limit=0.2))


FREE = question(HOST, SPEC, work_limit=0.4).model


def test_a_higher_price_moves_less_and_never_costs_more_than_staying() -> None:
    start = lopsided()
    plans = [solved(from_start(start, us_per_gib, model=FREE)) for us_per_gib in (0.0, 2e3, 1e9)]
    moved = [plan.moved_bytes or 0 for plan in plans]
    assert moved[0] > moved[2] == 0
    assert sorted(moved, reverse=True) == moved
    assert start.step_time_us is not None
    assert all(cost_us(plan) <= start.step_time_us * (1 + 1e-9) for plan in plans)
    assert plans[2].step_time_us == pytest.approx(start.step_time_us, rel=1e-9)
    assert plans[0].step_time_us is not None
    assert plans[0].step_time_us < start.step_time_us


def test_a_job_that_waits_for_launches_is_not_moved_to_types_that_take_longer_to_launch() -> None:
    asked = question(HOST, SPEC, work_limit=0.2)
    stays = solved(asked)
    launched_us = {each: 0.0 if each in {table.sharding_type for table in stays.tables} else 50.0 for each in ShardingType}
    slower = dict.fromkeys(ShardingType, 5.0) | {each: us for each, us in launched_us.items() if us}
    prices = asked.cost_model.model_copy(
        update={"launches": LaunchCost(fixed_us=0.9 * (stays.step_time_us or 0.0)), "sharding_type_us": slower}
    )
    for price_us in (0.0, 10.0):
        again = solved(from_start(stays, price_us, cost_model=prices))
        here = earlier_placement(again.question, {each.name: each for each in stays.tables})
        assert here is not None
        assert cost_us(again) <= here.step_time_us * (1 + 1e-9)


def test_the_bound_holds_for_every_plan_with_its_moves() -> None:
    """Against all plans of two ranks, and within a few percent of the best of them."""
    only = [each | {"constraints": {"sharding_types": ["table_wise"], "compute_kernels": ["fused"]}} for each in SPEC[:6]]
    host = gpu_host(2)
    start = solved(question(host, [each | {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}} for each in SPEC[:6]]))
    free = question(host, only)
    priced = price(free, free.topology(with_servers=False), frozenset([Tier.HBM]))
    for us_per_gib in (500.0, 5e3, 2e4):
        plan = solved(from_start(start, us_per_gib, model=free.model))
        placements = (assemble(priced, assignment) for assignment in every_assignment(priced.problem))
        best = min(
            each.step_time_us + moved_bytes(free.model, start.tables, each.tables) / 2**30 * us_per_gib for each in placements if each.fits
        )
        assert plan.lower_bound_us is not None
        assert plan.lower_bound_us <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= cost_us(plan) <= best * 1.05
        assert plan.gap == pytest.approx(1 - plan.lower_bound_us / cost_us(plan))


def test_tables_go_back_only_where_there_is_room() -> None:
    """Two tables fill a rank, so with all four swapped none can go back alone."""

    def pinned_to(*ranks: int) -> Plan:
        pins = [{"pin": {"sharding_type": "table_wise", "ranks": [rank]}} for rank in ranks]
        tables = [table(f"t{index}", 50_000, dim=64, constraints=pin) for index, pin in enumerate(pins)]
        return solved(question(gpu_host(2, hbm="30MiB"), tables, work_limit=0.08))

    start, swapped, half = pinned_to(0, 0, 1, 1), pinned_to(1, 1, 0, 0), pinned_to(0, 1, 1, 0)
    free = question(gpu_host(2, hbm="30MiB"), [table(f"t{index}", 50_000, dim=64) for index in range(4)])
    topology = free.topology(with_servers=False)
    priced = price(free, topology, frozenset([Tier.HBM]))
    held = {each.name: each for each in start.tables}
    mixer = ReplanLocalSearch(priced, start.tables, 1e9, [swapped.tables, half.tables], held)
    ranks = [each.shards[0].rank for each in mixer.improved(swapped.tables)]
    assert ranks == [1, 1, 0, 0]
    assert all(rank.hbm_bytes * 1.3 > rank.hbm_capacity_bytes for rank in start.ranks)


def test_what_no_longer_fits_moves_and_the_rest_stays() -> None:
    spec = [table("grows", 50_000, dim=64, constraints={"tiers": ["hbm"]}), *(table(f"t{index}", 40_000, dim=64) for index in range(3))]
    small = solved(question(gpu_host(2, hbm="40MiB"), spec))
    grown = question(gpu_host(2, hbm="40MiB"), [{**spec[0], "num_embeddings": 130_000}, *spec[1:]])
    plan = solved(from_start(small, 1e9, model=grown.model))
    assert plan.has_placement
    # A whole table may be called column_wise, so that the step pays for one type: it stays all the same.
    stayed = [old.name for old, new in zip(small.tables, plan.tables, strict=True) if _boxes(old) == _boxes(new)]
    assert stayed == ["t0", "t1", "t2"]
    assert (
        moved_bytes(grown.model, small.tables, plan.tables)
        < sum(shard.hbm_bytes + shard.ddr_bytes for each in plan.tables for shard in each.shards) / 2
    )


def test_new_tables_move_nothing_and_lost_ones_are_forgotten() -> None:
    best = solved(question(HOST, SPEC, work_limit=0.2))
    other = question(HOST, [*SPEC[1:], table("new", 1000)]).model
    plan = solved(from_start(best, 1e9, model=other))
    assert plan.moved_bytes == 0
    assert [each.name for each in plan.tables] == [each.name for each in other.tables]


def test_tables_kept_together_move_together() -> None:
    start = lopsided()
    model = ModelSpec.model_validate(FREE.to_data() | {"together": [["t5", "t6"], ["t0", "t1"]]})
    plan = solved(from_start(start, 10.0, model=model))
    ranks = {each.name: [shard.rank for shard in each.shards] for each in plan.tables}
    assert ranks["t5"] == ranks["t6"]
    assert ranks["t0"] == ranks["t1"]


def test_columns_in_one_piece_do_not_stay_where_a_group_is_kept_together() -> None:
    """What is kept together is table_wise."""
    start = lopsided()
    columns = [each.model_copy(update={"sharding_type": ShardingType.COLUMN_WISE}) for each in start.tables[:2]]
    model = ModelSpec.model_validate(FREE.to_data() | {"together": [["t0", "t1"]]})
    plan = solved(from_start(start.model_copy(update={"tables": (*columns, *start.tables[2:])}), 1e9, model=model))
    assert [each.sharding_type for each in plan.tables[:2]] == [ShardingType.TABLE_WISE] * 2


def test_servers_take_part() -> None:
    host = gpu_host(1, hbm="16MiB", ddr="16MiB", servers=2)
    best = solved(question(host, SPEC[:5], work_limit=0.2))
    again = solved(from_start(best, 1e9))
    assert again.moved_bytes == 0


def test_infeasible_stays_infeasible() -> None:
    best = solved(question(HOST, SPEC, work_limit=0.2))
    plan = solved(
        from_start(
            best, 1.0, host=gpu_host(4, hbm="8MiB"), model=question(HOST, [table("huge", 10**6, constraints={"tiers": ["hbm"]})]).model
        )
    )
    assert plan.status is PlanStatus.INFEASIBLE
    assert plan.moved_bytes is None


def test_wrong_figures_fail_the_audit() -> None:
    plan = solved(from_start(lopsided(), 2e3, model=FREE))
    assert plan.moved_bytes is not None
    wrong = plan.model_copy(update={"moved_bytes": plan.moved_bytes + 1})
    assert [violation.where for violation in audit(wrong)] == ["/moved_bytes"]
    without = plan.model_copy(update={"move_cost_us": None})
    assert "/move_cost_us" in [violation.where for violation in audit(without)]


def test_a_start_needs_a_price() -> None:
    best = solved(question(HOST, SPEC[:2], work_limit=0.2))
    start = [each.to_data() for each in best.tables]
    for options in ({"start": start}, {"move_price_us_per_gib": 1.0}, {"start": start + start, "move_price_us_per_gib": 1.0}):
        with pytest.raises(ValidationError, match="/start"):
            question(HOST, SPEC, **options)


def _boxes(placement: TablePlacement) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
    return [(shard.rank, shard.rows, shard.columns) for shard in placement.shards]
