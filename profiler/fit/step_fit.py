"""Everything of a step but its lookups, from collectives, dense layers and whole steps, in one regression.

A predicted step is linear in the coefficients of a CostModel. So a coefficient's quantity in a step is what the step takes
under a cost model that is that coefficient alone, and what lookups take is known from their own fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from emplace.placement.cost_model import (
    WHOLE_STEPS,
    CollectiveCost,
    CostModel,
    CostSource,
    DenseCost,
    KernelCost,
    LaunchCost,
    LookupCost,
    Residual,
)
from emplace.placement.dense_part import dense_part
from emplace.placement.derived_loads import derive_loads
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.model import ModelSpec, Optimizer, ShardingType
from emplace.placement.plan import PlanOptions, Question, TablePlacement
from emplace.placement.qcomm import CommPrecision
from emplace.placement.topology import build_topology
from emplace.placement.workload import OUTPUT_BYTES, PERMUTED
from emplace.profiler.design.point_models import (
    FEATURES_OF_A_RANK,
    PIECES,
    REPLICA_COLUMNS,
    dense_model,
    exchanged_examples,
    permuted_examples,
    replica_rows,
    step_model,
    step_placements,
)
from emplace.profiler.design.points import CollectivePoint, DensePoint, Design, Kind, Operation, StepPoint
from emplace.profiler.fit.regression import Array, fit_nonnegative, held_out, residuals_by_regime, seen_share
from emplace.profiler.fit.samples import Timed

DENSE_LAYERS = "dense layers"
_FEWEST_SIZES = 2
"""An optimizer is fitted where replicated parameters of so many sizes were measured."""
_GAINED = 1.2
"""On CPUs, ranks seem to share a core so many times as much as they do. It was chosen on plans trained on 2 cores: how much the slowest
rank's load counts is predicted best by 1.1 to 1.2 with 2 ranks, and by 1.2 with 4."""
_COLLECTIVES = {
    Operation.INPUT_ALL_TO_ALL: "input_dist",
    Operation.OUTPUT_ALL_TO_ALL: "all_to_all",
    Operation.REDUCE_SCATTER: "reduce_scatter",
    Operation.ALL_REDUCE: "all_reduce",
}
_BOTH_WAYS = ("all_to_all", "reduce_scatter")
_WEIGHTS = {WHOLE_STEPS: 3.0, **dict.fromkeys(_BOTH_WAYS, 2.0)}
"""Plans are judged by whole steps, so those count most. Collectives alone tell their parts apart, two at once where they go both ways."""
_DENSE = (
    "fixed_us",
    "per_layer_us",
    "per_flop_us",
    "per_interaction_flop_us",
    "per_activation_byte_us",
    "per_output_byte_us",
    "per_parameter_byte_us",
    "per_feature_us",
)
_OF_NO_TABLE = ("step_overhead_us", *(f"dense {part}" for part in _DENSE))
"""What tables have no part in, so that a step is priced without placing any."""
_LAUNCHES = ("fixed_us", "per_feature_us", "per_layer_us")
_OF_LAUNCHES = tuple(f"launch {part}" for part in _LAUNCHES)
_LIKE = {ShardingType.COLUMN_WISE: ShardingType.TABLE_WISE, ShardingType.TABLE_COLUMN_WISE: ShardingType.TABLE_WISE}
"""Types whose exchanges are those of another: TorchRec's column-wise classes are its table-wise ones, given pieces of tables."""
_PERMUTATION = "permutation fixed_us"
"""A step with pieces of columns has two permutations: one of vectors, one of gradients. This is what one takes however small."""
_CONVERSION = "conversion fixed_us"
"""What converting vectors takes however few they are. Steps are charged by bytes alone: it is little beside an exchange's start."""
COUNTED, READ = "lookups beyond their time alone: ids and bags", "lookups beyond their time alone: bytes"
"""In a step everything else has been through the caches since, other ranks want the memory too, and ids and lengths pass through more
hands than the lookup's own. As shares."""
_OF_LOOKUPS = {
    COUNTED: ("fixed_us", "per_lookup_us", "per_row_digit_us", "per_bag_us", "per_uneven_bag_us"),
    READ: ("per_lookup_byte_us", "per_unique_row_us", "per_unique_line_us", "per_bag_byte_us", "per_overflow_byte_us", "per_page_us"),
}
"""The parts of a LookupCost that each is a share of."""
COLLECTIVES = tuple(_COLLECTIVES.values())
NAMES = (
    COUNTED,
    READ,
    "step_overhead_us",
    *(f"dense {part}" for part in _DENSE),
    *(f"{name} {part}" for name in COLLECTIVES for part in ("fixed_us", "per_byte_us")),
    "per_exchanged_bag_us",
    "per_bucketed_id_us",
    _PERMUTATION,
    "per_permuted_vector_us",
    "per_permuted_byte_us",
    _CONVERSION,
    "per_converted_byte_us",
    *(f"type {kind}" for kind in ShardingType if kind not in _LIKE),
    *_OF_LAUNCHES,
)
_MOST_FITS = 20
"""The most times that a fit is repeated because steps changed sides."""
_FIXED = np.array([name.endswith("fixed_us") or name == "step_overhead_us" or name.startswith("type ") for name in NAMES])


