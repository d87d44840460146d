"""Draws placement problems of a stated size, memory load and number of stages, without the rest of the solver.

Tables follow the ranges of Acun et al. (HPCA 2021, doi 10.1109/HPCA51647.2021.00072): hash sizes from 30 to 20 million,
mean lookups 17 to 49, lengths heavy-tailed across tables. Prices are bytes over round figures for bandwidths, stated below:
they make problems of the right shape, not predictions for a host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from emplace.solver.model.problem import Floats, Ints, Problem, Scope

GPU_BYTES_PER_US = 1.5e6
HOST_LINK_BYTES_PER_US = 25e3
NODE_LINK_BYTES_PER_US = 300e3
NETWORK_BYTES_PER_US = 25e3
LAUNCH_US = 5.0
OUTPUT_BYTES = 4
ID_BYTES = 8
STAGES = 5
"""Input distribution, lookup forward, output and gradient distribution together, lookup backward, all-reduce."""

CACHE_HIT_RATES = np.linspace(0.1, 0.95, 10)


@dataclass(frozen=True)
class Case:
    """One problem to draw. `hbm_load` is the bytes of all tables over the HBM of all devices."""

    name: str
    tables: int
    devices: int
    hbm_load: float
    seed: int = 1
    stages: int = STAGES
    kinds: int = 1
    uvm: bool = True
    mean_rows: float = 4.1e6
    mean_pooling: float = 15.0
    dims: tuple[int, ...] = (16, 32, 64, 128)
    ddr_load: float = 0.5
    """The bytes of all tables over all system memory."""
    local_batch: int = 1024
    devices_per_node: int = 8
    seconds: float = 10.0
    """The limit of the solve in the benchmark."""


@dataclass
class _Options:
    """Rows of the arrays of a Problem, as they are drawn."""

    table: list[int] = field(default_factory=list)
    scope: list[Scope] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    time: list[Floats] = field(default_factory=list)
    hbm: list[Ints] = field(default_factory=list)
    ddr: list[Ints] = field(default_factory=list)


@dataclass(frozen=True)
class _Table:
    rows: int
    dim: int
    pooling: float
    skew: float

    @property
    def bytes(self) -> int:
        return self.rows * (self.dim + 1) * OUTPUT_BYTES

    def rows_hit(self, hit_rate: float) -> int:
        """Rows whose accesses make up `hit_rate`: a power-law access distribution."""
        return max(1, int(self.rows * hit_rate**self.skew))


def draw(case: Case) -> Problem:
    """The problem of a case; the same case gives the same problem."""
    rng = np.random.default_rng(case.seed)
    tables = _tables(case, rng)
    nodes = max(1, case.devices // case.devices_per_node)
    kinds = np.arange(case.devices) % case.kinds
    speed = 1.0 / (1.0 + 0.8 * np.arange(case.kinds, dtype=np.float64))
    total = sum(table.bytes for table in tables)
    share = np.where(kinds == 0, 1.0, 0.6)
    options = _Options()
    for index, table in enumerate(tables):
        for scope, kind, pieces in _options_of(case, table, nodes, speed):
            times, hbm, ddr = zip(*pieces, strict=True)
            options.table.append(index)
            options.scope.append(scope)
            options.kind.append(kind)
            options.units.append(len(pieces))
            options.time.append(np.array(times))
            options.hbm.append(np.array(hbm, dtype=np.int64))
            options.ddr.append(np.array(ddr, dtype=np.int64))
    time = np.concatenate(options.time)
    if case.stages == 1:
        time = time.sum(axis=2, keepdims=True)
    return Problem(
        device_kind=kinds.astype(np.int64),
        device_node=np.arange(case.devices) // (case.devices // nodes),
        device_is_trainer=np.ones(case.devices, dtype=bool),
        device_pool=np.arange(case.devices) // (case.devices // nodes),
        hbm_capacity=(total / case.hbm_load * share / share.sum()).astype(np.int64),
        ddr_capacity=np.full(nodes, int(total / case.ddr_load / nodes)),
        constant_us=500.0,
        stage_base_us=np.full(case.stages, 20.0),
        option_table=np.array(options.table),
        option_scope=np.array(options.scope, dtype=np.int64),
        option_kind=np.array(options.kind),
        option_first_unit=np.concatenate([[0], np.cumsum(options.units)]),
        unit_time_us=np.ascontiguousarray(time),
        unit_hbm_bytes=np.concatenate(options.hbm),
        unit_ddr_bytes=np.concatenate(options.ddr),
    )


def _tables(case: Case, rng: np.random.Generator) -> list[_Table]:
    rows = np.clip(rng.lognormal(0.0, 1.5, case.tables), 1e-4, None)
    rows = np.clip(rows / rows.mean() * case.mean_rows, 30, 20e6).astype(int)
    pooling = np.clip(rng.lognormal(0.0, 1.1, case.tables), 0.02, None)
    pooling = np.clip(pooling / pooling.mean() * case.mean_pooling, 1.0, 1000.0)
    dims = rng.choice(case.dims, case.tables)
    skew = rng.uniform(1.5, 6.0, case.tables)
    return [_Table(int(r), int(d), float(p), float(s)) for r, d, p, s in zip(rows, dims, pooling, skew, strict=True)]


Piece = tuple[Floats, Ints, Ints]
"""A unit's time [G, K], HBM bytes [G] and DDR bytes [G] on G kinds of device in K stages."""


