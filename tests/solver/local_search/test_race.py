"""Searches that race: in heats, two side by side, until the best has the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.generate import Case, draw
from emplace.solver.budget import SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.clock import ENDLESS
from emplace.solver.local_search.race import HEATS, Race
from emplace.solver.local_search.search import CHUNK, Search
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bounder

CASE = Case("race", 120, 16, 0.85)
SECONDS = 4.0


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
    best = [list(race(seed=1).searches())[-1].best.objective_us for _ in range(2)]
    assert best[0] == best[1]


def test_where_the_first_finds_nothing_in_its_time_no_others_race() -> None:
    full = merge_stages(draw(replace(CASE, hbm_load=1.0, uvm=False)))
    bounder = Bounder(full)
    budget = Budget(SECONDS, 0.0, 0, by_clock=True)
    searches = list(Race(full, bounder, bounder.bound(), budget, Monitor.of(clock=ENDLESS.within(2.0))).searches())
    assert {search.seed for search in searches} == {0, 1}
    assert searches[-1].best.assignment is None
