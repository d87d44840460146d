"""Plans bettered by dives: always such that fit and are better, of tiny problems down to the optimum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from operator import itemgetter
from typing import cast

import numpy as np
import pytest

from emplace.solver.heuristics.dive import Dive, dive_options, held_tables
from emplace.solver.heuristics.dive_program import DiveProgram, OpenDevices, StepMeter
from emplace.solver.heuristics.diving import REACH, Dives, divable
from emplace.solver.model.problem import Assignment, Problem, Scope, fits, loads_of, objective_us
from emplace.solver.patterns.device_classes import device_classes
from emplace.solver.relaxation.bound import Bounder
from tests.solver.brute_force import fitting, random_problem, worst
from tests.solver.plain_problems import plain_problem

SEEDS = range(30)
EFFORT = 6_000_000


def alike(seed: int, shared: bool = False, stages: int = 1) -> Problem:
    """3 or 4 equal devices on 1 or 2 nodes, 3 tables with 1-3 options of 1 or 2 equal units, short of memory."""
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(3, 5))
    options = rng.integers(1, 4, 3)
    count = int(options.sum())
    units = rng.integers(1, 3, count)
    scope = rng.choice([Scope.DEVICE, Scope.DEVICE, Scope.NODE, Scope.WORLD], count) if shared else np.zeros(count, dtype=np.int64)
    units[scope != Scope.DEVICE] = 1
    time, hbm = rng.integers(1, 40, (count, 1, stages)).astype(float), rng.integers(0, 60, (count, 1))
    return plain_problem(
        np.repeat(time, units, axis=0),
        hbm_capacity=np.full(devices, int(rng.integers(40, 120))),
        unit_hbm_bytes=np.repeat(hbm, units, axis=0),
        device_node=np.arange(devices) % (2 if devices == 4 else 1),
        constant_us=3.0,
        stage_base_us=rng.integers(0, 5, stages).astype(float),
        option_table=np.repeat(np.arange(3), options),
        option_scope=scope,
        option_first_unit=np.append(0, np.cumsum(units)),
    )


def bettered(problem: Problem, plan: Assignment, effort: StepMeter) -> tuple[Assignment, list[float]]:
    bounder = Bounder(problem)
    bound = bounder.bound()
    dives, values = Dives(problem, bounder, bound, 0, effort), [objective_us(problem, loads_of(problem, plan))]
    while not effort.ended:
        *_, better = [None, *dives.improve(plan, bound.value_us)]
        if better is not None:
            plan = better
            assert fits(problem, loads_of(problem, plan))
            values.append(objective_us(problem, loads_of(problem, plan)))
    return plan, values


@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_is_better_and_the_last_is_optimal(seed: int) -> None:
    problem = alike(seed)
    plans = fitting(problem)
    if not plans:
        return
    (_, start), (best, _) = max(plans, key=itemgetter(0)), min(plans, key=itemgetter(0))
    assert divable(problem, start)
    _, values = bettered(problem, start, StepMeter(EFFORT))
    assert all(b < a for a, b in pairwise(values))
    assert best * (1 - 1e-9) <= values[-1] <= best * (1 + 1e-3)


@pytest.mark.parametrize("stages", [2, 3])
def test_with_several_stages_every_step_is_better_and_most_last_ones_are_optimal(stages: int) -> None:
    """Lengths of stages are drawn, so a plan may stay out of reach."""
    starts = optimal = 0
    for seed in SEEDS:
        problem = alike(seed, stages=stages)
        plans = fitting(problem)
        if not plans:
            continue
        (_, start), (best, _) = max(plans, key=itemgetter(0)), min(plans, key=itemgetter(0))
        _, values = bettered(problem, start, StepMeter(EFFORT))
        assert all(b < a for a, b in pairwise(values))
        starts, optimal = starts + 1, optimal + (values[-1] <= best * (1 + 1e-3))
    assert optimal >= 0.8 * starts


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_load_nodes_stay(seed: int) -> None:
    problem = alike(seed, shared=True)
    start = worst(problem)
    if start is None:
        return
    plan, values = bettered(problem, start, StepMeter(EFFORT))
    assert all(b < a for a, b in pairwise(values))
    for table in np.flatnonzero(problem.option_scope[start.option] != Scope.DEVICE):
        assert plan.option[table] == start.option[table]
        assert plan.targets[table] == start.targets[table]


def test_with_several_stages_they_stay_or_take_single_devices() -> None:
    stayed = moved = 0
    for problem, start in [
        (problem, start) for problem in (alike(seed, shared=True, stages=2) for seed in SEEDS) if (start := worst(problem))
    ]:
        plan, values = bettered(problem, start, StepMeter(EFFORT))
        assert all(b < a for a, b in pairwise(values))
        for table in np.flatnonzero(problem.option_scope[start.option] != Scope.DEVICE):
            moves = problem.option_scope[plan.option[table]] == Scope.DEVICE
            assert moves or (plan.option[table], plan.targets[table]) == (start.option[table], start.targets[table])
            stayed, moved = stayed + (not moves), moved + moves
    assert stayed > 5
    assert moved > 5


def on_device(problem: Problem, plan: Assignment, device: int) -> list[int]:
    single = problem.option_scope[plan.option] == Scope.DEVICE
    pairs = zip(plan.option[single], [plan.targets[table] for table in np.flatnonzero(single)], strict=True)
    return sorted(int(option) for option, targets in pairs for target in targets if target == device)


def finished(dive: Dive, effort: int = EFFORT) -> Assignment | None:
    steps = dive.run(StepMeter(effort))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Assignment | None", end.value)


def test_devices_that_stay_hold_what_they_held() -> None:
    moved = 0
    for problem, start in [(problem, start) for problem in map(alike, SEEDS, [True] * 15 + [False] * 15) if (start := worst(problem))]:
        upper = np.array([objective_us(problem, loads_of(problem, start)) - Bounder(problem).bound().fixed_us])
        everything = np.ones(problem.num_options, dtype=bool)
        for stay in ([0], [0, 1]):
            dive = Dive(problem, device_classes(problem)[0], everything, upper, {}, np.random.default_rng(0), 0.2)
            dive.hold(start, held_tables(problem, start, frees=False), np.array(stay))
            found = finished(dive)
            if found is not None:
                assert fits(problem, loads_of(problem, found))
                assert all(on_device(problem, found, device) == on_device(problem, start, device) for device in stay)
                moved += found.targets != start.targets
    assert moved > 10


FULL_US = 60


def just_filled(seed: int) -> Problem:
    """Tables of whole microseconds, and as long in a second stage, of which some placement fills each of 5 devices to the limit."""
    rng = np.random.default_rng(seed)
    parts = [np.diff([0, *np.sort(rng.choice(np.arange(1, FULL_US), 3, replace=False)), FULL_US]) for _ in range(5)]
    time = rng.permutation(np.concatenate(parts)).astype(float)
    return plain_problem(np.stack([time, time], axis=1)[:, None], hbm_capacity=np.full(5, 100), unit_hbm_bytes=1)


def filled(seed: int) -> bool:
    """Whether one dive fills all devices."""
    problem = just_filled(seed)
    everything = np.ones(problem.num_options, dtype=bool)
    dive = Dive(problem, device_classes(problem)[0], everything, np.full(2, float(FULL_US)), {}, np.random.default_rng(seed), 3.0)
    found = finished(dive, 20 * EFFORT)
    assert found is None or objective_us(problem, loads_of(problem, found)) == 2 * FULL_US
    return found is not None


def test_a_dive_that_finds_no_way_on_makes_its_last_choice_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(filled(seed) for seed in SEEDS) > 0.9 * len(SEEDS)
    monkeypatch.setattr("emplace.solver.heuristics.dive.MOST_DEAD_ENDS", 0)
    assert sum(filled(seed) for seed in SEEDS) < 0.9 * len(SEEDS)


def test_a_program_that_leaves_many_devices_goes_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that leaves none as far as before."""
    steps: dict[tuple[int, float], int] = {}
    for devices, ample in product((5, 40), (0.0, 0.97)):
        monkeypatch.setattr("emplace.solver.heuristics.dive_program.AMPLE", ample)
        problem, meter = just_filled(0), StepMeter(20 * EFFORT)
        given = replace(device_classes(problem)[0], devices=np.arange(devices))
        everything, upper = np.ones(problem.num_options, dtype=bool), np.full(2, float(FULL_US))
        groups = [OpenDevices(list(range(devices)), ())]
        program = DiveProgram(given, upper, groups, everything, np.ones(problem.num_tables), {}, meter)
        list(program.solve())
        steps[devices, ample] = meter.steps
    assert steps[40, 0.97] < steps[40, 0.0]
    assert steps[5, 0.97] == steps[5, 0.0]


