"""The bound from stages that last whole steps, against every assignment there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from emplace.solver.model.problem import Floats, Ints, Problem, Scope
from emplace.solver.presolve.granularity import common_divisor
from emplace.solver.relaxation.bound import Bounder
from tests.solver.brute_force import optimum_us
from tests.solver.plain_problems import plain_problem

STEP_US = 10.0
SEEDS = range(150)


def _stepped(seed: int) -> Problem:
    """3-5 tables on 2-3 like devices, on one node or two of unequal size: single devices' loads in stage 0 are whole steps; those of
    options on a node or on all devices eighths of one, just above whole ones, or anything."""
    random = np.random.default_rng(seed)
    devices, tables = int(random.integers(2, 4)), int(random.integers(3, 6))
    scopes = [[Scope.DEVICE, Scope(int(random.integers(0, 3)))][: int(random.integers(1, 3))] for _ in range(tables)]
    table = np.repeat(np.arange(tables), [len(each) for each in scopes])
    scope = np.concatenate(scopes).astype(np.int64)
    single, options = scope == Scope.DEVICE, len(scope)
    whole = random.integers(1, 4, options) * STEP_US
    eighths, close = (
        random.integers(1, 20, options) * STEP_US / 8,
        random.integers(0, 2, options) * STEP_US + random.uniform(0, 0.6, options),
    )
    other = (eighths, close, random.uniform(1, 25, options))[seed % 3]
    times = np.stack([np.where(single, whole, other), random.uniform(1, 12, options)], axis=1)
    node = np.array([0, 0, 1])[:devices]
    return replace(
        _with(times, table, scope, node),
        hbm_capacity=np.full(devices, int(random.integers(20, 60))),
        constant_us=float(random.uniform(0, 5)),
        stage_base_us=random.uniform(0, 3, 2),
        unit_hbm_bytes=random.integers(0, 20, (options, 1)),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_never_exceeds_the_optimum(seed: int) -> None:
    problem = _stepped(seed)
    assert Bounder(problem).bound().value_us <= optimum_us(problem) * (1 + 1e-9)


def test_is_the_best_bound_of_many_of_these_problems() -> None:
    names = [Bounder(_stepped(seed)).bound().name for seed in SEEDS]
    assert 20 < sum(name.endswith("whole steps") for name in names) < len(SEEDS)


OTHER_US = [1.0, 2.3, 3.17, 4.41, 5.09, 1.7, 2.9, 3.6, 4.8, 1.3, 2.2]
"""Loads of the other stage: about as balanced with five tables on one device and six on the other as any way."""


def test_eleven_equal_tables_on_two_devices_take_six_steps() -> None:
    """Their mean is five and a half."""
    problem = _alike(steps=[1.0] * 11)
    bound = Bounder(problem).bound()
    assert bound.name.endswith("whole steps")
    assert bound.value_us == pytest.approx(6 * STEP_US + sum(OTHER_US) / 2, rel=2e-3)
    assert bound.value_us <= optimum_us(problem)


def test_where_loads_come_in_no_steps_nothing_is_gained() -> None:
    steps = 1.0 + 0.03 * np.random.default_rng(0).random(11)
    assert not Bounder(_alike(steps.tolist())).bound().name.endswith("whole steps")


@pytest.mark.parametrize(
    ("tables", "devices", "load", "higher"),
    [
        (200, 32, 0.8, 1.001),
        # Options that only a plan as slow as the first case could have would let the second one be as fast as without steps.
        (2000, 128, 0.95, 1.003),
    ],
)
def test_raises_the_bound_of_a_model_on_many_devices(tables: int, devices: int, load: float, higher: float) -> None:
    """The steps of its exchange of outputs are 16 columns: without them, the same loads a little off whole steps have a lower bound."""
    problem = draw(Case("many", tables, devices, load, stages=5))
    uneven = problem.unit_time_us * (1 - 1e-4 * np.random.default_rng(0).random(problem.unit_time_us.shape))
    stepped, smooth = Bounder(problem).bound(), Bounder(replace(problem, unit_time_us=uneven)).bound()
    assert stepped.name.endswith("whole steps")
    assert stepped.value_us > smooth.value_us * higher


def test_common_divisor_is_the_largest_number_that_divides_all() -> None:
    assert common_divisor(np.array([6.0, 9.0, 15.0]) * 1.3, 12.0) == pytest.approx(3 * 1.3)
    assert common_divisor(np.array([6.0, 9.0, np.pi]), 12.0) == 0.0
    assert common_divisor(np.zeros(3), 0.0) == 0.0


def _alike(steps: list[float]) -> Problem:
    """Tables with one option, of one device, on two devices with room for all."""
    times = np.stack([np.array(steps) * STEP_US, np.array(OTHER_US)], axis=1)
    return _with(times, np.arange(len(times)), np.full(len(times), Scope.DEVICE), np.zeros(2, dtype=np.int64))


def _with(times: Floats, table: Ints, scope: Ints, node: Ints) -> Problem:
    """Like devices on `node` with room for all, options of one unit each."""
    return plain_problem(
        times[:, None, :],
        hbm_capacity=np.full(len(node), len(times)),
        unit_hbm_bytes=1,
        device_node=node,
        device_pool=node,
        ddr_capacity=np.zeros(len(np.unique(node)), dtype=np.int64),
        option_table=table,
        option_scope=scope,
    )


def test_above_whole_steps_a_stage_lasts_at_least_the_finest_part_of_one_more() -> None:
    """Four tables of four steps, and one that adds half a step to the devices of a node: a device with both lasts four and a half."""
    times = np.array([[4 * STEP_US, 0.0]] * 4 + [[3 * STEP_US, 0.0], [STEP_US / 2, 0.0]])
    scope = np.array([Scope.DEVICE] * 5 + [Scope.NODE])
    problem = _with(times, np.array([0, 1, 2, 3, 4, 4]), scope, np.array([0, 0, 1, 1]))
    bound = Bounder(problem).bound()
    assert optimum_us(problem) == pytest.approx(4.5 * STEP_US)
    assert bound.root.relaxation.bound == pytest.approx(4.25 * STEP_US)
    assert bound.value_us == pytest.approx(4.5 * STEP_US, rel=1e-3)