@dataclass(frozen=True)
class Point:
    """One measured time, as an equation: known_us + quantities @ coefficients = time_us."""

    what: str
    quantities: Array
    """[NAMES]"""
    time_us: float
    known_us: float = 0.0
    """What lookups take of it, by their own fit."""
    launched: Array | None = None
    """[NAMES] of a step on CUDA: the quantities of launching it, which it takes where that is longer."""
    seen: float = 1.0
    """How much of its relative error shows in a step."""


@dataclass(frozen=True)
class Known:
    """Costs that have a fit of their own: lookups, and the optimizer's step over replicated parameters."""

    kernels: tuple[KernelCost, ...]
    per_updated_byte_us: Mapping[Optimizer, float]

    def lookups(self, share: str) -> Known:
        """The same costs of lookups that are in the share, nothing else."""
        return Known(tuple(_scaled(kernel, {share: 1.0}) for kernel in self.kernels), {})

    def free(self) -> Known:
        """The same costs, all of them nothing."""
        return Known(tuple(_scaled(kernel, {}) for kernel in self.kernels), {})


class StepFit:
    """Fits the coefficients to points of `ranks` ranks on `host`."""

    def __init__(self, host: HostSpec, ranks: int, known: Known) -> None:
        self._host, self._ranks, self._known = host, ranks, known
        self._ranks_per_core = effective_ranks_per_core(host, ranks)
        self._topology = build_topology(host, 1, ranks, with_servers=False)
        self._free = known.free()
        self._on_cuda = host.node.devices[0].type is DeviceType.CUDA
        self._priced = cache(self._price)

    def points(self, design: Design, timed: Mapping[tuple[Kind, int], Timed]) -> list[Point]:
        """One equation for each point of the design that was measured and is no lookup."""
        found = []
        for (kind, index), one in sorted(timed.items()):
            if kind is Kind.COLLECTIVE and self._ranks > 1:
                found.append(_collective_point(design.collectives[index], self._ranks, one))
            elif kind is Kind.DENSE:
                found.append(self._dense_point(design.dense[index], one.forward_us + one.backward_us))
            elif kind is Kind.STEP:
                found.append(self._step_point(design.steps[index], one.forward_us))
        return found

    def _dense_point(self, point: DensePoint, time_us: float) -> Point:
        return Point(DENSE_LAYERS, _dense_row(point), time_us, seen=seen_share(time_us) if self._on_cuda else 1.0)

    def _step_point(self, point: StepPoint, time_us: float) -> Point:
        quantities, known_us = self._priced(point)
        return Point(
            WHOLE_STEPS, quantities, time_us, known_us, _launch_row(step_model(point, self._ranks), point) if self._on_cuda else None
        )

    def _price(self, point: StepPoint) -> tuple[Array, float]:
        """(quantities [NAMES], what is known of its time in microseconds)."""
        nothing = dict.fromkeys(NAMES, 0.0)
        absent = {f"type {kind}" for kind in ShardingType} - {f"type {_LIKE.get(kind, kind)}" for kind in point.types}
        tables = step_placements(point, self._ranks)
        quantities = dict(nothing)
        for name in quantities.keys() - absent - {*_OF_LAUNCHES, *_OF_LOOKUPS}:
            placed = () if name in _OF_NO_TABLE else tables
            quantities[name] = self._placed_us(point, placed, nothing | {name: 1.0}, self._free)
        for share in _OF_LOOKUPS:
            quantities[share] = self._placed_us(point, tables, nothing, self._known.lookups(share))
        return _row(quantities), self._placed_us(point, tables, nothing, self._known)

    def step_us(self, point: StepPoint, coefficients: Mapping[str, float], known: Known) -> float:
        """Microseconds that the step takes by the step-time model with these coefficients."""
        return self._placed_us(point, step_placements(point, self._ranks), coefficients, known)

    def _placed_us(self, point: StepPoint, placed: tuple[TablePlacement, ...], coefficients: Mapping[str, float], known: Known) -> float:
        cost = self.cost_model(coefficients, known)
        question = Question(model=step_model(point, self._ranks), host=self._host, cost_model=cost, options=PlanOptions(ranks=self._ranks))
        return derive_loads(question, placed, self._topology).step_time_us

    def cost_model(self, coefficients: Mapping[str, float], known: Known) -> CostModel:
        """The cost model of these coefficients.

        Across nodes nothing was measured: a byte costs what the host document says of its network, and never less than inside a node.
        """
        network_us = 1e6 * self._ranks / self._host.node.network

        def collective(name: str) -> CollectiveCost:
            per_byte_us = coefficients[f"{name} per_byte_us"]
            return CollectiveCost(
                fixed_us=coefficients[f"{name} fixed_us"],
                per_intra_node_byte_us=per_byte_us,
                per_inter_node_byte_us=max(per_byte_us, network_us),
            )

        return CostModel(
            source=CostSource.MEASURED,
            host_name=self._host.name,
            fingerprint=self._host.fingerprint,
            ranks=self._ranks,
            ranks_per_core=self._ranks_per_core,
            step_overhead_us=coefficients["step_overhead_us"],
            launches=LaunchCost(**{part: coefficients[f"launch {part}"] for part in _LAUNCHES}) if self._on_cuda else None,
            kernels=tuple(_scaled(kernel, {share: 1 + coefficients[share] for share in _OF_LOOKUPS}) for kernel in known.kernels),
            per_updated_byte_us=dict(known.per_updated_byte_us),
            per_exchanged_bag_us=coefficients["per_exchanged_bag_us"],
            per_bucketed_id_us=coefficients["per_bucketed_id_us"],
            per_permuted_vector_us=coefficients["per_permuted_vector_us"],
            per_permuted_byte_us=coefficients["per_permuted_byte_us"],
            per_converted_byte_us=coefficients["per_converted_byte_us"],
            sharding_type_us={kind: _type_us(kind, coefficients) for kind in ShardingType},
            dense=(_dense_cost(known.kernels[0].device, coefficients),),
            **{name: collective(name) for name in COLLECTIVES},
        )


