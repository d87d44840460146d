"""A problem laid out flat, for compiled code; and what that found, back in the problem's terms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem, Scope, loaded_devices


class FlatProblem(NamedTuple):
    """Constants of a search. L = K + 1 load columns: the stages, then HBM bytes. System memory is counted per pool.

    A target is a device (0..D-1), a trainer node (D..D+N-1) or all trainers (D+N). C options in all are candidates.
    """

    cover_first: Ints
    """[D + N + 2] devices that target t loads are cover_device[cover_first[t] : cover_first[t + 1]]; a device that is a target is its first."""
    cover_device: Ints
    kind: Ints
    """[D]"""
    pool: Ints
    """[D]"""
    group_first: Ints
    """[G + 3] targets of kind g are group_target[group_first[g] : group_first[g + 1]]; entry G holds the nodes, G + 1 all trainers."""
    group_target: Ints
    allowed: Bools
    """[T, D + N + 1], or [1, D + N + 1] where every table may go anywhere."""
    candidate_first: Ints
    """[T + 1]"""
    candidate: Ints
    option_first_unit: Ints
    """[O + 1]"""
    option_group: Ints
    """[O] index into group_first: the kind, G for nodes, G + 1 for all trainers."""
    option_price: Floats
    """[O] soft cost of choosing the option."""
    unit_load: Floats
    """[U, G, L]"""
    unit_ddr: Floats
    """[U, G]"""
    slot_first: Ints
    """[T + 1] slots of table t are slot_first[t] .. slot_first[t + 1] - 1, as many as its widest option has units."""
    slot_table: Ints
    """[S]"""


def flatten(problem: Problem) -> FlatProblem:
    """Flatten `problem`, with every option a candidate at no price."""
    devices, kinds = problem.num_devices, problem.num_kinds
    trainers = np.flatnonzero(problem.device_is_trainer)
    nodes = _trainer_nodes(problem)
    covers = [loaded_devices(problem, Scope.DEVICE, device) for device in range(devices)]
    covers += [trainers[problem.device_node[trainers] == node] for node in nodes]
    covers.append(trainers)
    groups = [np.flatnonzero(problem.device_kind == kind) for kind in range(kinds)]
    groups.append(np.arange(devices, devices + len(nodes)))
    groups.append(np.array([devices + len(nodes)]))
    first = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
    widest = np.maximum.reduceat(np.diff(problem.option_first_unit), first[:-1])
    group = np.select([problem.option_scope == Scope.DEVICE, problem.option_scope == Scope.NODE], [problem.option_kind, kinds], kinds + 1)
    return FlatProblem(
        cover_first=np.concatenate([[0], np.cumsum([len(cover) for cover in covers])]),
        cover_device=np.concatenate(covers),
        kind=problem.device_kind,
        pool=problem.device_pool,
        group_first=np.concatenate([[0], np.cumsum([len(targets) for targets in groups])]),
        group_target=np.concatenate(groups),
        allowed=_allowed_targets(problem, [*np.arange(devices)[:, None], *covers[devices:]]),
        candidate_first=first,
        candidate=np.arange(problem.num_options),
        option_first_unit=problem.option_first_unit,
        option_group=group,
        option_price=np.zeros(problem.num_options),
        unit_load=np.concatenate([problem.unit_time_us, problem.unit_hbm_bytes[:, :, None].astype(np.float64)], axis=2),
        unit_ddr=problem.unit_ddr_bytes.astype(np.float64),
        slot_first=np.concatenate([[0], np.cumsum(widest)]),
        slot_table=np.repeat(np.arange(problem.num_tables), widest),
    )


def restricted(problem: Problem, flat: FlatProblem, candidates: Bools, price: Floats) -> FlatProblem:
    """The same, with only some options ([O], at least one a table) to change to, at these prices ([O])."""
    chosen = np.flatnonzero(candidates)
    first = np.searchsorted(problem.option_table[chosen], np.arange(problem.num_tables + 1))
    return flat._replace(candidate_first=first, candidate=chosen, option_price=price)


def _trainer_nodes(problem: Problem) -> Ints:
    return np.unique(problem.device_node[problem.device_is_trainer])


def _allowed_targets(problem: Problem, covers: list[Ints]) -> Bools:
    if problem.allowed is None:
        return np.ones((1, len(covers)), dtype=bool)
    allowed = problem.allowed
    return np.stack([np.all(allowed[:, cover], axis=1) for cover in covers], axis=1)


def to_assignment(problem: Problem, flat: FlatProblem, option: Ints, target: Ints) -> Assignment:
    """In the terms of the problem: node numbers for NODE units, -1 for WORLD."""
    devices, nodes = problem.num_devices, _trainer_nodes(problem)
    name = np.concatenate([np.arange(devices), nodes, [-1]])
    units = np.diff(problem.option_first_unit)
    targets = tuple(
        tuple(int(name[t]) for t in target[first : first + units[o]]) for first, o in zip(flat.slot_first[:-1], option, strict=True)
    )
    return Assignment(option.copy(), targets)


def from_assignment(problem: Problem, flat: FlatProblem, assignment: Assignment) -> tuple[Ints, Ints]:
    """([T] option, [S] target) in the terms of the flat problem; -1 for tables without an option, or with a target they may not have."""
    chosen, target = assignment.option.copy(), np.full(len(flat.slot_table), -1)
    node = {int(name): place for place, name in enumerate(_trainer_nodes(problem).tolist(), start=problem.num_devices)}
    world = len(flat.cover_first) - 2
    for table, (option, targets) in enumerate(zip(assignment.option.tolist(), assignment.targets, strict=True)):
        if option >= 0:
            scope, first = Scope(problem.option_scope[option]), int(flat.slot_first[table])
            places = [each if scope is Scope.DEVICE else node[each] if scope is Scope.NODE else world for each in targets]
            if flat.allowed[table % len(flat.allowed), places].all():
                target[first : first + len(places)] = places
            else:
                chosen[table] = -1
    return chosen, target
