"""Everything of a step but its lookups, from collectives, dense layers and whole steps, in one regression.

A predicted step is linear in the coefficients of a CostModel. So a coefficient's quantity in a step is what the step takes
under a cost model that is that coefficient alone, and what lookups take is known from their own fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from emplace.placement.cost_model import (
    WHOLE_STEPS,
    CollectiveCost,
    CostModel,
    CostSource,
    DenseCost,
    KernelCost,
    LaunchCost,
    LookupCost,
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
    dense_model,
    exchanged_examples,
    permuted_examples,
    step_model,
    step_placements,
)
from emplace.profiler.design.points import CollectivePoint, DensePoint, Design, Kind, Operation, StepPoint
from emplace.profiler.fit.equations import Equation
from emplace.profiler.fit.regression import Array, seen_share
from emplace.profiler.fit.samples import Timed

DENSE_LAYERS = "dense layers"
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
_OF_WHOLE_STEPS, _OF_BOTH_WAYS = 3.0, 2.0
"""How much their relative errors count. Plans are judged by whole steps, so those count most. Collectives alone tell their parts apart, two
at once where they go both ways."""
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
FIXED = np.array([name.endswith("fixed_us") or name == "step_overhead_us" or name.startswith("type ") for name in NAMES])
"""[NAMES] which coefficients don't grow with what is asked."""


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

    def equations(self, design: Design, timed: Mapping[tuple[Kind, int], Timed]) -> list[Equation]:
        """One equation for each point of the design that was measured and is no lookup."""
        found = []
        for (kind, index), one in sorted(timed.items()):
            if kind is Kind.COLLECTIVE and self._ranks > 1:
                found.append(_collective_equation(design.collectives[index], self._ranks, one))
            elif kind is Kind.DENSE:
                found.append(self._dense_equation(design.dense[index], one.forward_us + one.backward_us))
            elif kind is Kind.STEP:
                found.append(self._step_equation(design.steps[index], one.forward_us))
        return found

    def _dense_equation(self, point: DensePoint, time_us: float) -> Equation:
        return Equation(DENSE_LAYERS, _dense_row(point), time_us, weight=seen_share(time_us) if self._on_cuda else 1.0)

    def _step_equation(self, point: StepPoint, time_us: float) -> Equation:
        quantities, known_us = self._priced(point)
        launched = _launch_row(step_model(point, self._ranks), point) if self._on_cuda else None
        return Equation(WHOLE_STEPS, quantities, time_us, known_us, launched, _OF_WHOLE_STEPS)

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


def _collective_equation(point: CollectivePoint, ranks: int, one: Timed) -> Equation:
    """The equation of a collective.

    Where a step has both directions, the time is their mean: summing vectors up on their way takes longer than handing their gradients
    back.
    """
    one_way_us = (one.forward_us + one.backward_us) / 2
    if point.operation is Operation.CONVERSION:
        return Equation("conversion", _row({_CONVERSION: 1.0, "per_converted_byte_us": _converted_bytes(point)}), one.forward_us)
    if point.operation is Operation.PERMUTATION:
        return _permutation_equation(point, one_way_us)
    name = _COLLECTIVES[point.operation]
    row = {f"{name} fixed_us": 1.0, f"{name} per_byte_us": point.sent_bytes}
    if point.ids_per_bag is not None:
        row["per_exchanged_bag_us"] = exchanged_examples(point.sent_bytes, point.ids_per_bag, ranks) * FEATURES_OF_A_RANK * ranks
    if name in _BOTH_WAYS:
        return Equation(name, _row(row), one_way_us, weight=_OF_BOTH_WAYS)
    return Equation(name, _row(row), one.forward_us)


def _permutation_equation(point: CollectivePoint, time_us: float) -> Equation:
    assert point.columns is not None
    vectors = permuted_examples(point.sent_bytes, point.columns) * PIECES
    row = {_PERMUTATION: 1.0, "per_permuted_vector_us": vectors, "per_permuted_byte_us": vectors * point.columns * OUTPUT_BYTES}
    return Equation("permutation", _row(row), time_us)


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