def _scaled(kernel: KernelCost, factors: Mapping[str, float]) -> KernelCost:
    """The costs of a kernel, each share of its lookups times its factor; those without one are free."""
    of_part = {part: factors.get(share, 0.0) for share, parts in _OF_LOOKUPS.items() for part in parts}

    def changed(cost: LookupCost) -> LookupCost:
        return cost.model_copy(update={part: factor * getattr(cost, part) for part, factor in of_part.items()})

    others = tuple(other.model_copy(update={"backward": changed(other.backward)}) for other in kernel.other_backwards)
    return kernel.model_copy(update={"forward": changed(kernel.forward), "backward": changed(kernel.backward), "other_backwards": others})


def ranks_per_core(host: HostSpec, ranks: int) -> float:
    """How many ranks share a core: more than one where CPU ranks are more than the cores, else one."""
    device = host.node.devices[0]
    return max(1.0, ranks / device.count) if device.type is DeviceType.CPU else 1.0


def effective_ranks_per_core(host: HostSpec, ranks: int) -> float:
    """How many ranks seem to share a core: `ranks_per_core` of the cost model. On CPUs it is more than really do.

    A rank gains from others that wait even on a core of its own: its threads that exchange and reduce have their cores then, and of
    equal ranks one or the other is late every time.
    """
    on_cpu = host.node.devices[0].type is DeviceType.CPU
    return min(_GAINED * ranks_per_core(host, ranks), float(ranks)) if on_cpu else 1.0


