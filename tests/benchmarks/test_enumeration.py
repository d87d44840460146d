"""Answers to small questions, held against every placement that the audit accepts."""

from __future__ import annotations

import pytest

from benchmarks import gate_answers
from benchmarks.enumeration import beaten_by, judged, summary
from benchmarks.exhaustive import best_below
from benchmarks.small_questions import small_question
from emplace.placement.plan import Explanation, PlanStatus
from emplace.planning import answer

QUESTIONS, PARTS = 300, 5


@pytest.mark.parametrize("part", range(PARTS))
def test_no_placement_beats_a_bound_and_what_is_called_infeasible_does_not_fit(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Explanations have tests of their own, and take most of the time.
    monkeypatch.setattr("emplace.solver.solve.explain", lambda *_: Explanation(reasons=("it is left out",)))
    lines = [judged(1, number, work_limit=0.04) for number in range(part, QUESTIONS, PARTS)]
    verdicts = [line["verdict"] for line in lines]
    assert set(verdicts) <= {"holds", "too large"}
    assert verdicts.count("too large") <= 2
    assert {"optimal", "feasible", "infeasible"} <= set(summary(lines)["statuses"])


def test_a_whole_table_that_may_not_be_table_wise_stays_column_wise() -> None:
    assert judged(29, 7512, work_limit=0.04)["verdict"] == "holds"


@pytest.mark.parametrize("number", range(1, 11))
def test_a_bound_that_is_too_high_and_a_wrong_infeasible_are_found(number: int) -> None:
    _, question = small_question(1, number, 0.1)
    plan = answer(question)
    if plan.step_time_us is None:
        pytest.skip("no plan to be beaten")
    better = beaten_by(plan.model_copy(update={"lower_bound_us": plan.step_time_us * 1.001}))
    assert better is not None
    assert better.step_time_us < plan.step_time_us * 1.001
    infeasible = plan.model_copy(update={"status": PlanStatus.INFEASIBLE, "lower_bound_us": None})
    assert beaten_by(infeasible) is not None


def test_the_gates_answers_hold() -> None:
    """Budgets of exactly the best step among them, which rounding must not break."""
    lines = [gate_answers.judged(0, number) for number in (*range(5), 29)]
    assert {line["verdict"] for line in lines} == {"holds"}
    assert {line["fits"] for line in lines} == {True, False}


def test_a_wrong_no_is_found() -> None:
    _, question = small_question(1, 2, 0.1)
    step_us = answer(question).step_time_us
    assert step_us is not None
    assert gate_answers.is_kept(question, step_us * 1.001)
    assert not gate_answers.is_kept(question, step_us * 0.5)


def test_blocks_of_hashed_sequences_have_hot_rows_of_their_own() -> None:
    """Priced alike, a placement of this question seems to be quicker than the best."""
    _, question = small_question(12, 10, 0.1)
    plan = answer(question)
    assert plan.status is PlanStatus.OPTIMAL
    assert plan.step_time_us is not None
    assert best_below(question, question.topology(with_servers=False), plan.step_time_us * (1 - 1e-6)) is None
