"""The whole solve, against every assignment there is and on drawn problems."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from benchmarks.generate import Case, draw, suite
from emplace.placement.terms import OPTIMAL_GAP
from emplace.solver import engine
from emplace.solver.branch_and_price.prover import Prover
from emplace.solver.budget import SEARCH_SECONDS, Budget
from emplace.solver.engine import solve
from emplace.solver.heuristics.improve import Improver
from emplace.solver.local_search.race import RESTART_WORK, Race
from emplace.solver.local_search.search import Search
from emplace.solver.model.problem import Assignment, Problem, fits, loads_of, objective_us
from emplace.solver.progress import Monitor, Progress
from emplace.solver.result import Limit, Result, gap_of
from tests.solver.brute_force import optimum_us, random_problem
from tests.solver.random_problems import rich_problem
from tests.solver.test_cancel import Watch, counted

QUICK = Budget(seconds=0.2, gap=0.0, seed=3)
"""Work is counted: half of it still settles every tiny problem."""


def _sound(problem: Problem, outcome: Result[Assignment]) -> None:
    """An assignment that is returned fits, costs what is said and is not better than the bound."""
    assert outcome.solution is not None
    loads = loads_of(problem, outcome.solution)
    assert fits(problem, loads)
    assert outcome.objective_us == pytest.approx(objective_us(problem, loads), rel=1e-9)
    assert outcome.lower_bound_us <= outcome.objective_us
    for table, targets in enumerate(outcome.solution.targets):
        assert problem.option_table[outcome.solution.option[table]] == table
        assert len(set(targets)) == len(targets)


@pytest.mark.parametrize("seed", range(25))
def test_optimal_and_proven_on_tiny_problems(seed: int) -> None:
    for problem in (rich_problem(seed), random_problem(1000 + seed)):
        optimum = optimum_us(problem)
        outcome = solve(problem, QUICK)
        if np.isinf(optimum):
            assert outcome.solution is None
            assert outcome.is_infeasible
            assert np.isinf(outcome.lower_bound_us)
        else:
            _sound(problem, outcome)
            assert outcome.objective_us == pytest.approx(optimum, rel=1e-6)
            assert outcome.lower_bound_us == pytest.approx(optimum, rel=1e-6)
            assert outcome.lower_bound_us <= optimum * (1 + 1e-9)


@pytest.mark.parametrize(
    "case",
    [
        Case("one stage", 120, 16, 0.9, stages=1),
        Case("staged", 120, 16, 0.9),
        Case("beyond HBM", 120, 16, 1.5),
        Case("two kinds", 120, 16, 0.9, kinds=2),
    ],
    ids=lambda case: case.name,
)
def test_drawn_problems_come_within_a_tenth_of_the_bound(case: Case) -> None:
    problem = draw(case)
    outcome = solve(problem, Budget(0.4, 0.01, 0))
    _sound(problem, outcome)
    assert gap_of(outcome.objective_us, outcome.lower_bound_us) < 0.1


@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        (Case("search alone", 150, 16, 0.95), 0.1),
        (Case("both sides", 24, 8, 0.95, mean_rows=5.7e6, dims=(128,), stages=1), 0.3),
        (Case("two plans", 100, 32, 0.95), 0.2),
    ],
    ids=lambda each: each.name if isinstance(each, Case) else "",
)
def test_the_same_seed_gives_the_same_assignment(case: Case, seconds: float) -> None:
    problem = draw(case)
    first, second = (solve(problem, Budget(seconds, 0.0, 7)) for _ in range(2))
    assert first.solution is not None
    assert second.solution is not None
    assert (first.solution.option == second.solution.option).all()
    assert first.solution.targets == second.solution.targets
    assert first == replace(second, solution=first.solution)


def test_another_seed_may_give_another_assignment() -> None:
    problem = draw(Case("again", 150, 16, 0.95))
    first, second = (solve(problem, Budget(0.1, 0.0, seed)) for seed in (1, 2))
    assert first.solution is not None
    assert second.solution is not None
    assert first.solution.targets != second.solution.targets


def test_reports_rising_bounds_and_falling_incumbents() -> None:
    seen: list[Progress] = []
    outcome = solve(draw(Case("report", 150, 16, 0.95)), Budget(0.2, 0.0, 0), Monitor.of(seen.append))
    incumbents = [progress.incumbent_us for progress in seen if progress.incumbent_us is not None]
    assert incumbents == sorted(incumbents, reverse=True)
    assert incumbents[-1] == outcome.objective_us
    bounds = [progress.bound_us for progress in seen]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= outcome.lower_bound_us


def test_stops_soon_when_asked() -> None:
    seen: list[Progress] = []
    problem = draw(Case("cancel", 300, 32, 0.95))
    outcome = solve(problem, Budget(3600.0, 0.0, 0), Monitor.of(seen.append, lambda: len(seen) > 4))
    assert outcome.limit is Limit.INTERRUPTED
    assert len(seen) < 10


def test_stops_at_the_asked_gap() -> None:
    problem = draw(Case("gap", 300, 16, 0.7, stages=1))
    outcome = solve(problem, Budget(30.0, 0.05, 0))
    assert outcome.limit is Limit.GAP
    assert gap_of(outcome.objective_us, outcome.lower_bound_us) <= 0.05


def test_too_many_bytes_are_a_proof() -> None:
    problem = draw(Case("over", 300, 32, 1.1, uvm=False))
    outcome = solve(problem, Budget(2.0, 0.01, 0))
    assert (outcome.solution, outcome.is_infeasible, outcome.lower_bound_us) == (None, True, np.inf)


def test_no_tables_is_no_work() -> None:
    problem = rich_problem(0)
    empty = replace(
        problem,
        option_table=np.empty(0, np.int64),
        option_scope=np.empty(0, np.int64),
        option_kind=np.empty(0, np.int64),
        option_first_unit=np.zeros(1, np.int64),
        unit_time_us=problem.unit_time_us[:0],
        unit_hbm_bytes=problem.unit_hbm_bytes[:0],
        unit_ddr_bytes=problem.unit_ddr_bytes[:0],
        allowed=None,
    )
    outcome = solve(empty, QUICK)
    assert outcome.limit is Limit.NONE
    assert outcome.objective_us == problem.constant_us + problem.stage_base_us.sum()


def test_numbering_devices_otherwise_gives_an_equally_good_plan() -> None:
    problem = draw(Case("labels", 60, 8, 0.9, stages=1, devices_per_node=8))
    order = np.random.default_rng(0).permutation(problem.num_devices)
    renumbered = replace(
        problem,
        hbm_capacity=problem.hbm_capacity[order],
        device_pool=problem.device_pool[order],
        device_node=problem.device_node[order],
        device_kind=problem.device_kind[order],
    )
    first, second = solve(problem, Budget(1.0, 0.02, 0)), solve(renumbered, Budget(1.0, 0.02, 0))
    assert first.lower_bound_us == pytest.approx(second.lower_bound_us, rel=1e-9)
    for outcome, case in ((first, problem), (second, renumbered)):
        _sound(case, outcome)
        assert gap_of(outcome.objective_us, outcome.lower_bound_us) < 0.05


@pytest.mark.parametrize("seed", range(40))
def test_relabelling_devices_changes_only_the_labels(seed: int) -> None:
    problem = random_problem(seed)
    order = np.random.default_rng(seed).permutation(problem.num_devices)
    relabelled = replace(
        problem,
        device_kind=problem.device_kind[order],
        device_node=problem.device_node[order],
        device_is_trainer=problem.device_is_trainer[order],
        device_pool=problem.device_pool[order],
        hbm_capacity=problem.hbm_capacity[order],
        allowed=None if problem.allowed is None else problem.allowed[:, order],
    )
    before, after = solve(problem, QUICK), solve(relabelled, QUICK)
    assert after.stopped_by == before.stopped_by
    assert after.objective_us == pytest.approx(before.objective_us)


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
def test_scaling_all_times_changes_only_the_scale(factor: float) -> None:
    problem = draw(Case("scale", 40, 8, 0.95))
    scaled = replace(
        problem,
        constant_us=problem.constant_us * factor,
        stage_base_us=problem.stage_base_us * factor,
        unit_time_us=problem.unit_time_us * factor,
    )
    limits = replace(QUICK, gap=1e-3)
    before, after = solve(problem, limits), solve(scaled, limits)
    assert after.objective_us == pytest.approx(before.objective_us * factor, rel=0.02)
    assert after.lower_bound_us == pytest.approx(before.lower_bound_us * factor, rel=1e-3)


def test_few_tables_are_placed_better_by_what_follows_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = draw(Case("few tables", 32, 16, 0.95, mean_rows=5.7e6, mean_pooling=28.0, dims=(128,), stages=1, seed=3))
    limits = Budget(seconds=3.2, gap=0.0, seed=1)
    better = solve(problem, limits)
    monkeypatch.setattr(engine, "FEW_TABLES_PER_DEVICE", 0)
    monkeypatch.setattr(engine, "SMALL_CHOICES", 0)
    _sound(problem, better)
    assert better.objective_us < solve(problem, limits).objective_us * 0.995


def test_with_several_stages_patterns_raise_the_bound_that_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of choices, and not the bound of a program whose own is not what is claimed."""
    problem = draw(next(case for case in suite() if case.name == "m2x16-85-k5"))
    monkeypatch.setattr(engine, "SMALL_CHOICES", 0)
    claimed, other = (solve(problem, Budget(1.5, 0.0, 0), is_claimed=is_claimed) for is_claimed in (True, False))
    _sound(problem, claimed)
    assert claimed.bound == "patterns"
    assert claimed.lower_bound_us > other.lower_bound_us * 1.003
    assert "patterns" not in other.bound


