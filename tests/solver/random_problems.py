"""Richer random tiny problems than brute_force's own: options of every kind, remote servers, several shapes of memory."""

from __future__ import annotations

import numpy as np

from emplace.solver.model.problem import Problem, Scope


def rich_problem(seed: int) -> Problem:
    """2-4 trainers on 1-2 nodes and up to 2 servers, 1-2 kinds of trainer, 2-4 tables with 1-4 options each."""
    rng = np.random.default_rng(seed)
    nodes, per_node, servers = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(0, 3))
    kinds = int(rng.integers(1, per_node + 1))
    trainers = nodes * per_node
    kind = np.concatenate([np.tile(np.arange(per_node) % kinds, nodes), np.full(servers, kinds)])
    groups = kinds + (servers > 0)
    stages = int(rng.integers(1, 4))
    table, scope, option_kind, first = [], [], [], [0]
    for index in range(int(rng.integers(2, 5 if trainers + servers < 4 else 4))):
        for _ in range(int(rng.integers(1, 5))):
            chosen = Scope(int(rng.choice([0, 0, 0, 1, 2])))
            on = int(rng.integers(0, groups)) if chosen is Scope.DEVICE else -1
            room = {Scope.DEVICE: int((kind == on).sum()), Scope.NODE: nodes, Scope.WORLD: 1}[chosen]
            table.append(index)
            scope.append(chosen)
            option_kind.append(on)
            first.append(first[-1] + int(rng.integers(1, min(room, 2) + 1)))
    units = first[-1]
    devices = trainers + servers
    # What is on a server adds to the trainers' time, and takes none of their memory.
    of_unit = np.repeat(np.array(option_kind), np.diff(first))
    holds = (of_unit < kinds)[:, None] | (of_unit[:, None] == np.arange(groups))
    tight = rng.uniform(0.6, 2.0)
    return Problem(
        device_kind=kind,
        device_node=np.concatenate([np.repeat(np.arange(nodes), per_node), nodes + np.arange(servers)]),
        device_is_trainer=np.arange(devices) < trainers,
        device_pool=np.concatenate([np.repeat(np.arange(nodes), per_node), nodes + np.arange(servers)]),
        hbm_capacity=(rng.integers(40, 120, devices) * tight).astype(np.int64),
        ddr_capacity=(rng.integers(60, 250, nodes + servers) * tight).astype(np.int64),
        constant_us=float(rng.uniform(0, 50)),
        stage_base_us=rng.uniform(0, 10, stages),
        option_table=np.array(table),
        option_scope=np.array(scope, dtype=np.int64),
        option_kind=np.array(option_kind),
        option_first_unit=np.array(first),
        unit_time_us=rng.uniform(0, 100, (units, groups, stages)) * (rng.random((units, groups, stages)) < 0.8),
        unit_hbm_bytes=rng.integers(0, 60, (units, groups)) * holds,
        unit_ddr_bytes=rng.integers(0, 60, (units, groups)) * (rng.random((units, groups)) < 0.5) * holds,
        allowed=rng.random((max(table) + 1, devices)) < 0.85 if rng.random() < 0.3 else None,
    )


def large_unit_problem(seed: int) -> Problem:
    """3-4 trainers, all alike, and 3-4 tables with 1-2 options each, mostly of equal units, of which some nearly fill a device in one stage."""
    rng = np.random.default_rng(seed)
    devices, stages = int(rng.integers(3, 5)), int(rng.integers(2, 4))
    nodes = int(rng.choice([each for each in (1, 2, devices) if devices % each == 0]))
    table, scope, units, times, bytes_ = [], [], [], [], []
    for index in range(3 if devices == 4 else 4):
        whole = rng.uniform(5, 60, stages)
        whole[0] = rng.choice([90.0, 100.0, 10.0, 5.0])
        for _ in range(int(rng.integers(1, 3))):
            chosen, pieces = Scope(int(rng.choice([0, 0, 0, 0, 1, 2]))), int(rng.integers(1, 3))
            pieces = min(pieces, {Scope.DEVICE: devices, Scope.NODE: nodes, Scope.WORLD: 1}[chosen])
            table.append(index)
            scope.append(chosen)
            units.append(pieces)
            # Ids go to every piece, the rest is shared out.
            share = (
                np.where(np.arange(stages) == 0, 1.0, 1.0 / pieces)
                * {Scope.DEVICE: 1.0, Scope.NODE: nodes / devices, Scope.WORLD: 1 / devices}[chosen]
            )
            each = whole * share * rng.uniform(1.0, 1.1)
            unlike = rng.random() < 0.1
            times += [each * (1.0 + 0.2 * unlike * piece) for piece in range(pieces)]
            bytes_ += [int(rng.integers(5, 40)) // pieces] * pieces
    return Problem(
        device_kind=np.zeros(devices, dtype=np.int64),
        device_node=np.repeat(np.arange(nodes), devices // nodes),
        device_is_trainer=np.ones(devices, dtype=bool),
        device_pool=np.repeat(np.arange(nodes), devices // nodes),
        hbm_capacity=rng.integers(30, 90, devices),
        ddr_capacity=np.full(nodes, 1000),
        constant_us=float(rng.uniform(0, 5)),
        stage_base_us=rng.uniform(0, 2, stages),
        option_table=np.array(table),
        option_scope=np.array(scope, dtype=np.int64),
        option_kind=np.where(np.array(scope) == Scope.DEVICE, 0, -1),
        option_first_unit=np.append(0, np.cumsum(units)),
        unit_time_us=np.array(times)[:, None],
        unit_hbm_bytes=np.array(bytes_)[:, None],
        unit_ddr_bytes=np.zeros((len(bytes_), 1), dtype=np.int64),
    )