def in_vain(meter: StepMeter) -> Iterator[None]:
    """A dive that finds nothing."""
    meter.spend(100)
    yield


def test_with_several_stages_less_is_looked_for_once_enough_steps_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dive, "run", lambda _, meter: in_vain(meter))
    problem, start = next((problem, start) for seed in SEEDS if (start := worst(problem := alike(seed, stages=3))) is not None)
    bounder = Bounder(problem)
    for steps, reach in ((10**18, REACH), (1, REACH / 2)):
        monkeypatch.setattr("emplace.solver.heuristics.diving.PATIENCE_STEPS", steps)
        dives = Dives(problem, bounder, bounder.bound(), 0, StepMeter(EFFORT))
        assert not any(dives.improve(start, bounder.bound().value_us))
        assert dives.reach == reach


@pytest.mark.parametrize("frees", [False, True])
def test_held_tables_have_what_they_had_and_the_others_take_single_devices(frees: bool) -> None:
    held_of_all = 0
    for problem, start in [(problem, start) for problem in (alike(seed, shared=True) for seed in SEEDS) if (start := worst(problem))]:
        held = held_tables(problem, start, frees=frees)
        may = dive_options(problem, start, held)
        single = problem.option_scope == Scope.DEVICE
        for table, option in enumerate(start.option):
            of_table = problem.option_table == table
            assert held[table] == (not single[option] and not (frees and (single & of_table).any()))
            taken = np.arange(problem.num_options) == option if held[table] else single & of_table
            assert np.array_equal(may & of_table, taken)
        held_of_all += int(held.sum())
    assert held_of_all > 5


