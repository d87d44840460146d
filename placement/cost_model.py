"""CostModel: what lookups, collectives and dense layers cost on a host, either measured there or taken from datasheets.

All coefficients are non-negative and physically named. Times are microseconds; `per_..._us` are microseconds per unit.
Formulas broadcast over numpy arrays.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from math import log2
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from emplace.placement.dense_part import PASSES, DensePart, dense_part
from emplace.placement.dense_servers import DenseServersCost
from emplace.placement.document import Document
from emplace.placement.ingest import IngestCost
from emplace.placement.messages_cost import MessageCost
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, Name, Optimizer, Precision, ShardingType
from emplace.placement.stack import Stack
from emplace.placement.sums import add_up
from emplace.placement.units import MAX_SIZE_BYTES

_MAX_US = 1e12
"""The most that any coefficient may be: eleven days for one unit of anything. A host's slowest figures (1 B/s) stay below it."""
Coefficient = Annotated[float, Field(strict=True, ge=0, le=_MAX_US)]
Figure = Annotated[float, Field(strict=True)]
_VALUE_BYTES = 4
"""Dense layers are fp32, and keep so wide values,"""
_KEPT_BYTES = {Precision.FP16: 2, Precision.BF16: 2, Precision.FP8: 2}
"""unless they multiply in these: what they keep between products is then fp16 or bf16."""
LINE_BYTES, _PAGE_BYTES = 64, 4096
_DIGIT_BITS = 8
Times = NDArray[np.float64]


class CostSource(StrEnum):
    MEASURED = "measured"
    DATASHEET = "datasheet"


class LookupCost(Document):
    """Time of one shard's lookups in one direction, in microseconds.

    fixed + lookups x (per_lookup + row_bytes x per_lookup_byte + row_digits x per_row_digit)
          + unique rows x (per_unique_row + cache lines of a row x per_unique_line)
          + lookups x row_bytes x miss(working set) x per_overflow_byte
          + bags x (per_bag + bag_bytes x per_bag_byte)
          + uneven bags x per_uneven_bag
          + pages x per_page

    where a bag is one pooled output vector, uneven those of features whose lengths differ, miss(w) = max(0, 1 - cache_bytes / w),
    the working set is the bytes of the unique rows, and pages are those that they lie on, if they lie anywhere among the shard's
    rows.
    """

    fixed_us: Coefficient = 0.0
    per_lookup_us: Coefficient = 0.0
    per_lookup_byte_us: Coefficient = 0.0
    per_unique_row_us: Coefficient = 0.0
    """For each row that is touched for the first time in the batch, however wide: a row's update has a start and a state."""
    per_unique_line_us: Coefficient = 0.0
    """For each cache line of a row that is touched for the first time in the batch."""
    per_bag_us: Coefficient = 0.0
    per_bag_byte_us: Coefficient = 0.0
    per_uneven_bag_us: Coefficient = 0.0
    """For each bag whose end a processor can't foresee, because lengths differ from bag to bag."""
    per_overflow_byte_us: Coefficient = 0.0
    per_page_us: Coefficient = 0.0
    """For each page of memory that is touched for the first time in the batch."""
    per_row_digit_us: Coefficient = 0.0
    """For each lookup and digit of the largest row number: the fused backward sorts ids digit by digit, and in larger tables rows are
    found more slowly."""
    cache_bytes: Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE_BYTES)] = 0

    def time_us(
        self,
        lookups: ArrayLike,
        unique_rows: ArrayLike,
        row_bytes: ArrayLike,
        bags: ArrayLike,
        uneven_bags: ArrayLike,
        bag_bytes: ArrayLike,
        rows: ArrayLike,
    ) -> Times:
        """Microseconds, for a shard that has `rows` rows. Arguments broadcast."""
        sides = (lookups, unique_rows, row_bytes, bags, uneven_bags, bag_bytes, rows)
        lookups, unique_rows, row_bytes, bags, uneven_bags, bag_bytes, rows = (np.asarray(side, dtype=np.float64) for side in sides)
        working_set = np.maximum(unique_rows * row_bytes, 1.0)
        miss = np.maximum(0.0, 1.0 - self.cache_bytes / working_set)
        per_byte_us = self.per_lookup_byte_us + miss * self.per_overflow_byte_us
        # Powers take longer than all the rest, and most kernels charge no pages.
        pages = touched_pages(unique_rows, row_bytes, rows) if self.per_page_us else 0.0
        return np.asarray(
            self.fixed_us
            + lookups * (self.per_lookup_us + row_bytes * per_byte_us + row_digits(rows) * self.per_row_digit_us)
            + self.rows_us(unique_rows, row_bytes)
            + bags * (self.per_bag_us + bag_bytes * self.per_bag_byte_us)
            + uneven_bags * self.per_uneven_bag_us
            + pages * self.per_page_us
        )

    def rows_us(self, unique_rows: ArrayLike, row_bytes: ArrayLike) -> Times:
        """Microseconds of different rows alone."""
        return np.asarray(np.asarray(unique_rows) * (self.per_unique_row_us + cache_lines(row_bytes) * self.per_unique_line_us))