def fit_updates(design: Design, timed: Mapping[tuple[Kind, int], Timed], ranks: int) -> tuple[dict[Optimizer, float], list[Residual]]:
    """(microseconds per updated byte of every optimizer that was measured, their errors).

    What an optimizer takes however small the parameter is in a step's overhead. With a rank alone nothing is exchanged, so that what the
    gradient takes until it is there is counted here.
    """
    measured: dict[Optimizer, list[tuple[float, float]]] = {}
    for index, point in enumerate(design.collectives):
        if point.optimizer is not None and (Kind.COLLECTIVE, index) in timed:
            parameter_bytes = replica_rows(point.sent_bytes, ranks) * REPLICA_COLUMNS * OUTPUT_BYTES
            one = timed[Kind.COLLECTIVE, index]
            time_us = one.backward_us if ranks > 1 else one.forward_us + one.backward_us
            measured.setdefault(point.optimizer, []).append((parameter_bytes, time_us))
    per_byte_us, errors = {}, []
    for optimizer, found in measured.items():
        if len(found) < _FEWEST_SIZES:
            continue
        points = [Point(f"{optimizer} of replicated parameters", np.array([1.0, size]), time_us) for size, time_us in found]
        per_byte_us[optimizer] = float(_fitted(points)[1])
        errors += held_out_residuals(points, design.seed, np.array([True, False]))
    return per_byte_us, errors


def fit_points(points: list[Point]) -> dict[str, float]:
    """The coefficients by name, those of NAMES."""
    return dict(zip(NAMES, _fitted(points).tolist(), strict=True))


def _fitted(points: list[Point]) -> Array:
    """[columns] the coefficients of the points' quantities.

    A step on CUDA is as long as its launches or its device take, whichever is longer. Which one that is follows from the coefficients, so
    they are fitted again until no step changes sides.
    """
    on_device = np.array([point.launched is None for point in points])
    for _ in range(_MOST_FITS):
        quantities, times, known, weights = _arrays(points, on_device)
        coefficients = fit_nonnegative(quantities, times, known, weights, of_predicted=True)
        before, on_device = on_device, np.array([_is_on_device(point, coefficients) for point in points])
        if (before == on_device).all():
            break
    return coefficients


def _is_on_device(point: Point, coefficients: Array) -> bool:
    """Whether the point is as long as its device takes."""
    return point.launched is None or bool(point.known_us + point.quantities @ coefficients > point.launched @ coefficients)


def held_out_residuals(points: list[Point], seed: int, fixed: NDArray[np.bool_] = _FIXED) -> list[Residual]:
    """The errors on points that the fit did not see: for each kind of point, all of them first and then each regime.

    `fixed` [columns] says which coefficients don't grow with a point's work.
    """
    coefficients = _fitted(points)
    quantities, times, _, _ = _arrays(points, np.array([_is_on_device(point, coefficients) for point in points]))
    fixed_us = quantities[:, fixed] @ coefficients[fixed]

    def predict(seen: NDArray[np.intp], unseen: NDArray[np.intp]) -> Array:
        found = _fitted([points[index] for index in seen])
        return np.array([_predicted_us(points[index], found) for index in unseen])

    predicted = held_out(len(points), seed, predict)
    kinds = [point.what for point in points]
    chosen = {what: np.array([kind == what for kind in kinds]) for what in dict.fromkeys(kinds)}
    found = (residuals_by_regime(what, predicted[these], times[these], fixed_us[these]) for what, these in chosen.items())
    return list(chain.from_iterable(found))