def test_dives_that_keep_a_part_find_better_plans_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.heuristics.diving.WHOLE", 1.0)
    steps = [
        len(bettered(problem, start, StepMeter(EFFORT // 3))[1])
        for problem in map(alike, range(12))
        if (start := worst(problem)) is not None
    ]
    assert sum(each > 1 for each in steps) > len(steps) / 2


def test_the_same_seed_finds_the_same() -> None:
    problem, start = next((problem, start) for problem in map(alike, SEEDS) if (start := worst(problem)) is not None)
    one, other = bettered(problem, start, StepMeter(EFFORT))[0], bettered(problem, start, StepMeter(EFFORT))[0]
    assert np.array_equal(one.option, other.option)
    assert one.targets == other.targets


def test_ends_where_the_effort_does_or_someone_asks() -> None:
    problem, start = next((problem, start) for problem in map(alike, SEEDS) if (start := worst(problem)) is not None)
    for effort in (StepMeter(1), StepMeter(EFFORT, lambda: True)):
        assert bettered(problem, start, effort)[1] == [objective_us(problem, loads_of(problem, start))]
        assert effort.ended


def test_only_with_devices_and_units_alike() -> None:
    problem, start = next((problem, start) for problem in map(alike, SEEDS) if (start := worst(problem)) is not None)
    assert divable(problem, start)
    assert not divable(replace(problem, hbm_capacity=problem.hbm_capacity + np.arange(problem.num_devices)), start)
    two = next(each for each in map(random_problem, range(60)) if each.num_kinds == 2 and worst(each) is not None)
    plan = worst(two)
    assert plan is not None
    assert not divable(two, plan)


@pytest.mark.parametrize("seed", SEEDS)
def test_devices_filled_at_once_hold_every_unit_once(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("emplace.solver.heuristics.dive.AT_ONCE", 1)
    monkeypatch.setattr("emplace.solver.heuristics.dive.HALF", 0.1)
    problem = alike(seed)
    start = worst(problem)
    if start is None:
        return
    plan, _ = bettered(problem, start, StepMeter(EFFORT // 3))
    for option, targets in zip(plan.option, plan.targets, strict=True):
        assert len(set(targets)) == len(targets) == np.diff(problem.option_first_unit)[option]