def row_digits(rows: ArrayLike) -> Times:
    """Digits of eight bits in the largest row number: FBGEMM sorts ids by so many (radix_sort_parallel)."""
    return np.asarray(np.ceil(np.log2(1.0 + np.asarray(rows, dtype=np.float64)) / _DIGIT_BITS))


def cache_lines(row_bytes: ArrayLike) -> Times:
    """Cache lines that a row lies on, if it begins where a line does."""
    return np.asarray(np.ceil(np.asarray(row_bytes, dtype=np.float64) / LINE_BYTES))


def touched_pages(unique_rows: ArrayLike, row_bytes: ArrayLike, rows: ArrayLike) -> Times:
    """Pages that `unique_rows` of `rows` rows are expected to touch: a page of b rows is spared with probability (1 - unique / rows)^b."""
    unique_rows, row_bytes, rows = (np.asarray(side, dtype=np.float64) for side in (unique_rows, row_bytes, rows))
    rows_together = np.maximum(_PAGE_BYTES / row_bytes, 1.0)
    touched_share = 1.0 - (1.0 - np.minimum(unique_rows / np.maximum(rows, 1.0), 1.0)) ** rows_together
    return np.asarray(rows / rows_together * touched_share * np.maximum(row_bytes / _PAGE_BYTES, 1.0))


class OtherBackward(Document):
    """A kernel's backward with another optimizer, with weights of another data type, or with both, than its own `backward` is for."""

    optimizer: Optimizer | None = None
    data_type: DataType | None = None
    backward: LookupCost


class KernelCost(Document):
    """The forward, and the backward with the optimizer, of one compute kernel on one kind of device.

    `fused_uvm_caching` may go without: its hits cost what `fused` costs, its misses what `fused_uvm` costs. An entry says what it costs
    beyond lookups that `fused` answers: its forward for all lookups and the rows that are fetched, its backward for all different rows.
    """

    device: Name
    kernel: ComputeKernel
    forward: LookupCost
    backward: LookupCost
    other_backwards: tuple[OtherBackward, ...] = ()
    """`backward` stands for all that are not here."""

    def backward_of(self, optimizer: Optimizer, data_type: DataType) -> LookupCost:
        """The backward that is for both, else for the optimizer, else for the data type, else the kernel's own."""
        for asked in ((optimizer, data_type), (optimizer, None), (None, data_type)):
            for other in self.other_backwards:
                if (other.optimizer, other.data_type) == asked:
                    return other.backward
        return self.backward