def test_a_search_that_stands_still_leaves_the_rest_to_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks: list[Search] = []

    class Counted(Race):
        def searches(self) -> Iterator[Search]:
            for search in super().searches():
                chunks.append(search)
                yield search

    problem = draw(next(case for case in suite() if case.name == "m2x16-85-k5"))
    limits = Budget(0.5, 0.0, 0)
    monkeypatch.setattr("emplace.solver.local_search.race.RESTART_WORK", RESTART_WORK / 8)
    monkeypatch.setattr(engine, "Race", Counted)
    sooner, number = solve(problem, limits), len(chunks)
    monkeypatch.setattr(engine, "LONGER_THAN_FOUND", math.inf)
    later = solve(problem, limits)
    assert number < 0.8 * (len(chunks) - number)
    assert sooner.objective_us <= later.objective_us
    assert sooner.counted_s == pytest.approx(limits.seconds)


@pytest.mark.parametrize("seconds", [0.5, 4.0, 60.0])
@pytest.mark.parametrize(("few", "small"), list(product([True, False], repeat=2)))
def test_the_search_leaves_something_of_the_limit_to_what_follows(seconds: float, few: bool, small: bool) -> None:
    search_s = engine.Size(few, small, is_assignment=False).search_seconds(seconds)
    assert min(SEARCH_SECONDS, seconds / 2) <= search_s <= seconds
    assert (search_s < seconds) == (few or small)


