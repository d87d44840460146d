"""Which points to measure: a space-filling sequence, so that any first part of it is a design of its own.

Ranges hold the built-in models: 10 to 20 million rows, 4 to 256 columns, 1 to 100 lookups a bag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, cycle, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from emplace.placement.dense_part import dense_part
from emplace.placement.model import ComputeKernel, DataType, Interaction, Optimizer, ShardingType
from emplace.placement.sums import add_up
from emplace.profiler.design.point_models import dense_model
from emplace.profiler.design.points import (
    CollectivePoint,
    DensePoint,
    Design,
    LookupPoint,
    Operation,
    ReferencePoints,
    StepPoint,
    TableShape,
)

_COLUMNS = (4, 8, 16, 32, 64, 128, 256)
_ZIPF = (0.0, 0.0, 0.8, 1.05, 1.2)
_STANDARD, _ELEMENT_WISE = (Optimizer.ROWWISE_ADAGRAD, DataType.FP32), (Optimizer.ADAGRAD, DataType.FP32)
_OTHERS = (
    (Optimizer.SGD, DataType.FP32),
    _ELEMENT_WISE,
    (Optimizer.ROWWISE_ADAGRAD, DataType.FP16),
)
_OPTIMIZERS = (Optimizer.SGD, Optimizer.ADAGRAD, Optimizer.ROWWISE_ADAGRAD)
_TABLES_IN_GROUP = (1, 1, 2, 8, 24)
"""Models look up many tables at once: what each takes however little it is asked for shows only where they are many."""
_REUSED_EVERY = 6
"""One point in so many of a sequence is a table beyond the caches whose rows are asked for again: chance draws next to none."""
_REUSED_COLUMNS = (32, 64, 128, 256)
_REUSED_BYTES = (2**23, 2**27)
"""The least and the most bytes of such a table."""
_REUSED_TRAFFIC_BYTES = 2**29
"""The most bytes of rows that one batch looks up in such a table: they take some 50 ms."""
_IDS_PER_BAG = (1, 16)
"""Far apart, so that what ids cost is told from what bags cost."""
_VALUE_BYTES = 4
_TABLES_IN_STEP = (3, 40)
_BUSY_LENGTHS, _BUSY_ROWS, _BUSY_WIDTHS = (8, 64), 10_000, (16, 64)
"""Steps that are mostly lookups: lengths, the fewest rows, and widths of the dense layers."""
_STEP_TABLE_BYTES = 2**29
_LENGTHS = (1, 40)
_TOGETHER = (
    (ShardingType.TABLE_WISE, ShardingType.ROW_WISE),
    (ShardingType.COLUMN_WISE, ShardingType.DATA_PARALLEL),
    (ShardingType.TABLE_WISE, ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.DATA_PARALLEL),
)


_REFERENCE = ReferencePoints(
    collective=CollectivePoint(operation=Operation.OUTPUT_ALL_TO_ALL, sent_bytes=2**19),
    dense=DensePoint(batch=256, interaction=Interaction.CAT, features=8, columns=64, bottom=(256,), top=(256,)),
    lookup=LookupPoint(
        kernel=ComputeKernel.FUSED,
        data_type=DataType.FP32,
        optimizer=Optimizer.ROWWISE_ADAGRAD,
        bags=1024,
        tables=(TableShape(rows=200_000, columns=64, lookups_per_bag=10.0, zipf=0.0),),
    ),
)
"""Points that take a few milliseconds each."""
_REFERENCE_ALONE = CollectivePoint(operation=Operation.ALL_REDUCE, sent_bytes=2**19, optimizer=Optimizer.ROWWISE_ADAGRAD)
_BETWEEN_RANKS, _ALONE = tuple(Operation), (Operation.ALL_REDUCE,)
"""What is measured of several ranks, and of one alone: replicated parameters are filled and updated there too."""


@dataclass(frozen=True)
class Effort:
    """How much to measure, and how large a point may be. Times, points and sweeps are those of a Design."""

    budget_s: float
    round_s: float
    step_sweeps: int
    lookup_points: int
    variants: tuple[tuple[Optimizer, DataType], ...]
    """The optimizers and data types that the first kernel of every turn is measured with, one after the other. A deadline may cut off a
    third of the points: what is to have a backward of its own comes often enough for that."""
    collective_sizes: int
    """How many sizes each collective is measured with."""
    dense_points: int
    step_points: int
    """Whole steps of any size, beside the small ones."""
    small_step_sets: int
    """Sets of small steps that are spread over the profile. Each set has every sharding type."""
    max_lookups: int
    max_output_bytes: int
    max_table_bytes: int
    max_collective_bytes: int
    max_dense_flops: float
    max_activation_bytes: int
    dense_widths: tuple[float, float] = (4, 10.5)
    """The binary logarithms of the least and the most units of a dense point's layer."""
    max_step_batch: int = 2048
    max_busy_lookups: int = 2**19
    """The most lookups of all ranks in a step that is mostly lookups."""
    step_widths: tuple[tuple[int, float], ...] = ((16, 0.4), (64, 0.3), (256, 0.2), (1024, 0.1))
    """Widths of the dense layers of other steps, each with the share of the steps that has it."""
    max_step_depth: int = 0
    """The most hidden layers that a step has beside those of every step."""


