"""Searches that race: in heats, two side by side, until the best has the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.generate import Case, draw, suite
from emplace.solver.budget import SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.clock import ENDLESS
from emplace.solver.local_search import race as race_module
from emplace.solver.local_search.lane import Start
from emplace.solver.local_search.race import HEATS, RESTART_WORK, TRIAL, Race
from emplace.solver.local_search.search import CHUNK, Search
from emplace.solver.model.problem import Problem
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder

CASE = Case("race", 120, 16, 0.85)
SECONDS = 1.5
FEW = next(case for case in suite() if case.name == "m1x16-95-k5")


def race(seconds: float = SECONDS, *, seed: int = 0) -> Race:
    problem = merge_stages(draw(CASE))
    bounder = Bounder(problem)
    return Race(problem, bounder, bounder.bound(), Budget(seconds, 0.0, seed), Monitor())


@pytest.fixture(scope="module")
def raced() -> list[tuple[Search, float]]:
    """Each search after each of its chunks, and its work till then."""
    return [(search, search.best.work) for search in race().searches()]


def test_fewer_race_in_each_heat_and_those_with_the_best_placements_go_on(raced: list[tuple[Search, float]]) -> None:
    entrants = list({search.seed: None for search, _ in raced})
    assert len(entrants) == HEATS[0]
    total = {seed: sum(1 for search, _ in raced if search.seed == seed) for seed in entrants}
    by_work = sorted(entrants, key=lambda seed: -max(work for search, work in raced if search.seed == seed))
    share = 0.5 / sum(HEATS) * SECONDS * SEARCH_WORK_PER_SECOND
    heats = [round(max(work for search, work in raced if search.seed == seed) / share) for seed in by_work]
    assert heats[1:] == [3, 2, 2, 1, 1]
    assert heats[0] > 6
    assert total[by_work[0]] == max(total.values())


def test_the_best_one_gets_the_rest_and_a_second_lane(raced: list[tuple[Search, float]]) -> None:
    leader, _ = raced[-1]
    everyone = {search.seed: search for search, _ in raced}.values()
    assert leader.best.objective_us == min(search.best.objective_us for search in everyone)
    assert [len(search.lanes) for search in everyone if search is not leader] == [1] * (HEATS[0] - 1)
    assert len(leader.lanes) == 2
    work = sum(search.best.work for search in everyone)
    assert work == pytest.approx(SECONDS * SEARCH_WORK_PER_SECOND, abs=2 * CHUNK * HEATS[0])


def test_the_same_race_has_the_same_answer() -> None:
    best = [list(race(0.3, seed=1).searches())[-1].best.objective_us for _ in range(2)]
    assert best[0] == best[1]


def test_few_tables_go_on_from_the_start_that_its_trial_shows_to_be_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Start] = []

    class Recorded(Search):
        def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, start: Start, *rest: Any, **named: Any) -> None:
            started.append(start)
            super().__init__(problem, bounder, bound, start, *rest, **named)

    monkeypatch.setattr(race_module, "Search", Recorded)
    number = HEATS[0]
    problem = merge_stages(draw(FEW))
    monkeypatch.setattr(race_module, "RESTART_WORK", RESTART_WORK / 2)
    restart = race_module.RESTART_WORK * problem.num_tables
    budget = Budget(number * restart / SEARCH_WORK_PER_SECOND, 0.0, seed=1)
    bounder = Bounder(problem)
    searches: list[Search] = []
    in_trial: dict[int, float] = {}
    for search in Race(problem, bounder, bounder.bound(), budget, Monitor()).searches():
        if search not in searches:
            searches.append(search)
        if search.best.work <= TRIAL * restart + CHUNK:
            in_trial[search.seed] = search.best.objective_us
    assert len(searches) == len(started)
    trials = len({id(start) for start in started})
    assert trials == number
    best = min(range(trials), key=lambda index: in_trial[searches[index].seed])
    assert best > 0
    assert len(started) > trials
    assert all(start is started[best] for start in started[trials:])
    done = [search.best.work / restart for search in searches]
    assert done == pytest.approx([1.0 if index in (best, *range(trials, len(done))) else TRIAL for index in range(len(done))], abs=0.13)
    assert sum(done) == pytest.approx(number, abs=0.7)


def test_where_the_first_finds_nothing_in_its_time_no_others_race() -> None:
    full = merge_stages(draw(replace(CASE, hbm_load=1.0, uvm=False)))
    bounder = Bounder(full)
    budget = Budget(SECONDS, 0.0, 0, by_clock=True)
    searches = list(Race(full, bounder, bounder.bound(), budget, Monitor.of(clock=ENDLESS.within(2.0))).searches())
    assert {search.seed for search in searches} == {0, 1}
    assert searches[-1].best.assignment is None


def test_where_the_first_start_finds_nothing_in_its_trial_it_has_all_of_the_time() -> None:
    full = merge_stages(draw(replace(FEW, hbm_load=1.0, uvm=False)))
    bounder = Bounder(full)
    budget = Budget(HEATS[0] * RESTART_WORK * full.num_tables / SEARCH_WORK_PER_SECOND, 0.0, 0, by_clock=True)
    searches = list(Race(full, bounder, bounder.bound(), budget, Monitor.of(clock=ENDLESS.within(1.0))).searches())
    assert {search.seed for search in searches} == {0}
    assert searches[-1].best.assignment is None