@pytest.mark.parametrize(("tables", "devices"), [(36, 8), (60, 16)], ids=["small", "few tables"])
def test_no_program_is_built_that_counts_for_more_than_there_is(tables: int, devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = draw(Case("staged", tables, devices, 0.9))
    assert engine.Size.of(problem).is_small == (tables == 36)
    built = counted(monkeypatch, "emplace.solver.cp_sat.new_solver", Watch())
    _sound(problem, solve(problem, Budget(0.015, 0.0, 0)))
    assert built == []
    _sound(problem, solve(problem, Budget(1.0, 0.0, 0)))
    assert built


@pytest.mark.parametrize("gap", [0.1, 0.03])
def test_a_search_that_ends_within_the_gap_asked_for_does_not_say_that_it_was_finished(gap: float) -> None:
    ended = [solve(rich_problem(seed), Budget(1.0, gap, 0)) for seed in range(12)]
    assert {each.limit for each in ended} == {Limit.NONE, Limit.GAP}
    assert all((each.limit is Limit.NONE) <= (each.gap <= OPTIMAL_GAP) and each.gap <= gap * (1 + 1e-9) for each in ended)


def test_ctrl_c_while_the_gap_is_closed_waits_for_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    began, shares = threading.Event(), list[float]()
    run = Improver.run

    def watched(self: Improver, known: Result[Assignment], seconds: float) -> Result[Assignment]:
        began.set()
        found = run(self, known, seconds)
        shares.append(self.counted_s / seconds)
        return found

    def interrupted(*_: object) -> None:
        began.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(Prover, "by_patterns", interrupted)
    monkeypatch.setattr(Improver, "run", watched)
    with pytest.raises(KeyboardInterrupt):
        solve(draw(Case("held up", 24, 8, 0.9, stages=5, devices_per_node=8)), Budget(4.0, 0.0, 0))
    assert max(shares) < 0.5