QUICK = Effort(
    budget_s=54.0,
    round_s=0.6,
    step_sweeps=1,
    lookup_points=96,
    variants=(_ELEMENT_WISE, _ELEMENT_WISE, _STANDARD),
    collective_sizes=8,
    dense_points=12,
    step_points=12,
    small_step_sets=1,
    max_lookups=400_000,
    max_output_bytes=2**24,
    max_table_bytes=2**27,
    max_collective_bytes=2**22,
    max_dense_flops=1e9,
    max_activation_bytes=2**23,
)
FULL = Effort(
    budget_s=780.0,
    round_s=1.5,
    step_sweeps=2,
    lookup_points=560,
    variants=_OTHERS,
    collective_sizes=14,
    dense_points=60,
    step_points=60,
    small_step_sets=4,
    max_lookups=2_000_000,
    max_output_bytes=2**24,
    max_table_bytes=2**31,
    max_collective_bytes=2**24,
    max_dense_flops=3e10,
    max_activation_bytes=2**26,
)
_ON_A_GPU: dict[str, Any] = {
    "max_lookups": 2**23,
    "max_output_bytes": 2**29,
    "max_collective_bytes": 2**28,
    "dense_widths": (6, 12),
    "max_dense_flops": 3e12,
    "max_activation_bytes": 2**30,
    "max_step_batch": 2**15,
    "max_busy_lookups": 2**23,
    "step_widths": ((64, 0.2), (256, 0.2), (1024, 0.3), (4096, 0.3)),
    "max_step_depth": 8,
}
"""A GPU does in a millisecond what a core does in a second. Some of the steps keep it busy for longer than launching them takes, and the
number of layers tells what launching one takes."""
QUICK_ON_CUDA = replace(QUICK, **_ON_A_GPU, max_table_bytes=2**30)
FULL_ON_CUDA = replace(FULL, **_ON_A_GPU)
KERNELS_ON_CPU = (ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.DENSE)
KERNELS_ON_CUDA = (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM, ComputeKernel.FUSED, ComputeKernel.DENSE)
"""The kernels that lookups are measured with in turn."""


def make_design(effort: Effort, ranks: int, seed: int, kernels: tuple[ComputeKernel, ...], table_bytes: int) -> Design:
    """The points for `ranks` ranks with at most `table_bytes` of tables each. Same arguments, same design."""
    rng = np.random.default_rng(seed)
    return Design(
        seed=seed,
        budget_s=effort.budget_s,
        round_s=effort.round_s,
        step_sweeps=effort.step_sweeps,
        steps=_steps(effort, ranks, rng),
        collectives=_collectives(effort, rng, _BETWEEN_RANKS if ranks > 1 else _ALONE),
        dense=tuple(_dense_point(effort, rng) for _ in range(effort.dense_points)),
        lookups=_lookups(effort, rng, kernels, min(effort.max_table_bytes, table_bytes)),
        reference=_REFERENCE if ranks > 1 else _REFERENCE.model_copy(update={"collective": _REFERENCE_ALONE}),
    )


def _steps(effort: Effort, ranks: int, rng: np.random.Generator) -> tuple[StepPoint, ...]:
    """Sets of small steps, whose time is overhead, each in turns with its share of the steps of any types and sizes.

    A set has every sharding type by itself and some together. There is more than one set, as the machine may be faster while one
    type is measured than while another is. They take turns so that a deadline leaves steps of both. Every other step of any size is mostly
    lookups, as those of models are.
    """
    shares = np.array_split(np.arange(effort.step_points), effort.small_step_sets)
    types = [*((kind,) for kind in ShardingType), *_TOGETHER, tuple(ShardingType)]
    sets = [
        _in_turns([_small_step(each, rng) for each in types], [_step(effort, ranks, rng, is_busy=number % 2 == 0) for number in share])
        for share in shares
    ]
    return tuple(chain.from_iterable(sets))


