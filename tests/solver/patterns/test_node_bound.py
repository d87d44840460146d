"""Patterns of several stages, where the price of time enters the certificate, against every assignment there is."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from emplace.solver.model.problem import Problem
from emplace.solver.patterns.device_classes import MakespanBox
from emplace.solver.patterns.node_bound import PatternBound
from tests.solver.plain_problems import plain_problem

SEEDS = range(80)


@cache
def staged(seed: int) -> Problem:
    """3-4 devices, alike or of two kinds, 2-3 stages, 6-7 tables whole on one device, each stage with work of other tables."""
    rng = np.random.default_rng(seed)
    stages, tables = int(rng.integers(2, 4)), int(rng.integers(6, 8))
    devices = 3 if tables == 7 else int(rng.integers(3, 5))
    kinds = 2 if seed % 3 == 2 else 1
    time = rng.uniform(1, 10, (tables, kinds, stages)) * (rng.random((tables, 1, stages)) < 0.7)
    hbm = rng.integers(10, 60, tables)
    dealt = np.bincount(np.arange(tables) % devices, hbm)
    return plain_problem(
        np.repeat(time, kinds, axis=0),
        hbm_capacity=np.full(devices, int(dealt.max() * rng.uniform(1.0, 2.0))),
        unit_hbm_bytes=np.repeat(hbm, kinds)[:, None],
        device_kind=np.arange(devices) % kinds,
        option_table=np.repeat(np.arange(tables), kinds),
        option_kind=np.tile(np.arange(kinds), tables),
    )


@cache
def makespans(seed: int) -> np.ndarray:
    """[assignments that fit, stages] the longest time of a device."""
    problem = staged(seed)
    first = np.arange(problem.num_tables) * problem.num_kinds
    found = []
    for targets in map(np.array, product(range(problem.num_devices), repeat=problem.num_tables)):
        on = targets[:, None] == np.arange(problem.num_devices)
        if (on.T @ problem.unit_hbm_bytes[first, 0] <= problem.hbm_capacity).all():
            times = problem.unit_time_us[first, problem.device_kind[targets]]
            found.append((on[:, :, None] * times[:, None]).sum(axis=0).max(axis=0))
    return np.array(found)


def refuted(seed: int, window: MakespanBox) -> bool:
    problem = staged(seed)
    return PatternBound(problem).bound(np.ones(problem.num_options, dtype=bool), window).is_infeasible


def windows(seed: int) -> list[tuple[MakespanBox, float]]:
    """The box of all placements, and boxes of those whose stages take within half and one and a half times what one of them takes; the best value in each."""
    every, rng = makespans(seed), np.random.default_rng(1000 + seed)
    stages = every.shape[1]
    best = float(every.sum(axis=1).min())
    found = [(MakespanBox(np.zeros(stages), np.full(stages, best * 2), best), best)]
    for of in every[rng.integers(0, len(every), 8)]:
        lower, upper = of * rng.uniform(0.5, 1.0, stages), of * rng.uniform(1.0, 1.5, stages)
        inside = every[((every >= lower) & (every <= upper)).all(axis=1)]
        within = float(inside.sum(axis=1).min())
        found.append((MakespanBox(lower, upper, within), within))
    return found


def at(window: MakespanBox, value: float) -> MakespanBox:
    return MakespanBox(window.lower, np.minimum(window.upper, value), value)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_exists_is_never_refuted(seed: int) -> None:
    for window, best in windows(seed):
        for share in (1 + 1e-9, 1.05):
            assert not refuted(seed, at(window, best * share))


def test_values_a_tenth_below_the_best_are_mostly_refuted() -> None:
    below = [refuted(seed, at(window, best * 0.9)) for seed in SEEDS for window, best in windows(seed)]
    assert sum(below) > 0.55 * len(below)