class CollectiveCost(Document):
    """Time of a collective: fixed, and for each byte that a rank exchanges in its node, across nodes, and over a remote server's link."""

    fixed_us: Coefficient
    per_intra_node_byte_us: Coefficient
    per_inter_node_byte_us: Coefficient
    per_server_byte_us: Coefficient = 0.0
    per_device_link_byte_us: Coefficient | None = None
    """For each byte between a device and the CPUs of its node, on the device's link to system memory; absent where it is not known."""
    per_peer_us: Coefficient = 0.0
    """For each other rank, which gets a message of its own."""
    per_doubling_us: Coefficient | None = None
    """For each time that the ranks double, where messages go up and down a tree of them; absent where none do."""

    def start_us(self, ranks: int) -> float:
        """Microseconds of a collective in which so many ranks send to each other, however few the bytes."""
        return self.fixed_us + (ranks - 1) * self.per_peer_us + log2(ranks) * (self.per_doubling_us or 0.0)

    def time_us(self, intra_node_bytes: ArrayLike, inter_node_bytes: ArrayLike, server_bytes: ArrayLike = 0.0) -> Times:
        """Microseconds that grow with the bytes, on the slower of a trainer's links and a server's own.

        Without `start_us`, which a step pays once for each sharding type in use.
        """
        intra_node_bytes, inter_node_bytes = np.asarray(intra_node_bytes, dtype=np.float64), np.asarray(inter_node_bytes, dtype=np.float64)
        of_trainers = intra_node_bytes * self.per_intra_node_byte_us + inter_node_bytes * self.per_inter_node_byte_us
        return np.asarray(np.maximum(of_trainers, np.asarray(server_bytes, dtype=np.float64) * self.per_server_byte_us))

    def ring_us(self, intra_node_bytes: ArrayLike, inter_node_bytes: ArrayLike, server_bytes: ArrayLike = 0.0) -> Times:
        """The same of a collective whose rings have both kinds of links at work at once: the slower counts."""
        return np.maximum(self.time_us(intra_node_bytes, 0.0, server_bytes), self.time_us(0.0, inter_node_bytes))

    def device_link_us(self, link_bytes: ArrayLike) -> Times:
        """Microseconds of bytes between a device and its node's CPUs. Raises ValueError where no such link is priced."""
        if self.per_device_link_byte_us is None:
            raise ValueError("the cost model has no link between devices and their node's CPUs")
        return np.asarray(np.asarray(link_bytes, dtype=np.float64) * self.per_device_link_byte_us)


class DenseCost(Document):
    """Forward and backward of the dense layers on one kind of device; the backward takes twice the flop of the forward."""

    device: Name
    fixed_us: Coefficient
    per_layer_us: Coefficient = 0.0
    per_flop_us: Coefficient
    per_flop_us_at: dict[Precision, Coefficient] = Field(default_factory=dict)
    """The same at the precisions that were priced apart; all others cost `per_flop_us`."""
    per_interaction_flop_us: Coefficient | None = None
    """For each flop of the interaction's dot products; absent where they were not measured apart and cost what linear layers do."""
    per_activation_byte_us: Coefficient = 0.0
    """For each byte of the values that are kept for the backward."""
    per_output_byte_us: Coefficient = 0.0
    """For each byte that linear layers put out, besides: it passes the activation both ways, and its gradient is summed up for the bias."""
    per_parameter_byte_us: Coefficient = 0.0
    """For each byte of the weights, which are read and whose gradients are written, however few the examples."""
    per_feature_us: Coefficient = 0.0
    """For each feature, whose pooled vector is taken and whose gradient is handed back."""

    def time_us(self, part: DensePart, examples: int, features: int, precision: Precision | None = None) -> float:
        """Microseconds of the forward and backward of a batch of so many examples, with so many sparse features."""
        value_bytes = _KEPT_BYTES.get(precision, _VALUE_BYTES) if precision in self.per_flop_us_at else _VALUE_BYTES
        per_flop_us = self.per_flop_us if precision is None else self.per_flop_us_at.get(precision, self.per_flop_us)
        per_interaction_flop_us = per_flop_us if self.per_interaction_flop_us is None else self.per_interaction_flop_us
        flop_us = part.linear_flops * per_flop_us + part.interaction_flops * per_interaction_flop_us
        activation_us = part.activation_width * value_bytes * self.per_activation_byte_us
        activation_us += part.output_width * value_bytes * self.per_output_byte_us
        parameters_us = part.parameters * _VALUE_BYTES * self.per_parameter_byte_us
        by_size_us = examples * (PASSES * flop_us + activation_us) + parameters_us
        return self.fixed_us + len(part.layers) * self.per_layer_us + by_size_us + features * self.per_feature_us