def _in_turns(*sequences: Sequence[StepPoint]) -> list[StepPoint]:
    """All of them: the first of each, the second of each, and so on."""
    return [each for turn in zip_longest(*sequences) for each in turn if each is not None]


def _small_step(types: tuple[ShardingType, ...], rng: np.random.Generator) -> StepPoint:
    return StepPoint(
        types=types,
        tables=int(rng.choice([1, 2, 4])),
        rows=1024,
        columns=int(rng.choice([16, 32, 64])),
        lookups_per_bag=1,
        batch=int(rng.choice([32, 64, 128])),
        width=16,
    )


def _step(effort: Effort, ranks: int, rng: np.random.Generator, *, is_busy: bool) -> StepPoint:
    kinds = list(ShardingType)
    count = int(rng.choice([1, 2, 3], p=[0.5, 0.3, 0.2]))
    types = tuple(kinds[index] for index in sorted(rng.choice(len(kinds), count, replace=False)))
    per_table = count + (ranks - 1 if ShardingType.TABLE_WISE in types else 0)
    tables = max(1, round(float(np.exp(rng.uniform(*np.log(_TABLES_IN_STEP)))) / per_table))
    columns, length = int(rng.choice([16, 32, 64, 128])), _whole(rng, *(_BUSY_LENGTHS if is_busy else _LENGTHS))
    # Replicated tables have gradients as large as themselves.
    most_rows = 2e4 if ShardingType.DATA_PARALLEL in types else 4e5
    most_rows = min(most_rows, _STEP_TABLE_BYTES / (tables * per_table * columns * _VALUE_BYTES))
    lookups = tables * len(types) * length * ranks
    most_lookups = min(effort.max_lookups, effort.max_busy_lookups) if is_busy else effort.max_lookups
    most_batch = max(32.0, min(effort.max_step_batch, most_lookups / lookups))
    widths, shares = zip(*effort.step_widths, strict=True)
    return StepPoint(
        types=types,
        tables=tables,
        rows=_whole(rng, min(_BUSY_ROWS, most_rows) if is_busy else 100, most_rows),
        columns=columns,
        lookups_per_bag=length,
        batch=_whole(rng, max(32.0, most_batch / 4) if is_busy else 32, most_batch),
        width=int(rng.choice(_BUSY_WIDTHS) if is_busy else rng.choice(widths, p=shares)),
        depth=int(rng.integers(0, effort.max_step_depth + 1)) if effort.max_step_depth else 0,
    )


def _whole(rng: np.random.Generator, least: float, most: float) -> int:
    """A whole number between the two, any order of magnitude as likely as another."""
    return int(np.exp(rng.uniform(np.log(least), np.log(most))))


def _collectives(effort: Effort, rng: np.random.Generator, operations: tuple[Operation, ...]) -> tuple[CollectivePoint, ...]:
    """The collective points: all operations of one size together, the largest and the smallest before the others, which are in random order.

    A deadline may cut off half of the points, and only the largest tell what a byte costs.
    """
    sizes = np.geomspace(2**10, effort.max_collective_bytes, effort.collective_sizes).astype(int)
    ends = sizes[-1], sizes[0]
    turns = zip([*ends, *(size for size in rng.permutation(sizes) if size not in ends)], cycle(_COLUMNS), strict=False)
    return tuple(point for size, columns in turns for operation in operations for point in _of_size(operation, int(size), columns))


def _of_size(operation: Operation, size: int, columns: int) -> list[CollectivePoint]:
    point = CollectivePoint(operation=operation, sent_bytes=size)
    match operation:
        case Operation.INPUT_ALL_TO_ALL:
            return [point.model_copy(update={"ids_per_bag": ids}) for ids in _IDS_PER_BAG]
        case Operation.PERMUTATION:
            return [point.model_copy(update={"columns": columns})]
        case Operation.ALL_REDUCE:
            return [point.model_copy(update={"optimizer": optimizer}) for optimizer in _OPTIMIZERS]
        case _:
            return [point]


def _dense_point(effort: Effort, rng: np.random.Generator) -> DensePoint:
    point = DensePoint(
        batch=1,
        interaction=Interaction.DOT if rng.random() < 0.4 else Interaction.CAT,
        features=int(np.exp(rng.uniform(np.log(3), np.log(41)))),
        columns=int(2 ** rng.integers(3, 8)),
        bottom=_widths(effort, rng),
        top=_widths(effort, rng),
    )
    part = dense_part(dense_model(point))
    largest = min(
        16_384.0, effort.max_dense_flops / part.training_flops, effort.max_activation_bytes / (_VALUE_BYTES * part.activation_width)
    )
    return point.model_copy(update={"batch": int(np.exp(rng.uniform(np.log(32), np.log(max(32.0, largest)))))})