def _options_of(case: Case, table: _Table, nodes: int, speed: Floats) -> Iterator[tuple[Scope, int, list[Piece]]]:
    hits = [1.0, *CACHE_HIT_RATES, 0.0] if case.uvm else [1.0]
    splits = [p for p in (1, 2, 4, 8, 16) if p <= case.devices and table.dim % (4 * p) == 0 and table.dim // p >= 16]
    for pieces in splits:
        for hit in hits if pieces <= 2 else [1.0]:
            for kind in range(case.kinds):
                yield Scope.DEVICE, kind, [_piece(case, table, nodes, speed, hit, 1.0, 1 / pieces)] * pieces
    for hit in (1.0, 0.0) if case.uvm else (1.0,):
        yield Scope.WORLD, -1, [_piece(case, table, nodes, speed, hit, 1 / case.devices, 1.0)]
    local = case.devices // nodes
    if nodes > 1:
        for pieces in (1, 2):
            if pieces <= nodes and table.dim % (4 * pieces) == 0:
                yield Scope.NODE, -1, [_piece(case, table, nodes, speed, 1.0, 1 / local, 1 / pieces)] * pieces
    if table.bytes < 64e6:
        yield Scope.WORLD, -1, [_replica(case, table, nodes, speed)]


def _piece(case: Case, table: _Table, nodes: int, speed: Floats, hit: float, row_share: float, column_share: float) -> Piece:
    """A shard with these shares of rows and columns, `hit` of its lookups served from HBM."""
    batch = case.local_batch * case.devices
    lookups = batch * table.pooling * row_share
    row_bytes = table.dim * column_share * OUTPUT_BYTES
    link = 1 / (NODE_LINK_BYTES_PER_US if nodes == 1 else NETWORK_BYTES_PER_US)
    read = lookups * row_bytes * (hit / (GPU_BYTES_PER_US * speed) + (1 - hit) / HOST_LINK_BYTES_PER_US)
    forward = LAUNCH_US + read
    one = np.ones_like(speed)
    time = np.stack(
        [
            (lookups * ID_BYTES + batch * ID_BYTES) * link * one,
            forward,
            2 * batch * row_bytes * link * one,
            LAUNCH_US + 2 * read,
            0 * one,
        ],
        axis=1,
    )
    whole = table.bytes * row_share * column_share
    cached = whole * table.rows_hit(hit) / table.rows if 0 < hit < 1 else whole * hit
    hbm, ddr = int(cached), 0 if hit == 1 else int(whole)
    return time, np.full(len(speed), hbm), np.full(len(speed), ddr)


def _replica(case: Case, table: _Table, nodes: int, speed: Floats) -> Piece:
    """The whole table on every trainer, gradients all-reduced."""
    lookups = case.local_batch * table.pooling
    read = lookups * table.dim * OUTPUT_BYTES / (GPU_BYTES_PER_US * speed)
    link = 1 / (NODE_LINK_BYTES_PER_US if nodes == 1 else NETWORK_BYTES_PER_US)
    zero = np.zeros_like(speed)
    time = np.stack([zero, LAUNCH_US + read, zero, LAUNCH_US + 2 * read, zero + 2 * table.bytes * link], axis=1)
    return time, np.full(len(speed), 3 * table.bytes), np.zeros(len(speed), dtype=np.int64)


def suite() -> list[Case]:
    """The reproducible suite behind docs/reference/benchmarks.md."""
    return [replace(case, name=f"{case.name}-k{stages}", stages=stages) for stages in (1, STAGES) for case in _cases()]


def _cases() -> Iterator[Case]:
    m1 = Case("m1", 30, 8, 0.95, mean_rows=5.7e6, mean_pooling=28.0, dims=(128,), seconds=60.0)
    m2 = Case("m2", 13, 8, 0.85, mean_rows=7.3e6, mean_pooling=17.0, dims=(128,), seconds=60.0)
    m3 = Case("m3", 127, 64, 0.95, mean_rows=3.7e6, mean_pooling=49.0, dims=(128,), seconds=60.0)
    yield from (replace(m2, name=f"m2x{devices}-85", devices=devices) for devices in (8, 16))
    yield from (replace(m1, name=f"m1x{devices}-95", devices=devices) for devices in (8, 16))
    yield replace(m3, name="m3x64-95")
    yield Case("856x128-99", 856, 128, 0.99)
    for load, seconds in ((0.6, 10.0), (0.85, 10.0), (0.95, 10.0), (0.99, 10.0), (1.2, 10.0), (2.0, 60.0)):
        yield Case(f"1000x128-{round(load * 100)}", 1000, 128, load, seconds=seconds)
    yield from (Case(f"2000x128-{round(load * 100)}", 2000, 128, load) for load in (0.95, 0.99))
    yield Case("1000x128-95-2kinds", 1000, 128, 0.95, kinds=2, seconds=60.0)
    yield Case("5000x1024-95", 5000, 1024, 0.95, seconds=120.0)
