"""Cancelled after any number of looks: what is said then still holds, and no long work begins any more."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from emplace.placement.audit import audit
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.workload import Objective
from emplace.solver.progress import Monitor
from emplace.solver.solve import solve_question
from tests.solver.driver.test_type_search import best_step_us, drawn, with_costs, with_options
from tests.solver.infeasibility.test_explain import too_many_tables
from tests.solver.questions import gpu_host, question, table

ROUNDING = 1e-9


class Watch:
    """Says stop from the look number `looks` on, and counts the looks."""

    def __init__(self, looks: int | None = None) -> None:
        self.looks, self.seen = looks, 0

    @property
    def is_stopped(self) -> bool:
        return self.looks is not None and self.seen > self.looks

    def __call__(self) -> bool:
        self.seen += 1
        return self.is_stopped


def cancelled_after_each_look(asked: Question, most: int = 16) -> list[Plan]:
    """The uncancelled plan last."""
    whole = Watch()
    plan = solve_question(asked, Monitor.of(None, whole))
    assert whole.seen
    looks = sorted({number * whole.seen // most for number in range(most)})
    plans = [*(solve_question(asked, Monitor.of(None, Watch(number))) for number in looks), plan]
    for each in plans:
        assert audit(each) == []
    return plans


def many_sets(seed: int) -> Question:
    return with_options(drawn(seed, 60.0), work_limit=0.08)


def with_start(asked: Question) -> Question:
    return with_options(asked, start=solve_question(asked).tables, move_price_us_per_gib=1.0)


@pytest.mark.parametrize(
    "asked",
    [many_sets(0), many_sets(1), with_costs(many_sets(2), ranks_per_core=2.0), with_start(many_sets(0))],
    ids=["sets", "other sets", "shared cores", "start"],
)
def test_the_bound_holds_for_the_best_plan_there_is(asked: Question) -> None:
    best_us = best_step_us(asked)
    plans = cancelled_after_each_look(asked)
    assert plans[0].solver.stopped_by == "cancelled"
    for plan in plans:
        assert plan.lower_bound_us is not None
        assert 0 < plan.lower_bound_us <= best_us * (1 + ROUNDING)
        assert plan.has_placement


@pytest.mark.parametrize("options", [{}, {"objective": Objective.DEVICES}], ids=["servers", "devices"])
def test_also_with_programs_of_several_kinds(options: dict[str, Any]) -> None:
    tables = [table(f"t{index}", 200_000, pooling=20) for index in range(4)]
    asked = question(gpu_host(2, servers=2, hbm="60MiB"), tables, work_limit=0.04, **options)
    *cancelled, plan = cancelled_after_each_look(asked, most=8)
    assert plan.step_time_us is not None
    for each in cancelled:
        assert each.status is not PlanStatus.INFEASIBLE
        assert each.lower_bound_us is None or each.lower_bound_us <= plan.step_time_us * (1 + ROUNDING)


class Stoppable(Protocol):
    @property
    def is_stopped(self) -> bool: ...


def counted(monkeypatch: pytest.MonkeyPatch, name: str, watch: Stoppable) -> list[bool]:
    """For every call of a function, whether it began after the stop."""
    module, _, attribute = name.rpartition(".")
    original, calls = getattr(__import__(module, fromlist=[attribute]), attribute), []

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(watch.is_stopped)
        return original(*arguments, **named)

    monkeypatch.setattr(name, call)
    return calls


@pytest.mark.parametrize("servers", [0, 1])
def test_no_bound_and_no_search_begins_after_the_stop(servers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question(gpu_host(2, servers=servers), [table(f"t{index}", 20_000, pooling=20) for index in range(4)], work_limit=0.04)
    asked = with_costs(asked, sharding_type_us=drawn(0, 60.0).cost_model.sharding_type_us)
    for looks in (0, 1, 2, 3, 5, 8, 13, 21, 34):
        watch = Watch(looks)
        with monkeypatch.context() as patches:
            bounds = counted(patches, "emplace.solver.driver.type_search.bounder_of", watch)
            searches = counted(patches, "emplace.solver.driver.solve_program.solve_apart", watch)
            solve_question(asked, Monitor.of(None, watch))
        assert not any(bounds + searches)
    assert bounds
    assert searches


def test_no_fix_is_tried_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = too_many_tables(gpu_host(2, hbm="32MiB"), tiers=["hbm"])
    *cancelled, plan = cancelled_after_each_look(asked)
    assert plan.explanation is not None
    for each in cancelled:
        if each.status is PlanStatus.INFEASIBLE:
            assert each.explanation is not None
            assert each.explanation.reasons == plan.explanation.reasons
            assert {fix.change for fix in each.explanation.fixes} <= {fix.change for fix in plan.explanation.fixes}
        else:
            assert each.solver.stopped_by == "cancelled"
    tried = counted(monkeypatch, "emplace.solver.infeasibility.fixes.is_feasible", Watch())
    summed = counted(monkeypatch, "emplace.solver.infeasibility.hardware_edits.cases", Watch())
    solve_question(asked, Monitor.of(None, lambda: bool(tried)))
    assert (len(tried), len(summed)) == (1, 0)
