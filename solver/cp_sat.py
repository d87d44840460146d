"""The integer program by CP-SAT, which wants integers: times are rounded down at a fine scale, so its bound holds for the
true times; bytes are exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from emplace.solver.budget import COUNTED_LITERAL_S, COUNTED_OPTION_S, COUNTED_UNIT_S, DETERMINISTIC_PER_SECOND, Budget
from emplace.solver.model.problem import Assignment, Bools, Ints, Problem, Scope, loaded_devices, loads_of, objective_us, target_devices
from emplace.solver.or_tools import cp_model
from emplace.solver.progress import Monitor, ShouldStop
from emplace.solver.result import Result, settled

_TICKS = 2**30
"""The longest stage in CP-SAT's ticks: rounding loses at most a tick a table and stage."""
_WORKERS = 1
"""One, which takes the strategies in turn, so that the answer does not depend on the machine. Four in step with one another
closed less of the gap for the same work (measured on m2 and criteo-kaggle)."""
_LEFT_OUT = ("core", "reduced_costs")
"""CP-SAT's strategies that are not used: on objectives with wide domains `core` may never return and `reduced_costs` takes very
long (ortools 9.15)."""
_POLL_SECONDS = 0.05
"""Between two looks at whether to stop."""


def by_cp_sat(
    problem: Problem, budget: Budget, monitor: Monitor, hint: Assignment | None = None, below_us: float = math.inf
) -> Result[Assignment]:
    """The best assignment with an objective up to `below_us`, from `hint`; infeasible where it is proven that there is none."""
    try:
        model = _Model(problem, monitor.stopped)
    except _Stopped:
        return Result(None, math.inf, 0.0, "cp-sat", monitor.limit)
    if hint is not None:
        model.hint(hint)
    if math.isfinite(below_us):
        model.cp.add(sum(model.spans) <= math.floor((below_us - problem.constant_us) * model.per_us))
    solver = new_solver()
    solver.parameters.interleave_search = True
    solver.parameters.random_seed = budget.seed
    solver.parameters.max_deterministic_time = budget.seconds * DETERMINISTIC_PER_SECOND
    solver.parameters.relative_gap_limit = budget.gap
    solver.parameters.max_time_in_seconds = monitor.clock.left_s
    watch = _Watch(model, monitor)
    solver.parameters.ignore_subsolvers.extend(_LEFT_OUT)
    solver.best_bound_callback = watch.on_bound
    status = solve_until(monitor.stopped, solver, model.cp, watch)
    counted_s = model.counted_s + COUNTED_UNIT_S * solver.response_proto.deterministic_time
    if status == cp_model.INFEASIBLE:
        return Result.infeasible("cp-sat", counted_s=counted_s)
    bound_us = model.microseconds(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Result(None, math.inf, bound_us, "cp-sat", monitor.limit, counted_s=counted_s)
    assignment = model.read(solver)
    objective = objective_us(problem, loads_of(problem, assignment))
    limit = settled(objective, bound_us) if status == cp_model.OPTIMAL else monitor.limit
    return Result(assignment, objective, min(bound_us, objective), "cp-sat", limit, counted_s=counted_s)


def least_counted_s(problem: Problem) -> float:
    """About what building the program counts for, of options that load single devices; without building it."""
    devices = np.full(problem.num_tables, problem.num_devices) if problem.allowed is None else problem.allowed.sum(axis=1)
    literals = float((np.diff(problem.option_first_unit) * devices[problem.option_table]).sum())
    return COUNTED_LITERAL_S * literals * (problem.num_stages + 3) + COUNTED_OPTION_S * problem.num_options


def new_solver() -> cp_model.CpSolver:
    """One that leaves Ctrl-C alone: with a handler of its own, CP-SAT takes it away from whoever had it, for good."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = _WORKERS
    solver.parameters.catch_sigint_signal = False
    return solver


def solve_until(
    should_stop: ShouldStop, solver: cp_model.CpSolver, model: cp_model.CpModel, watch: cp_model.CpSolverSolutionCallback | None = None
) -> cp_model.CpSolverStatus:
    """The status. CP-SAT may be silent for long, so it works on a thread of its own, and this one hears who asks to stop, and Ctrl-C."""
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(solver.solve, model, watch)
        try:
            while not wait([running], _POLL_SECONDS).done:
                if should_stop():
                    solver.stop_search()
        finally:
            while not running.done():
                solver.stop_search()
                wait([running], _POLL_SECONDS)
        return running.result()


@dataclass
class _Place:
    """Some equal units of one option on one target: a variable that is 1 where the target has one of them."""

    unit: int
    target: int
    taken: cp_model.IntVar


@dataclass
class _Terms:
    """What may lie on one device: the units, and the variables that say whether they do."""

    units: list[int] = field(default_factory=list)
    taken: list[cp_model.IntVar] = field(default_factory=list)

    def add(self, place: _Place) -> None:
        self.units.append(place.unit)
        self.taken.append(place.taken)

    def weighted(self, per_unit: Ints) -> cp_model.LinearExpr:
        """The sum of what the units that are taken add."""
        weights = per_unit[self.units]
        used = np.flatnonzero(weights)
        return cp_model.LinearExpr.weighted_sum([self.taken[index] for index in used.tolist()], weights[used].tolist())


@dataclass
class _Chosen:
    """One option: whether it is taken, and where its units go."""

    taken: cp_model.IntVar
    places: list[_Place] = field(default_factory=list)


class _Stopped(Exception):
    """Before the model was built."""


class _Model:
    """Booleans for options and targets, one makespan for each stage."""

    def __init__(self, problem: Problem, should_stop: ShouldStop) -> None:
        """Raises _Stopped."""
        self.problem, self.should_stop = problem, should_stop
        self.cp = cp_model.CpModel()
        self.per_us = _TICKS / max(float(problem.unit_time_us.max(initial=0.0)), float(problem.stage_base_us.max(initial=0.0)), 1e-9)
        self.options = [self._option(option) for option in range(problem.num_options)]
        bounds = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
        for first, end in pairwise(bounds):
            self.cp.add_exactly_one([chosen.taken for chosen in self.options[first:end]])
        self._add_loads()

    @property
    def counted_s(self) -> float:
        """What building it counts for."""
        return COUNTED_LITERAL_S * self.literals + COUNTED_OPTION_S * len(self.options)

    def microseconds(self, ticks: float) -> float:
        """The step time that a sum of makespans in ticks stands for."""
        return self.problem.constant_us + ticks / self.per_us

    def _go_on(self) -> None:
        if self.should_stop():
            raise _Stopped

    def _option(self, option: int) -> _Chosen:
        self._go_on()
        problem, scope = self.problem, Scope(self.problem.option_scope[option])
        chosen = _Chosen(self.cp.new_bool_var(""))
        targets = _targets(problem, option)
        groups = list(_equal_units(problem, option))
        if len(targets) < sum(count for _, count in groups):
            self.cp.add(chosen.taken == 0)
        if scope is Scope.WORLD:
            chosen.places = [_Place(unit, -1, chosen.taken) for unit, _ in groups] if targets else []
            return chosen
        for unit, count in groups:
            places = [_Place(unit, target, self.cp.new_bool_var("")) for target in targets]
            self.cp.add(sum(place.taken for place in places) == count * chosen.taken)
            chosen.places += places
        if len(groups) > 1:
            for target in targets:
                self.cp.add_at_most_one(place.taken for place in chosen.places if place.target == target)
        return chosen

    def _add_loads(self) -> None:
        problem = self.problem
        terms = [_Terms() for _ in range(problem.num_devices)]
        covered: dict[tuple[int, int], list[int]] = {}
        for scope, chosen in zip(problem.option_scope.tolist(), self.options, strict=True):
            self._go_on()
            for place in chosen.places:
                target = scope, place.target
                if target not in covered:
                    covered[target] = loaded_devices(problem, Scope(scope), place.target).tolist()
                for device in covered[target]:
                    terms[device].add(place)
        self.literals = sum(len(each.taken) for each in terms) * (problem.num_stages + 3)
        times = np.floor(problem.unit_time_us * self.per_us).astype(np.int64)
        base = np.floor(problem.stage_base_us * self.per_us).astype(np.int64)
        self.spans = [self.cp.new_int_var(int(start), 2**50, "") for start in base]
        pools: list[list[cp_model.LinearExpr]] = [[] for _ in problem.ddr_capacity]
        for device, held in enumerate(terms):
            self._go_on()
            kind = problem.device_kind[device]
            for stage, span in enumerate(self.spans):
                self.cp.add(base[stage] + held.weighted(times[:, kind, stage]) <= span)
            self.cp.add(held.weighted(problem.unit_hbm_bytes[:, kind]) <= int(problem.hbm_capacity[device]))
            pools[problem.device_pool[device]].append(held.weighted(problem.unit_ddr_bytes[:, kind]))
        for pool, capacity in zip(pools, problem.ddr_capacity, strict=True):
            self.cp.add(sum(pool) <= int(capacity))
        self.cp.minimize(sum(self.spans))

    def hint(self, assignment: Assignment) -> None:
        """Start from this assignment."""
        for option, chosen in enumerate(self.options):
            table = self.problem.option_table[option]
            is_taken = assignment.option[table] == option
            self.cp.add_hint(chosen.taken, is_taken)
            first = int(self.problem.option_first_unit[option])
            units = {target: first + offset for offset, target in enumerate(assignment.targets[table])} if is_taken else {}
            for place in chosen.places:
                if place.target >= 0:
                    unit = units.get(place.target)
                    self.cp.add_hint(place.taken, unit is not None and _alike(self.problem, unit, place.unit))

    def read(self, solver: cp_model.CpSolver | cp_model.CpSolverSolutionCallback) -> Assignment:
        """The assignment that CP-SAT holds."""
        taken = [option for option, chosen in enumerate(self.options) if solver.boolean_value(chosen.taken)]
        targets = []
        for option in taken:
            places = self.options[option].places
            targets.append(tuple(place.target for place in places if solver.boolean_value(place.taken)))
        return Assignment(np.array(taken, dtype=np.int64), tuple(targets))


def _targets(problem: Problem, option: int) -> list[int]:
    """Targets that the option's units may take."""
    scope = Scope(problem.option_scope[option])
    if scope is Scope.DEVICE:
        candidates = np.flatnonzero(problem.device_kind == problem.option_kind[option]).tolist()
    elif scope is Scope.NODE:
        candidates = sorted(set(problem.device_node[problem.device_is_trainer].tolist()))
    else:
        candidates = [-1]
    if problem.allowed is None:
        return candidates
    allowed: Bools = problem.allowed[problem.option_table[option]]
    return [target for target in candidates if allowed[target_devices(problem, scope, target)].all()]


def _equal_units(problem: Problem, option: int) -> Iterator[tuple[int, int]]:
    """(first unit, count) of each run of equal units: interchangeable, so only how many a target set has matters."""
    first, end = int(problem.option_first_unit[option]), int(problem.option_first_unit[option + 1])
    start = first
    for unit in range(first + 1, end + 1):
        if unit == end or not _alike(problem, start, unit):
            yield start, unit - start
            start = unit


def _alike(problem: Problem, one: int, other: int) -> bool:
    return (
        np.array_equal(problem.unit_time_us[one], problem.unit_time_us[other])
        and np.array_equal(problem.unit_hbm_bytes[one], problem.unit_hbm_bytes[other])
        and np.array_equal(problem.unit_ddr_bytes[one], problem.unit_ddr_bytes[other])
    )


class _Watch(cp_model.CpSolverSolutionCallback):
    """Tells of incumbents and bounds."""

    def __init__(self, model: _Model, monitor: Monitor) -> None:
        super().__init__()
        self._model, self._monitor = model, monitor
        self._incumbent_us = math.inf

    def on_solution_callback(self) -> None:
        self._incumbent_us = self._model.microseconds(self.objective_value)
        self.on_bound(self.best_objective_bound)

    def on_bound(self, ticks: float) -> None:
        self._monitor.tell(self._incumbent_us, self._model.microseconds(ticks), "exact")
