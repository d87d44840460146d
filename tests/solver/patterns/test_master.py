"""The covering program, while it grows and its limits change, against one that is built at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.patterns.master import Load, PatternMaster, Shared

TABLES, CLASSES, STAGES = 6, 2, 3
MISSING_PRICE, PATTERN_PRICE = 7.0, 1.0
DEVICES = np.array([3, 2])
"""How many there are of each class; a class is a kind."""
Pattern = tuple[int, Ints, Floats, Load]


def drawn(rng: np.random.Generator) -> Pattern:
    number = int(rng.integers(CLASSES))
    tables = np.flatnonzero(rng.random(TABLES) < 0.4)
    coverage = rng.choice([0.25, 0.5, 1.0], len(tables))
    return number, tables, coverage, Load(number, rng.choice([0.0, 0.3, 1.0], STAGES), float(rng.choice([0.0, 0.2])))


def at_once(patterns: list[Pattern], allowed: Bools, required: Floats, devices: Ints, limits: tuple[Floats, Floats, float]) -> float:
    """The optimum over missing tables, makespans and patterns."""
    lower, upper, budget = limits
    first = TABLES + STAGES
    above, below = np.zeros((TABLES, first + len(patterns))), np.zeros((CLASSES + 2 + CLASSES * STAGES, first + len(patterns)))
    above[:, :TABLES] = np.eye(TABLES)
    below[CLASSES + 1, TABLES:first] = 1.0
    for kind in range(CLASSES):
        below[CLASSES + 2 + kind * STAGES + np.arange(STAGES), TABLES + np.arange(STAGES)] = -DEVICES[kind]
    for column, (number, tables, coverage, load) in enumerate(patterns, first):
        above[tables, column] = coverage
        below[number, column] = 1.0
        below[CLASSES, column] = load.ddr
        below[CLASSES + 2 + load.kind * STAGES + np.arange(STAGES), column] = load.time
    cost = np.concatenate([np.full(TABLES, MISSING_PRICE), np.zeros(STAGES), np.full(len(patterns), PATTERN_PRICE)])
    bounds = [(0, None)] * TABLES + list(zip(lower, upper, strict=True)) + [(0, None if each else 0) for each in allowed]
    rest = np.concatenate([devices, [1.0, budget], np.zeros(CLASSES * STAGES)])
    optimum = linprog(cost, np.vstack([-above, below]), np.append(-required, rest), bounds=bounds).fun
    assert optimum is not None
    return optimum


@pytest.mark.parametrize("seed", range(20))
def test_it_has_the_optimum_after_every_change(seed: int) -> None:
    rng, patterns = np.random.default_rng(seed), list[Pattern]()
    master = PatternMaster(TABLES, CLASSES, missing_price=MISSING_PRICE, pattern_price=PATTERN_PRICE, shared=Shared(DEVICES, STAGES))
    required, devices, allowed = np.ones(TABLES), DEVICES, np.empty(0, dtype=bool)
    limits = np.zeros(STAGES), np.full(STAGES, 2.0), 3.0
    master.require(required)
    master.limit_devices(devices)
    master.limit_makespans(*limits)
    for change in range(12):
        for pattern in [drawn(rng) for _ in range(3)]:
            patterns.append(pattern)
            master.add(*pattern)
        allowed = np.append(allowed, np.ones(3, dtype=bool))
        if change % 3 == 1:
            required, devices = rng.choice([0.0, 0.5, 1.0], TABLES), rng.integers(1, 4, CLASSES)
            master.require(required)
            master.limit_devices(devices)
        if change % 3 == 2:
            limits = rng.uniform(0.0, 0.5, STAGES), rng.uniform(0.5, 1.5, STAGES), 3.0
            allowed = rng.random(len(patterns)) < 0.7
            master.limit_makespans(*limits)
            master.allow(allowed)
        assert master.solve()
        assert master.value == pytest.approx(at_once(patterns, allowed, required, devices, limits), abs=1e-6)
        value = MISSING_PRICE * master.missing() + PATTERN_PRICE * float(master.amounts().sum())
        assert value == pytest.approx(master.value, abs=1e-6)
        assert not master.amounts()[~allowed].any()
        assert (master.makespans() >= limits[0] - 1e-6).all()


@pytest.mark.parametrize("little", [1e-3, -1e-3])
@pytest.mark.parametrize("seed", range(10))
def test_prices_say_at_least_what_a_little_more_or_less_of_a_limit_costs(seed: int, little: float) -> None:
    rng = np.random.default_rng(seed)
    patterns = [drawn(rng) for _ in range(12)]

    def solved(required: Floats, devices: Ints) -> PatternMaster:
        master = PatternMaster(TABLES, CLASSES, missing_price=MISSING_PRICE, pattern_price=PATTERN_PRICE, shared=Shared(DEVICES, STAGES))
        for pattern in patterns:
            master.add(*pattern)
        master.require(required)
        master.limit_devices(devices)
        master.limit_makespans(np.zeros(STAGES), np.full(STAGES, 0.6), 1.2)
        assert master.solve()
        return master

    required, devices = np.full(TABLES, 0.9), DEVICES
    master = solved(required, devices)
    for table, price in enumerate(master.table_prices()):
        cost = solved(required + little * np.eye(TABLES)[table], devices).value - master.value
        assert cost >= little * price - 1e-9
    for number, price in enumerate(master.device_prices()):
        more = 1 if little > 0 else -1
        cost = solved(required, devices + more * (np.arange(CLASSES) == number)).value - master.value
        assert cost >= -more * price - 1e-9
    assert master.table_prices().any()