def _predicted_us(point: Point, coefficients: Array) -> float:
    device_us = float(point.known_us + point.quantities @ coefficients)
    return device_us if point.launched is None else max(device_us, float(point.launched @ coefficients))


def _arrays(points: list[Point], on_device: NDArray[np.bool_]) -> tuple[Array, Array, Array, Array]:
    """(quantities [points, columns], times, known parts, weights [points]), of launching where it is not the device that counts."""
    weights = np.array([_WEIGHTS.get(point.what, 1.0) * point.seen for point in points])
    sides = [
        (point.quantities, point.known_us) if counts or point.launched is None else (point.launched, 0.0)
        for point, counts in zip(points, on_device, strict=True)
    ]
    times, known = np.array([point.time_us for point in points]), np.array([known_us for _, known_us in sides])
    return np.array([quantities for quantities, _ in sides]), times, known, weights


def _collective_point(point: CollectivePoint, ranks: int, one: Timed) -> Point:
    """The equation of a collective.

    Where a step has both directions, the time is their mean: summing vectors up on their way takes longer than handing their gradients
    back.
    """
    one_way_us = (one.forward_us + one.backward_us) / 2
    if point.operation is Operation.CONVERSION:
        return Point("conversion", _row({_CONVERSION: 1.0, "per_converted_byte_us": _converted_bytes(point)}), one.forward_us)
    if point.operation is Operation.PERMUTATION:
        return _permutation_point(point, one_way_us)
    name = _COLLECTIVES[point.operation]
    row = {f"{name} fixed_us": 1.0, f"{name} per_byte_us": point.sent_bytes}
    if point.ids_per_bag is not None:
        row["per_exchanged_bag_us"] = exchanged_examples(point.sent_bytes, point.ids_per_bag, ranks) * FEATURES_OF_A_RANK * ranks
    return Point(name, _row(row), one_way_us if name in _BOTH_WAYS else one.forward_us)


def _permutation_point(point: CollectivePoint, time_us: float) -> Point:
    assert point.columns is not None
    vectors = permuted_examples(point.sent_bytes, point.columns) * PIECES
    row = {_PERMUTATION: 1.0, "per_permuted_vector_us": vectors, "per_permuted_byte_us": vectors * point.columns * OUTPUT_BYTES}
    return Point("permutation", _row(row), time_us)


def _converted_bytes(point: CollectivePoint) -> int:
    """Bytes read and written to convert the point's values and back, as a workload counts them."""
    values = max(1, point.sent_bytes // OUTPUT_BYTES)
    return values * 2 * (OUTPUT_BYTES + CommPrecision.FP16.value_bytes)


def _type_us(kind: ShardingType, coefficients: Mapping[str, float]) -> float:
    permuted_us = 2 * coefficients[_PERMUTATION] if kind in PERMUTED else 0.0
    return coefficients[f"type {_LIKE.get(kind, kind)}"] + permuted_us


def _dense_cost(device: str, coefficients: Mapping[str, float]) -> DenseCost:
    return DenseCost(device=device, **{part: coefficients[f"dense {part}"] for part in _DENSE})


def _dense_row(point: DensePoint) -> Array:
    """[NAMES] quantities of a dense point. Pooled vectors are at hand there: no features are taken from an exchange."""
    part, nothing = dense_part(dense_model(point)), dict.fromkeys(NAMES, 0.0)
    return _row({name: _dense_cost("any", nothing | {name: 1.0}).time_us(part, point.batch, 0) for name in NAMES})


def _launch_row(model: ModelSpec, point: StepPoint) -> Array:
    """[NAMES] the quantities of launching a step: its sharding types, and what LaunchCost counts."""
    launches = {"launch fixed_us": 1.0, "launch per_feature_us": model.num_features, "launch per_layer_us": len(dense_part(model).layers)}
    return _row(launches | {f"type {kind}": float(count) for kind, count in Counter(_LIKE.get(kind, kind) for kind in point.types).items()})


def _row(parts: Mapping[str, float]) -> Array:
    """[NAMES] the given quantities, 0 for all others."""
    return np.array([float(parts.get(name, 0.0)) for name in NAMES])