class LaunchCost(Document):
    """What a process needs for a step while its device works: it launches kernels, and may make batches. No step is shorter."""

    fixed_us: Coefficient
    per_feature_us: Coefficient = 0.0
    per_layer_us: Coefficient = 0.0
    """For each linear layer."""
    per_value_us: Coefficient = 0.0
    """For each id and dense value of a batch that the process makes itself."""

    def time_us(self, model: ModelSpec) -> float:
        """Microseconds of a step of the model."""
        layers = len(dense_part(model).layers)
        by_parts_us = self.fixed_us + model.num_features * self.per_feature_us + layers * self.per_layer_us
        if not self.per_value_us:
            return by_parts_us  # without deriving the lengths of all features, which a plan's page need not wait for
        return by_parts_us + model.local_batch_size * (model.ids_per_example + model.dense_features) * self.per_value_us


LAUNCHES = "launches"
"""The name of a floor, and of a bound, that launching sets."""


class Floor(NamedTuple):
    """What no step is shorter than, whatever its devices need."""

    time_us: float
    name: str
    """"launches" or "input"; "" where there is none."""


class Regime(StrEnum):
    """What most of a point's time is: fixed, or growing with what is asked."""

    OVERHEAD = "overhead"
    WORK = "work"


WHOLE_STEPS = "whole steps"
"""What the residual of whole training steps is of."""


class Residual(Document):
    """How far the fit is from points it did not see: mean and median absolute error as a share of the measured time."""

    what: str
    regime: Regime | None = None
    """The points counted here; absent where all are."""
    points: Annotated[int, Field(strict=True)]
    mape: Figure
    median: Figure
    worst: Figure


class LargestMeasured(Document):
    """The largest of everything that was measured: what is beyond is extrapolated."""

    lookups: Annotated[float, Field(strict=True, ge=0)]
    """Ids of one kernel call, on one rank."""
    output_bytes: Annotated[float, Field(strict=True, ge=0)]
    """Bytes of the pooled vectors of one kernel call, on one rank."""
    sent_bytes: Annotated[float, Field(strict=True, ge=0)]
    """Bytes that one rank sends in one exchange; 0 where there was one rank only."""
    dense_flops: Annotated[float, Field(strict=True, ge=0)]
    """Floating-point operations of the dense layers' forward and backward, on one rank."""


