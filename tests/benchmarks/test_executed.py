"""The head-to-head benchmark: TorchRec's own plans can be run as they are, and the figures say what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.executed import LAUNCHES, OURS, ROUNDS, STEPS_PER_ROUND, comparison
from benchmarks.executed_models import suite
from benchmarks.executed_table import table
from benchmarks.torchrec_here import torchrec_plans
from emplace.app.importing import import_plan
from emplace.executor.imported import TheirPlan
from emplace.placement.audit import audit
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement, RankMeasurement
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from tests.prices import bandwidth_prices

pytestmark = pytest.mark.torch

MODELS = ("one-giant", "wide-columns")


def _their_plans(name: str, here: HostSpec, ranks: int) -> dict[str, Plan]:
    model, options = suite()[name][0], PlanOptions(ranks=ranks)
    found = {}
    for which, data in torchrec_plans(model, here, ranks).items():
        theirs = from_data(data, TheirPlan, source=which)
        found[which] = import_plan(theirs, which, model, here, options, bandwidth_prices(here))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_plans_of_torchrecs_planner_are_plans(name: str, here: HostSpec) -> None:
    plans = _their_plans(name, here, 4)
    assert plans
    for plan in plans.values():
        assert audit(plan) == []


def test_the_suite_is_drawn_alike_every_time() -> None:
    first, second = suite(), suite()
    assert len(first) >= 12
    assert [model.content_digest() for model, _ in first.values()] == [model.content_digest() for model, _ in second.values()]
    assert {matters for _, matters in first.values()} == {True, False}


def _measured(plan: Plan, *rank_steps_us: float) -> Measurement:
    """Each rank as fast in every step as told."""
    ranks = tuple(
        RankMeasurement(
            rank=rank,
            step_times_us=(step_us,) * (ROUNDS * STEPS_PER_ROUND),
            median_step_time_us=step_us,
            stages_us={},
            peak_bytes=0,
            predicted_bytes=0,
        )
        for rank, step_us in enumerate(rank_steps_us)
    )
    return Measurement(
        plan_digest=plan.content_digest(),
        host_fingerprint="x",
        backend="gloo",
        software={},
        measured_at="2026-01-01T00:00:00+00:00",
        steps=ROUNDS * STEPS_PER_ROUND,
        warmup_steps=5,
        seed=0,
        step_time_us=max(rank_steps_us),
        step_time_p5_us=max(rank_steps_us),
        step_time_p95_us=max(rank_steps_us),
        predicted_step_time_us=1.0,
        throughput_samples_per_s=1.0,
        predicted_throughput_samples_per_s=1.0,
        ranks=ranks,
        verdicts=(),
        verified=True,
    )


def _line(here: HostSpec, **steps_us: tuple[float, float]) -> dict[str, Any]:
    [plan, *_] = _their_plans("one-giant", here, 2).values()
    names = {"defaults": "torchrec defaults", "narrow": "torchrec narrow columns", "ours": OURS}
    measured = {names[name]: [_measured(plan, *times)] * LAUNCHES for name, times in steps_us.items()}
    plans = dict.fromkeys(measured, plan) | {OURS: plan.model_copy(update={"lower_bound_us": 0.8})}
    figures = comparison(measured, plans)
    return {"model": "one-giant", "ranks": 2, "placement_matters": True} | figures


def test_the_ratio_is_against_torchrecs_fastest_plan_by_the_slowest_rank(here: HostSpec) -> None:
    line = _line(here, defaults=(1000.0, 4000.0), narrow=(3000.0, 1000.0), ours=(2000.0, 1000.0))
    assert line["torchrec_best"] == "narrow columns"
    assert line["ratio"] == 1.5
    assert line["ratio_interval"] == [1.5, 1.5]
    assert (line["predicted_ratio"], line["largest_ratio"]) == (1.0, 1.25)
    assert line["same_placement"] is True


def test_a_launch_counts_once_however_many_steps_it_takes(here: HostSpec) -> None:
    """Emplace's plan is twice as fast in four launches and half as fast in two: its model was luckily or unluckily laid out."""
    [plan, *_] = _their_plans("one-giant", here, 2).values()
    ours = plan.model_copy(update={"lower_bound_us": 1.0})
    measured = {
        "torchrec defaults": [_measured(plan, 100.0)] * 6,
        OURS: [_measured(ours, 50.0)] * 4 + [_measured(ours, 200.0)] * 2,
    }
    figures = comparison(measured, {"torchrec defaults": plan, OURS: ours})
    assert figures["ratio"] == 2.0
    assert figures["ratio_interval"] == [0.5, 2.0]
    assert "slower in every launch: nowhere" in "\n".join(table([{"model": "m", "ranks": 2, "placement_matters": True} | figures]))


def test_plans_that_differ_in_the_numbers_of_their_ranks_only_are_the_same_placement(here: HostSpec) -> None:
    [plan, *_] = _their_plans("one-giant", here, 2).values()
    assert len({shard.rank for table in plan.tables for shard in table.shards}) == 2
    swapped = [
        table.model_copy(update={"shards": tuple(shard.model_copy(update={"rank": 1 - shard.rank}) for shard in table.shards)})
        for table in plan.tables
    ]
    moved = [swapped[0], *plan.tables[1:]]
    for tables, same in ((swapped, True), (moved, False)):
        ours = plan.model_copy(update={"lower_bound_us": 1.0, "tables": tuple(tables)})
        measured = {"torchrec defaults": [_measured(plan, 1.0)], OURS: [_measured(ours, 1.0)]}
        assert comparison(measured, {"torchrec defaults": plan, OURS: ours})["same_placement"] is same


def test_the_table_says_where_emplace_is_slower_and_what_was_left_out(here: HostSpec) -> None:
    faster = _line(here, defaults=(4000.0, 4000.0), ours=(1000.0, 1000.0))
    slower = _line(here, defaults=(1000.0, 1000.0), ours=(1000.0, 2000.0)) | {"model": "three-giants"}
    left_out = {"model": "equal-tables", "ranks": 4, "placement_matters": False, "left_out": "time is up"}
    text = "\n".join(table([faster, slower, left_out]))
    assert "| one-giant | 2 | 4.0 (4.0 .. 4.0) | 1.0 (1.0 .. 1.0) | 4.00 (4.00 .. 4.00) | 1.00 | 1.25 |" in text
    assert (
        "where placement can matter: 1.414 over 2 comparisons; predicted 1.000, and by the cost model 1.250 at most under any plan" in text
    )
    assert "slower in every launch: three-giants on 2 ranks" in text
    assert "left out: equal-tables, 4 ranks: time is up" in text
