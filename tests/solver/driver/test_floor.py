"""Steps whose launches or input take longer than their devices: a plan at that floor is a best one, and the search ends with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emplace.placement.audit import audit
from emplace.placement.beside_stages import waits_for
from emplace.placement.cost_model import LaunchCost
from emplace.placement.ingest import IngestCost
from emplace.placement.model import Constraints, ShardingType
from emplace.placement.plan import Plan, PlanStatus, Question, TablePlacement
from emplace.placement.step_costs import step_costs
from emplace.placement.workload import Objective
from emplace.solver.driver.as_placed import earlier_placement
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.solve_program import solve_apart
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.extract import Placement
from emplace.solver.model.problem import Assignment
from emplace.solver.progress import Monitor, Progress
from emplace.solver.result import Result
from emplace.solver.solve import solve_question
from tests.solver.driver.test_type_search import with_costs, with_options
from tests.solver.questions import at_datasheet_prices, gpu_host, question, table
from tests.solver.test_cancel import Watch, counted

HIGH_US = 50_000.0
"""A floor that no plan's devices come near."""


def asked(number: int = 24, nodes: int = 1, **options: Any) -> Question:
    """More than the devices' memory holds, so that packing is far from the best. No gap is enough, so a search ends with its limit."""
    rng = np.random.default_rng(4)
    drawn = zip(rng.integers(20_000, 60_000, number).tolist(), rng.integers(1, 600, number).tolist(), strict=True)
    spec = [table(f"t{index}", rows, pooling=length) for index, (rows, length) in enumerate(drawn)]
    return question(gpu_host(6 // nodes, nodes=nodes, hbm=f"{number}MiB"), spec, **({"work_limit": 4.0} | options))


def few(nodes: int = 1, **options: Any) -> Question:
    """Whole tables, which are bounded in a moment."""
    of = asked(14, nodes, **options)
    whole = [each.model_copy(update={"constraints": Constraints(sharding_types=(ShardingType.TABLE_WISE,))}) for each in of.model.tables]
    return of.model_copy(update={"model": of.model.model_copy(update={"tables": tuple(whole)})})


def tight() -> Question:
    """Packing finds no place for all tables."""
    rng = np.random.default_rng(4)
    only: dict[str, Any] = {"constraints": {"sharding_types": ["table_wise"], "tiers": ["hbm"]}}
    rows = rng.integers(20_000, 60_000, 18).tolist()
    spec = [table(f"t{index}", number, pooling=int(rng.integers(1, 60)), **only) for index, number in enumerate(rows)]
    return question(gpu_host(6, hbm=f"{int(sum(rows) * 33 * 4 / 6 / 0.85 / 2**20) + 2}MiB"), spec, work_limit=4.0)


def with_floor(of: Question, floor_us: float) -> Question:
    return with_costs(of, launches=LaunchCost(fixed_us=floor_us))


def packed(of: Question) -> Placement | None:
    (variant,) = variants(of)
    return quick_placement(price(of, variant.topology, variant.tiers, may_be_concrete=False, with_cover=False))


def packed_us(of: Question) -> float:
    """What the devices take for a packed plan."""
    plan = packed(of)
    assert plan is not None
    return plan.step_time_us


def devices_us(of: Question, tables: tuple[TablePlacement, ...]) -> float:
    """What the devices take for these tables."""
    found = earlier_placement(of, {each.name: each for each in tables})
    assert found is not None
    return found.step_time_us


def planned(of: Question, monitor: Monitor | None = None) -> Plan:
    plan = solve_question(of, monitor)
    assert audit(plan) == []
    return plan


def assert_best(plan: Plan, floor_us: float) -> None:
    assert (plan.step_time_us, plan.lower_bound_us, plan.gap, plan.placement_gap) == (floor_us, floor_us, 0.0, 0.0)
    assert (plan.status, plan.solver.stopped_by, plan.solver.bound) == (PlanStatus.OPTIMAL, "gap", "launches")


@pytest.fixture
def spent_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each search counts for."""
    found: list[float] = []

    def search(*given: Any, **named: Any) -> Result[Assignment]:
        result = solve_apart(*given, **named)
        found.append(result.counted_s)
        return result

    monkeypatch.setattr("emplace.solver.driver.solve_program.solve_apart", search)
    return found


def test_a_packed_plan_at_the_floor_is_a_best_one_and_a_tenth_of_the_work_goes_into_its_devices(
    monkeypatch: pytest.MonkeyPatch, spent_s: list[float]
) -> None:
    """Bounds of all that runs are not asked for."""
    of, covered = asked(), counted(monkeypatch, "emplace.solver.model.build.cover_of", Watch())
    plan = planned(with_floor(of, HIGH_US))
    assert_best(plan, HIGH_US)
    assert devices_us(of, plan.tables) < 0.85 * packed_us(of)
    assert 0.2 < sum(spent_s) < 0.6
    assert covered == []


def test_where_packing_fails_the_search_ends_at_the_floor(spent_s: list[float]) -> None:
    of = tight()
    assert packed(of) is None
    assert_best(planned(with_floor(of, HIGH_US)), HIGH_US)
    assert sum(spent_s) < 0.6


def test_where_a_packed_plan_takes_longer_it_ends_at_the_floor_too(spent_s: list[float]) -> None:
    of, floor_us = asked(), 5000.0
    assert packed_us(of) > 1.1 * floor_us
    told: list[Progress] = []
    plan = planned(with_floor(of, floor_us), Monitor.of(told.append))
    assert_best(plan, floor_us)
    assert devices_us(of, plan.tables) < 0.9 * floor_us
    assert min(progress.incumbent_us for progress in told if progress.incumbent_us is not None) == floor_us
    assert sum(spent_s) < 1.0


TYPES_US = dict.fromkeys(ShardingType, 1000.0) | {ShardingType.TABLE_WISE: 800.0}
"""What launching each sharding type takes."""


@pytest.mark.parametrize("of", [asked(), tight(), asked(nodes=2)], ids=["packed", "tight", "two nodes"])
def test_launches_are_those_of_one_sharding_type_where_one_will_do(of: Question) -> None:
    of = with_costs(of, launches=LaunchCost(fixed_us=HIGH_US), sharding_type_us=TYPES_US)
    plan = planned(of)
    assert {each.sharding_type for each in plan.tables} == {ShardingType.TABLE_WISE}
    assert_best(plan, HIGH_US + 800.0)


def test_a_type_that_is_launched_sooner_is_taken_though_devices_need_longer() -> None:
    spec = [table(f"t{number}", 300_000 if number < 3 else 500, dim=64) for number in range(8)]
    of = at_datasheet_prices(question(gpu_host(4, hbm="16GiB", ddr="64GiB"), spec, work_limit=0.1))
    of = of.model_copy(update={"model": of.model.model_copy(update={"local_batch_size": 2048})})
    launched_us = dict.fromkeys(ShardingType, 200.0) | {ShardingType.ROW_WISE: 100.0, ShardingType.DATA_PARALLEL: 150.0}
    plan = planned(with_costs(of, launches=LaunchCost(fixed_us=HIGH_US), sharding_type_us=launched_us))
    assert {each.sharding_type for each in plan.tables} == {ShardingType.ROW_WISE}
    assert_best(plan, HIGH_US + 100.0)


def test_launches_of_no_table_count_nowhere() -> None:
    """The least of all types is no bound where no table may have that type."""
    of = with_costs(few(work_limit=0.1), launches=LaunchCost(fixed_us=HIGH_US), sharding_type_us={ShardingType.TABLE_WISE: 800.0})
    assert of.cost_model.floor(of.model).time_us == HIGH_US + 800.0
    assert_best(planned(of), HIGH_US + 800.0)


def test_launches_of_every_sharding_type_in_use_count() -> None:
    of = with_costs(few(work_limit=0.1), launches=LaunchCost(fixed_us=HIGH_US), sharding_type_us=TYPES_US)
    first, *others = of.model.tables
    split = first.model_copy(update={"constraints": Constraints(sharding_types=(ShardingType.ROW_WISE,))})
    plan = planned(of.model_copy(update={"model": of.model.model_copy(update={"tables": (split, *others)})}))
    assert (plan.step_time_us, plan.lower_bound_us) == (HIGH_US + 1800.0, HIGH_US + 1800.0)
    assert (plan.solver.bound, waits_for(plan)) == ("launches", "launches")
    costs = step_costs(plan.question, plan.tables, plan.question.topology(with_servers=False))
    saved = {each.name: each.saved_us for each in costs.tables}
    assert saved.pop(split.name) == 1000.0  # without it, its sharding type needs no launches
    assert set(saved.values()) == {0.0}


def test_a_floor_below_the_devices_changes_nothing() -> None:
    of = few(work_limit=0.1)
    bare = planned(of)
    assert bare.lower_bound_us is not None
    plan = planned(with_floor(of, 0.9 * bare.lower_bound_us))
    assert (plan.tables, plan.lower_bound_us, plan.solver.stopped_by) == (bare.tables, bare.lower_bound_us, "limit")


@pytest.mark.parametrize(
    "options", [{"objective": Objective.P95}, {"objective": Objective.DEVICES}, {"work_limit": None, "time_limit": 600.0}]
)
def test_other_objectives_end_there_and_a_long_limit_is_not_used(options: dict[str, Any], spent_s: list[float]) -> None:
    plan = planned(with_floor(asked(**{"work_limit": 3600.0} | options), HIGH_US))
    assert_best(plan, HIGH_US)
    assert 0.0 < sum(spent_s) < 4.0


def test_what_arrives_on_wires_beside_the_input_is_waited_for() -> None:
    """Between nodes a plan whose devices are done before the input need not be a best one."""
    of = few(nodes=2, work_limit=0.1)
    per_byte_us = HIGH_US / IngestCost(per_network_byte_us=1.0).network_us(of.model)
    bare, plan = planned(of), planned(with_costs(of, ingest=IngestCost(per_network_byte_us=per_byte_us)))
    assert plan.lower_bound_us is not None
    assert plan.step_time_us is not None
    assert plan.step_time_us > plan.lower_bound_us > 0.999 * HIGH_US
    as_bare = earlier_placement(plan.question, {each.name: each for each in bare.tables})
    assert as_bare is not None
    assert plan.step_time_us < as_bare.step_time_us
    assert plan.solver.stopped_by == "limit"


def test_who_asks_to_stop_has_the_packed_plan() -> None:
    of = with_floor(few(), HIGH_US)
    plan = planned(of, Monitor.of(should_stop=lambda: True))
    assert (plan.status, plan.gap, plan.solver.stopped_by) == (PlanStatus.OPTIMAL, 0.0, "cancelled")


def test_a_target_is_answered_as_ever(spent_s: list[float]) -> None:
    of = with_floor(asked(), HIGH_US)
    assert planned(of, Monitor().wanting(HIGH_US)).solver.stopped_by == "target"
    assert spent_s == []


def test_a_job_at_its_floor_stays_as_it_is() -> None:
    """Though its devices could be done sooner, and a move costs next to nothing."""
    of = few(work_limit=0.2)
    start = packed(of)
    assert start is not None
    moving = with_options(of, start=start.tables, move_price_us_per_gib=1e-3)
    assert planned(moving).moved_bytes != 0
    plan = planned(with_floor(moving, HIGH_US))
    assert_best(plan, HIGH_US)
    assert plan.moved_bytes == 0
