"""`emplace.explain`: a plan with what its step is made of, and with more hardware estimated and solved."""

from __future__ import annotations

from functools import cache

import pytest

import emplace
from emplace.diagnosing import DATASHEET, OTHER_PRICES, UNMEASURED_NETWORK, num_changes
from emplace.placement.catalog import builtin_host
from emplace.placement.cost_model import CostSource
from emplace.placement.diagnosis import Diagnosis
from tests.prices import bandwidth_prices, device_prices
from tests.solver.questions import gpu_host
from tests.solver.sensitivity.test_dual_prices import tight

LIMIT = 0.08
"""Counted seconds."""
MODEL = tight(gpu_host(2)).model
"""Tables that are looked up much."""


@cache
def small_plan() -> emplace.Plan:
    """Two thirds of the tables in HBM."""
    host = gpu_host(2, hbm="110MiB", ddr="2GiB")
    return emplace.plan(MODEL, host, cost_model=device_prices(host), work_limit=LIMIT)


@pytest.fixture(scope="module")
def explained() -> emplace.Plan:
    return emplace.explain(small_plan())


def diagnosis_of(plan: emplace.Plan) -> Diagnosis:
    assert plan.diagnosis is not None
    return plan.diagnosis


def test_a_plan_is_the_same_but_for_its_diagnosis_and_sound(explained: emplace.Plan) -> None:
    assert emplace.audit(explained) == []
    assert explained.model_copy(update={"diagnosis": None}).tables == small_plan().tables
    assert emplace.Plan.model_validate_json(explained.canonical_json()) == explained


def test_every_change_is_estimated_and_solved_the_most_promising_first(explained: emplace.Plan) -> None:
    found = diagnosis_of(explained)
    assert len(found.changes) == num_changes(explained) == 5
    estimates = [change.estimated_us or 0.0 for change in found.changes]
    assert estimates == sorted(estimates)
    for change in found.changes:
        assert change.fits
        assert change.lower_bound_us is not None
        assert change.step_time_us is not None
        assert 0 < change.lower_bound_us <= change.step_time_us
        examples = 64 * (4 if change.kind == "nodes" else 2)
        assert change.throughput_samples_per_s == pytest.approx(examples * 1e6 / change.step_time_us)
        if change.kind != "nodes":
            assert change.step_time_us <= (explained.step_time_us or 0.0) * (1 + 1e-9)  # the placement is there already
    assert found.notes == (DATASHEET,)


def test_where_hbm_binds_more_of_it_helps(explained: emplace.Plan) -> None:
    (hbm,) = (change for change in diagnosis_of(explained).changes if change.kind == "hbm")
    assert (hbm.estimated_us or 0.0) < 0
    assert (hbm.step_time_us or 0.0) < (explained.step_time_us or 0.0)
    asked = explained.question.model_dump(mode="json")
    asked["host"]["node"]["devices"] = hbm.patch["host"]["node"]["devices"]
    larger = emplace.read_host(asked["host"])
    again = emplace.plan(asked["model"], larger, cost_model=device_prices(larger), work_limit=LIMIT)
    assert again.step_time_us == pytest.approx(hbm.step_time_us)
    assert again.lower_bound_us == pytest.approx(hbm.lower_bound_us)


def test_measured_prices_leave_rates_out_and_it_is_said() -> None:
    host = gpu_host(2)
    measured = bandwidth_prices(host).model_copy(update={"source": CostSource.MEASURED})
    found = diagnosis_of(emplace.explain(emplace.plan(MODEL, host, cost_model=measured, work_limit=LIMIT)))
    assert {change.kind for change in found.changes} == {"hbm", "nodes"}
    assert found.notes == (OTHER_PRICES, UNMEASURED_NETWORK)


def test_one_that_is_told_to_stop_keeps_its_estimates() -> None:
    plan = small_plan()
    seen: list[emplace.Progress] = []
    monitor = emplace.Monitor.of(seen.append, lambda: any("change 3 of 5" in progress.phase for progress in seen))
    found = diagnosis_of(emplace.explain(plan, monitor=monitor))
    assert [change.step_time_us is not None for change in found.changes] == [True, True, False, False, False]
    assert all(change.estimated_us is not None for change in found.changes)
    assert found.notes == (DATASHEET, "interrupted: 3 of 5 changes are not solved")
    assert seen[0].phase.startswith("change 1 of 5, +")


def test_a_job_of_the_fewest_devices_keeps_its_size() -> None:
    plan = emplace.plan(MODEL, gpu_host(4, hbm="200MiB"), objective="devices", work_limit=LIMIT)
    assert plan.fewest is not None
    assert plan.fewest.size is not None
    found = diagnosis_of(emplace.explain(plan))
    hbm = next(change for change in found.changes if change.kind == "hbm")
    ranks = plan.fewest.size.ranks
    assert hbm.throughput_samples_per_s == pytest.approx(64 * ranks * 1e6 / (hbm.step_time_us or 1.0))


def test_what_does_not_fit_has_its_explanation_already() -> None:
    plan = emplace.plan(MODEL, gpu_host(2, hbm="32MiB"), tiers=["hbm"], work_limit=LIMIT)
    assert plan.status is emplace.PlanStatus.INFEASIBLE
    assert emplace.explain(plan) == plan
    assert num_changes(plan) == 0


def test_a_plan_that_is_not_whole_is_refused() -> None:
    plan = small_plan()
    with pytest.raises(emplace.InvalidDocument, match="nowhere"):
        emplace.explain(plan.model_copy(update={"tables": plan.tables[1:]}))


def test_a_change_that_no_host_can_have_is_left_out() -> None:
    host = builtin_host("dgx-h100").to_data() | {"name": "most"}
    host["node"]["devices"][0] |= {"hbm_capacity": "128TiB"}
    plan = emplace.plan(MODEL, host, work_limit=LIMIT)
    assert "hbm" not in {change.kind for change in diagnosis_of(emplace.explain(plan)).changes}


def test_where_launches_take_longest_no_faster_device_promises_anything() -> None:
    found = emplace.explain(emplace.plan(MODEL, small_plan().question.host, work_limit=LIMIT))
    assert found.solver.bound == "launches"
    assert [change.estimated_us for change in diagnosis_of(found).changes if change.kind != "nodes"] == [0.0] * 4