class CostModel(Document):
    """Everything a plan's predicted times are derived from."""

    schema_version: Literal[1] = 1
    source: CostSource
    host_name: Name
    fingerprint: str | None = None
    ranks: Annotated[int, Field(strict=True, gt=0)] | None = None
    """Ranks that ran side by side while it was measured."""
    ranks_per_core: Annotated[float, Field(strict=True, ge=1)] = 1.0
    """Ranks that shared a core while it was measured: what they take from each other is in the times. It may be more than ranks over
    cores, because a rank gains from others that wait even with a core of its own."""
    software: dict[str, str] = Field(default_factory=dict)
    stack: Stack | None = None
    """The software stack that datasheet prices are of, with its ranges."""
    measured_at: str | None = None
    step_overhead_us: Coefficient
    dense_servers: DenseServersCost | None = None
    """Absent where trainers all-reduce the gradients of dense layers among each other, as in all measured models."""
    launches: LaunchCost | None = None
    """Absent where the device is what runs the process, and everything is in its own times."""
    ingest: IngestCost | None = None
    """Absent where the input is on the machine already, as while profiling."""
    server_messages: MessageCost | None = None
    """Absent where there are no remote servers, and in measured models, whose exchanges it is in."""
    kernels: tuple[KernelCost, ...]
    all_to_all: CollectiveCost
    input_dist: CollectiveCost | None = None
    """The exchange of ids and lengths; absent where it was not measured apart and costs what `all_to_all` does."""
    per_exchanged_bag_us: Coefficient = 0.0
    """For each bag on its way to a shard, beside its bytes: lengths are put in order before and after, and summed up to offsets."""
    per_bucketed_id_us: Coefficient = 0.0
    """For each id that is sorted into its block of rows, by sharding types that split rows."""
    per_permuted_vector_us: Coefficient = 0.0
    """For each pooled vector that arrived as a piece of columns and is put in its place, and its gradient in the backward, however wide."""
    per_permuted_byte_us: Coefficient = 0.0
    """For each byte of such a vector."""
    per_converted_byte_us: Coefficient | None = None
    """For each byte that converting vectors and gradients to what they are sent in, and back, reads and writes; absent, and nothing, where
    it was not measured."""
    reduce_scatter: CollectiveCost
    all_reduce: CollectiveCost
    per_updated_byte_us: dict[Optimizer, Coefficient] = Field(default_factory=dict)
    """For each byte of a parameter that every rank holds: the optimizer's step reads and writes all of its values."""
    sharding_type_us: dict[ShardingType, Coefficient] = Field(default_factory=dict)
    """What a step with tables of a sharding type takes beyond its loads and its collectives' fixed times; 0 where none is given. Of CUDA
    devices, what the process needs to launch it."""
    dense: tuple[DenseCost, ...]
    residuals: tuple[Residual, ...] = ()
    largest: LargestMeasured | None = None
    noise: Figure | None = None
    """Repeat noise of the machine while measuring: median relative difference of two equal measurements."""
    reference_step_us: Annotated[float, Field(strict=True, gt=0)] | None = None
    """The median time of the reference step (runtime/reference_step.py) while measuring: what tells a slower machine from wrong prices."""
    reference_exponent: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    """The power of the reference's slowness that was taken out of whole steps while measuring: 1, all of it, 0, nothing. A round times the
    reference too shortly for all of it to count; a run times it for longer. Absent where it was not looked for."""
    drift: Figure | None = None
    """How much longer the same work took in the machine's slow moments (90th percentile) than in its fast ones (10th)."""

    def floor(self, model: ModelSpec, used: Collection[ShardingType] = ()) -> Floor:
        """What no step of the model is shorter than: its process launches kernels and its input arrives while devices work.

        `used` are the sharding types of its tables; where none are given, it is the shortest of all placements.
        """
        launched_us = 0.0 if self.launches is None else self.launches.time_us(model) + self._types_us(model, used)
        arrived_us = 0.0 if self.ingest is None else self.ingest.time_us(model)
        if launched_us == arrived_us == 0:
            return Floor(0.0, "")
        return Floor(arrived_us, "input") if arrived_us > launched_us else Floor(launched_us, LAUNCHES)

    def _types_us(self, model: ModelSpec, used: Collection[ShardingType]) -> float:
        """Microseconds of launching what these sharding types need; or the least that any table's do."""
        if used or not self.sharding_type_us:
            return add_up(self.sharding_type_us.get(each, 0.0) for each in used)
        open_types = {model.limits(table).sharding_types or tuple(ShardingType) for table in model.tables}
        return max(min(self.sharding_type_us.get(each, 0.0) for each in types) for types in open_types)

    def launched_us(self, model: ModelSpec, used: Collection[ShardingType]) -> float:
        """Microseconds of launching a step whose tables have these sharding types, where one type takes longer than another; else 0."""
        return self.floor(model, used).time_us if self.launches is not None and self.sharding_type_us else 0.0

    @property
    def id_exchange(self) -> CollectiveCost:
        """The cost of exchanging ids and lengths."""
        return self.input_dist or self.all_to_all

    def kernel(self, device: str, kernel: ComputeKernel) -> KernelCost | None:
        """The cost of the kernel on this kind of device; None where there is none."""
        return next((cost for cost in self.kernels if cost.device == device and cost.kernel is kernel), None)

    def update_us(self, optimizer: Optimizer, parameter_bytes: ArrayLike) -> Times:
        """Microseconds of the optimizer's step over so many bytes of dense layers or replicated tables.

        An optimizer that was not measured costs what the costliest does.
        """
        costliest = max(self.per_updated_byte_us.values(), default=0.0)
        return np.asarray(parameter_bytes, dtype=np.float64) * self.per_updated_byte_us.get(optimizer, costliest)

    def dense_cost(self, device: str) -> DenseCost:
        """The cost of the dense layers on this kind of device. Raises ValueError where there is none."""
        found = next((cost for cost in self.dense if cost.device == device), None)
        if found is None:
            raise ValueError(f"the cost model has no dense layers for {device}")
        return found
