"""Solves that begin with the plan of a question that differs a little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emplace.placement.audit import audit
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec, ShardingType
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.extract import assemble
from emplace.solver.model.warm_start import with_warm_start
from emplace.solver.progress import Monitor
from emplace.solver.solve import solve_question
from tests.solver.driver.test_type_search import with_options
from tests.solver.questions import gpu_host, question, table

SHORT, LONG = 0.003, 0.24
"""Counted seconds: of a first few runs, and of enough for a good plan."""


def spec(count: int = 24, **larger: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    sizes, lengths = rng.integers(2_000, 60_000, count), rng.integers(1, 300, count)
    drawn = zip(sizes.tolist(), lengths.tolist(), strict=True)
    return [table(f"t{i}", rows + larger.get(f"t{i}", 0), pooling=length) for i, (rows, length) in enumerate(drawn)]


def asked(tables: list[dict[str, Any]], hbm: str = "48MiB", **options: Any) -> Question:
    return question(gpu_host(4, nodes=2, hbm=hbm), tables, work_limit=SHORT, **options)


def warm(of: Question, start: Plan) -> Plan:
    plan = solve_question(of, warm_start=start)
    assert audit(plan) == []
    assert plan.solver.warm_start == start.content_digest()
    return plan


def step_us(plan: Plan) -> float:
    assert plan.step_time_us is not None
    return plan.step_time_us


@pytest.fixture(scope="module")
def good() -> Plan:
    return solve_question(with_options(asked(spec()), work_limit=LONG))


def test_every_table_is_found_again_where_it_was(good: Plan) -> None:
    (variant,) = variants(good.question)
    priced = with_warm_start(price(good.question, variant.topology, variant.tiers), {each.name: each for each in good.tables})
    found = priced.problem.warm_start
    assert found is not None
    assert (found.option >= 0).all()
    assert assemble(priced, found).step_time_us == pytest.approx(step_us(good), rel=1e-9)


def test_of_the_same_question_the_answer_is_no_worse_than_the_start(good: Plan) -> None:
    cold = solve_question(asked(spec()))
    assert cold.solver.warm_start is None
    assert step_us(warm(asked(spec()), good)) <= step_us(good) * (1 + 1e-9)
    assert step_us(cold) > step_us(good) * 1.0001


def test_whole_tables_are_found_again_whatever_they_are_called() -> None:
    of = asked(spec())
    (variant,) = variants(of)
    program = price(of, variant.topology, variant.tiers)
    plain = quick_placement(program)
    assert plain is not None
    called = {ShardingType.TABLE_WISE: ShardingType.COLUMN_WISE, ShardingType.TABLE_ROW_WISE: ShardingType.GRID_SHARD}
    renamed = [each.model_copy(update={"sharding_type": called[each.sharding_type]}) for each in plain.tables]
    found = with_warm_start(program, {each.name: each for each in renamed}).problem.warm_start
    assert found is not None
    assert (found.option >= 0).all()
    assert assemble(program, found).tables == plain.tables


def test_with_no_work_at_all_the_answer_is_the_start_where_it_is_still_allowed(good: Plan) -> None:
    at_once = Monitor.of(should_stop=lambda: True)
    same = solve_question(asked(spec()), at_once, good)
    assert audit(same) == []
    assert same.tables == good.tables
    assert step_us(same) == pytest.approx(step_us(good), rel=1e-12)
    changed = asked(spec(t17=20_000))
    assert solve_question(changed, at_once, good).tables == solve_question(changed, at_once).tables


def test_a_start_that_closes_the_gap_at_the_end_is_why_it_stopped(good: Plan) -> None:
    """With no time for a search the answer is a packed plan, or the start."""
    at_once = asked(spec(), time_limit=1e-4)
    cold = solve_question(at_once)
    assert cold.gap is not None
    assert cold.lower_bound_us is not None
    assert cold.solver.stopped_by == "time"
    gap = (cold.gap + 1 - cold.lower_bound_us / step_us(good)) / 2
    assert gap < 0.99 * cold.gap
    ends = {asked_gap: warm(with_options(at_once, gap=asked_gap), good).solver.stopped_by for asked_gap in (0.5 * gap, gap)}
    assert ends == {0.5 * gap: "time", gap: "gap"}


def test_with_one_table_larger_little_work_does_as_well_as_much_and_the_same_again(good: Plan) -> None:
    edited = asked(spec(t17=20_000))
    much, little = (solve_question(with_options(edited, work_limit=seconds)) for seconds in (LONG, SHORT))
    first, again = (warm(edited, good) for _ in range(2))
    assert step_us(first) <= step_us(much) * 1.001 < step_us(little)
    assert first.tables == again.tables


def test_new_tables_are_packed_and_missing_ones_are_forgotten(good: Plan) -> None:
    more, fewer = asked([*spec(), *(table(f"new{i}", 5000) for i in range(4))]), asked(spec()[7:])
    assert len(warm(more, good).tables) == 28
    assert len(warm(fewer, good).tables) == 17


def test_where_the_start_no_longer_fits_it_is_repaired(good: Plan) -> None:
    fullest = max(rank.hbm_bytes for rank in good.ranks)
    tight = asked(spec(), hbm=f"{fullest - 2**20}B", tiers=["hbm"])
    plan = warm(tight, good)
    assert plan.status in (PlanStatus.FEASIBLE, PlanStatus.OPTIMAL)


def test_fewer_ranks_and_other_constraints_are_kept(good: Plan) -> None:
    fewer = warm(asked(spec(), ranks=6), good)
    assert len(fewer.ranks) == 6
    limited = spec()
    ranks = {shard.rank for shard in good.tables[0].shards}
    elsewhere = sorted(set(range(8)) - ranks)[:2]
    limited[0]["constraints"] = {"ranks": elsewhere, "sharding_types": ["table_wise"]}
    plan = warm(asked(limited), good)
    assert {shard.rank for shard in plan.tables[0].shards} <= set(elsewhere)


def test_groups_that_the_start_does_not_know_are_kept(good: Plan) -> None:
    plain = asked(spec())
    groups = {"together": [["t1", "t2"]], "apart": [["t3", "t4", "t5"]]}
    warm(plain.model_copy(update={"model": ModelSpec.model_validate(plain.model.to_data() | groups)}), good)


def test_nodes_and_grids_are_found_again() -> None:
    wide = [table(f"t{i}", 40_000 + 8_000 * i, dim=128, pooling=20 + i) for i in range(6)]
    on_nodes = [one | {"constraints": {"sharding_types": ["table_row_wise", "grid_shard", "row_wise"]}} for one in wide]
    of = question(gpu_host(4, nodes=2, hbm="512MiB"), on_nodes, work_limit=0.12)
    first = solve_question(of)
    assert step_us(warm(with_options(of, work_limit=SHORT), first)) <= step_us(first) * (1 + 1e-9)


def test_what_says_nothing_of_the_question_is_refused(good: Plan) -> None:
    other = [table(f"other{i}", 1000) for i in range(3)]
    with pytest.raises(InvalidDocument, match="places no table of small"):
        solve_question(asked(other), warm_start=good)
    nowhere = solve_question(question(gpu_host(2, hbm="24MiB"), [table("t0", 500_000, dim=64)], tiers=["hbm"]))
    with pytest.raises(InvalidDocument, match="a plan that is infeasible"):
        solve_question(asked(spec()), warm_start=nowhere)
    with pytest.raises(InvalidDocument, match="does not go with a warm start"):
        solve_question(asked(spec(), start=good.tables, move_price_us_per_gib=1.0), warm_start=good)
