"""Lengths of stages that dives are given, of tiny problems."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from emplace.solver.heuristics.dive_program import OutOfSteps, StepMeter
from emplace.solver.heuristics.stage_lengths import DiveLimits, StageLengths
from emplace.solver.model.problem import Bools, Problem, Scope
from emplace.solver.patterns.device_classes import device_classes
from emplace.solver.relaxation.bound import Bounder
from tests.solver.brute_force import optimum_us
from tests.solver.heuristics.test_diving import alike

SEEDS = range(12)
FEASIBLE = [problem for problem in (alike(seed, stages=3) for seed in SEEDS) if np.isfinite(optimum_us(problem))]


def lengths(problem: Problem, seed: int = 0, most_steps: int = 20_000_000) -> StageLengths:
    bounder = Bounder(problem)
    return StageLengths(problem, bounder, bounder.bound(), np.random.default_rng(seed), StepMeter(most_steps))


def all_options(problem: Problem) -> Bools:
    return np.ones(problem.num_options, dtype=bool)


def drawn(problem: Problem, target_us: float, better_us: float, seed: int = 0, may: Bools | None = None) -> list[DiveLimits]:
    steps = islice(lengths(problem, seed).draw(target_us, better_us, all_options(problem) if may is None else may), 60)
    return [limits for limits in steps if limits is not None]


def test_limits_leave_what_a_step_may_take_and_no_more() -> None:
    for problem in FEASIBLE:
        optimum, fixed_us = optimum_us(problem), problem.constant_us + float(problem.stage_base_us.sum())
        found = drawn(problem, optimum * 1.1, optimum * 1.2)
        assert found
        for limits in found:
            assert optimum * 1.1 - fixed_us <= limits.upper.sum() * (1 + 1e-9)
            assert limits.upper.sum() <= (optimum * 1.2 - fixed_us) * (1 + 1e-9)
            assert limits.keep.any()


def test_a_better_plan_may_be_all_that_is_looked_for() -> None:
    for problem in FEASIBLE:
        optimum, fixed_us = optimum_us(problem), problem.constant_us + float(problem.stage_base_us.sum())
        for limits in drawn(problem, optimum * 1.1, optimum * 1.1):
            assert limits.upper.sum() == pytest.approx(optimum * 1.1 - fixed_us)


def test_they_differ_from_draw_to_draw() -> None:
    problem = FEASIBLE[0]
    optimum = optimum_us(problem)
    uppers = {tuple(limits.upper) for limits in drawn(problem, optimum * 1.1, optimum * 1.2)}
    assert len(uppers) > 3
    assert uppers != {tuple(limits.upper) for limits in drawn(problem, optimum * 1.1, optimum * 1.2, seed=1)}


def test_only_options_that_may_be_taken_are_left_and_cover_all_tables() -> None:
    for problem in FEASIBLE:
        optimum = optimum_us(problem)
        one, may = int(np.flatnonzero(problem.option_table == 0)[0]), all_options(problem)
        may[problem.option_table == 0] = False
        assert not drawn(problem, optimum * 1.1, optimum * 1.2, may=may)
        may[one] = True
        for limits in drawn(problem, optimum * 1.5, optimum * 1.6, may=may):
            assert limits.keep[one]
            assert not limits.keep[~may].any()


@pytest.mark.parametrize("shared", [False, True])
def test_the_patterns_met_there_are_of_single_devices_within_the_limits_and_cover_what_takes_them(shared: bool) -> None:
    of_single = 0
    for problem in FEASIBLE if not shared else [alike(seed, shared=True, stages=2) for seed in SEEDS]:
        optimum, given = optimum_us(problem), device_classes(problem)[0]
        single = problem.option_scope == Scope.DEVICE
        for limits in drawn(problem, optimum * 1.1, optimum * 1.2) if np.isfinite(optimum) else []:
            for items in limits.patterns:
                assert (given.time[items].sum(axis=0) <= limits.upper * (1 + 1e-9)).all()
                assert limits.keep[given.option[items]].all()
                assert single[given.option[items]].all()
            covered = {int(table) for items in limits.patterns for table in given.table[items]}
            assert shared or covered == set(range(problem.num_tables))
            of_single += len(covered)
    assert of_single > 50


def test_none_are_drawn_where_patterns_do_not_cover_all_tables() -> None:
    for problem in FEASIBLE:
        fixed_us = problem.constant_us + float(problem.stage_base_us.sum())
        low = fixed_us + 0.2 * (optimum_us(problem) - fixed_us)
        assert not [limits for limits in lengths(problem).draw(low, low * 1.0001, all_options(problem)) if limits is not None]


def test_drawing_ends_where_no_patterns_are_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.heuristics.stage_lengths.DRAWING_STEPS", 1)
    ended = 0
    for problem in FEASIBLE:
        optimum = optimum_us(problem)
        steps = list(islice(lengths(problem).draw(optimum * 1.1, optimum * 1.2, all_options(problem)), 60))
        ended += len(steps) < 60
        assert all(np.isfinite(limits.upper).all() for limits in steps if limits is not None)
    assert 0 < ended < len(FEASIBLE)


def test_drawing_ends_with_the_steps() -> None:
    problem = FEASIBLE[0]
    optimum = optimum_us(problem)
    with pytest.raises(OutOfSteps):
        list(lengths(problem, most_steps=1_000_000).draw(optimum * 1.1, optimum * 1.2, all_options(problem)))
