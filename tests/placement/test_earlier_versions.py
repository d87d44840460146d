"""Plans and questions of version 1 are read as what they meant: their one limit was of counted work."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.audit import audit
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import LimitKind, Plan, PlanOptions, PlanStatus, Question, StoppedBy, by_the_clock
from emplace.placement.reading import from_data
from tests.placement.test_audit import mixed_plan


def plan_of_version_1() -> dict[str, Any]:
    data = mixed_plan().to_data()
    data["schema_version"] = 1
    del data["solver"]["limit_kind"], data["question"]["schema_version"]
    options = data["question"]["options"]
    options["time_limit"] = options.pop("work_limit")
    return data


def test_a_stored_plan_of_version_1_is_the_same_plan_and_sound() -> None:
    plan = from_data(plan_of_version_1(), Plan, source="plan.json")
    assert plan == mixed_plan()
    assert audit(plan) == []


@pytest.mark.parametrize(("gap", "status"), [(5e-4, PlanStatus.FEASIBLE), (5e-7, PlanStatus.OPTIMAL), (0.0, PlanStatus.OPTIMAL)])
def test_one_that_is_within_a_gap_is_not_called_optimal_any_more(gap: float, status: PlanStatus) -> None:
    assert from_data(plan_of_version_1() | {"status": "optimal", "gap": gap}, Plan, source="plan.json").status is status


def test_its_limit_is_audited_as_work() -> None:
    data = plan_of_version_1()
    data["solver"]["limit"] += 1.0
    (violation,) = audit(from_data(data, Plan, source="plan.json"))
    assert violation.where == "/solver/limit"
    assert "work_limit" in violation.what


def test_a_question_without_a_version_counts_work() -> None:
    question = from_data(plan_of_version_1()["question"], Question, source="question")
    assert question.options.limits == {LimitKind.WORK: 10.0}
    assert question.content_digest() == mixed_plan().question.content_digest()


def test_a_plan_of_version_1_holds_no_question_of_version_2() -> None:
    with pytest.raises(InvalidDocument, match="/schema_version: must be 2"):
        from_data(mixed_plan().to_data() | {"schema_version": 1}, Plan, source="plan.json")


def test_limits_by_default_and_as_asked() -> None:
    assert PlanOptions().limits == {LimitKind.WORK: 10.0}
    assert PlanOptions(time_limit=3.0).limits == {LimitKind.TIME: 3.0}
    assert PlanOptions(time_limit=3.0, work_limit=2.0).limits == {LimitKind.TIME: 3.0, LimitKind.WORK: 2.0}
    assert by_the_clock({"seed": 1}) == {"seed": 1, "time_limit": 10.0}
    assert by_the_clock({"work_limit": 2.0}) == {"work_limit": 2.0}
    assert from_data({"work_limit": None, "time_limit": None}, PlanOptions, source="options") == PlanOptions()


def test_a_plan_that_says_it_ran_out_of_time_had_a_time_limit() -> None:
    plan = mixed_plan()
    late = plan.model_copy(update={"solver": plan.solver.model_copy(update={"stopped_by": StoppedBy.TIME})})
    assert [violation.where for violation in audit(late)] == ["/solver/stopped_by"]
    timed = plan.model_copy(update={"solver": plan.solver.model_copy(update={"limit_kind": LimitKind.TIME})})
    assert [violation.where for violation in audit(timed)] == ["/solver/limit_kind"]