def _widths(effort: Effort, rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(2 ** rng.uniform(*effort.dense_widths)) for _ in range(rng.integers(1, 4)))


def _lookups(effort: Effort, rng: np.random.Generator, kernels: tuple[ComputeKernel, ...], table_bytes: int) -> tuple[LookupPoint, ...]:
    """The lookup points. Kernels take turns, and so do the variants of the first one.

    Each has a sequence of its own: every fourth point of one sequence would leave half of the range out.
    """
    turns = [divmod(index, len(kernels)) for index in range(effort.lookup_points)]
    chosen = [(kernels[place], _STANDARD if place else effort.variants[turn % len(effort.variants)]) for turn, place in turns]
    sequences = {each: qmc.Sobol(d=6, seed=rng) for each in dict.fromkeys(chosen)}
    numbers = {each: count(1) for each in sequences}
    return tuple(_lookup_point(effort, rng, sequences[each].random()[0], next(numbers[each]), *each, table_bytes) for each in chosen)


def _lookup_point(
    effort: Effort,
    rng: np.random.Generator,
    place: NDArray[np.float64],
    number: int,
    kernel: ComputeKernel,
    variant: tuple[Optimizer, DataType],
    table_bytes: int,
) -> LookupPoint:
    """The point that stands at `place` in the unit cube: the first table's rows, columns, lookups and skew, then bags and group size."""
    if number % _REUSED_EVERY == 0:
        return _reused_point(effort, place, kernel, variant, table_bytes)
    tables = _TABLES_IN_GROUP[int(place[5] * len(_TABLES_IN_GROUP))]
    shapes = [_table(place[:4] if index == 0 else rng.random(4), table_bytes // tables, kernel) for index in range(tables)]
    lookups, columns = add_up(shape.lookups_per_bag for shape in shapes), sum(shape.columns for shape in shapes)
    most = max(16.0, min(65_536.0, effort.max_lookups / lookups, effort.max_output_bytes / (columns * _VALUE_BYTES)))
    return LookupPoint(
        kernel=kernel,
        data_type=variant[1],
        optimizer=variant[0],
        bags=int(np.exp(np.log(16) + place[4] * np.log(most / 16))),
        tables=tuple(shapes),
    )


def _reused_point(
    effort: Effort, place: NDArray[np.float64], kernel: ComputeKernel, variant: tuple[Optimizer, DataType], table_bytes: int
) -> LookupPoint:
    """The point that stands at `place`: the table's bytes, columns, lookups a bag, skew, and lookups for each row, from half to eight."""
    columns = _REUSED_COLUMNS[int(place[1] * len(_REUSED_COLUMNS))]
    row_bytes = columns * _VALUE_BYTES
    least, most = _REUSED_BYTES
    rows = min(int(least * (most / least) ** place[0]), _most_bytes(table_bytes, kernel)) // row_bytes
    per_bag = 10 ** (1 + place[2])
    lookups = min(rows * 2 ** (4 * place[4] - 1), effort.max_lookups, _REUSED_TRAFFIC_BYTES / row_bytes)
    bags = min(lookups / per_bag, effort.max_output_bytes / row_bytes)
    shape = TableShape(rows=rows, columns=columns, lookups_per_bag=per_bag, zipf=_ZIPF[int(place[3] * len(_ZIPF))])
    return LookupPoint(kernel=kernel, data_type=variant[1], optimizer=variant[0], bags=max(16, int(bags)), tables=(shape,))


def _most_bytes(table_bytes: int, kernel: ComputeKernel) -> int:
    """The most bytes of a table: less for the dense kernel, as a replicated table has a gradient as large as itself."""
    return table_bytes // 16 if kernel is ComputeKernel.DENSE else table_bytes


def _table(place: NDArray[np.float64], table_bytes: int, kernel: ComputeKernel) -> TableShape:
    columns = _COLUMNS[int(place[1] * len(_COLUMNS))]
    most_rows = max(16.0, min(20e6, _most_bytes(table_bytes, kernel) / (columns * _VALUE_BYTES)))
    lookups = 100 ** (2 * place[2] - 1) if place[2] > 0.5 else 1.0
    rows = int(np.exp(np.log(10) + place[0] * np.log(most_rows / 10)))
    return TableShape(rows=rows, columns=columns, lookups_per_bag=lookups, zipf=_ZIPF[int(place[3] * len(_ZIPF))])
