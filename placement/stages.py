"""The step-time model. Training is bulk-synchronous: every stage waits for its slowest rank.

    step = max(launches, overhead + sum over stages of (fixed + max over ranks of the rank's load))

A rank's load in a stage is the sum over its shards. The fixed part is that of the dense layers, and of each sharding type
that any table uses: TorchRec exchanges ids, vectors and gradients for each type apart. Where ranks share cores, stages are as
stage_lengths_us says. Launches are what a process needs while its device works, so no step is shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.placement.cost_model import CostModel, KernelCost
from emplace.placement.dense_part import dense_part
from emplace.placement.host import HOST_CPUS
from emplace.placement.memory import row_bytes
from emplace.placement.messages_cost import NO_MESSAGES
from emplace.placement.model import ComputeKernel, ModelSpec, Optimizer, ShardingType, Tier
from emplace.placement.replicated import exchange_start_us, exchange_us, optimizer_us
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.topology import Topology
from emplace.placement.workload import OUTPUT_BYTES, ROW_SPLIT, ShardWorkload


class Stage(StrEnum):
    """The stages of a training step, in their order."""

    INPUT_DIST = "input_dist"
    LOOKUP_FORWARD = "lookup_forward"
    OUTPUT_DIST = "output_dist"
    DENSE = "dense"
    GRADIENT_DIST = "gradient_dist"
    LOOKUP_BACKWARD = "lookup_backward"
    ALL_REDUCE = "all_reduce"


PLACED_STAGES = tuple(stage for stage in Stage if stage is not Stage.DENSE)
"""The stages that depend on the placement."""


def shard_stages_us(cost: CostModel, device: str, sharding: TableSharding, shape: ShardShape, work: ShardWorkload) -> dict[Stage, Any]:
    """Microseconds that a shard on this kind of device adds to its rank in each stage; none in the dense layers.

    Raises ValueError for a kernel that `cost` does not price on the device.
    """
    forward, backward = _LookupPricer(cost, device, sharding, shape, work).time_us()
    splits_rows, replicated = sharding.sharding_type in ROW_SPLIT, sharding.sharding_type is ShardingType.DATA_PARALLEL
    weight_bytes = shape.rows * row_bytes(sharding.data_type, shape.columns)
    bucketed_us = work.lookups * cost.per_bucketed_id_us if splits_rows else 0.0
    bags_us = 0.0 if replicated else work.bags * cost.per_exchanged_bag_us
    reordered_us = work.permuted_vectors * (cost.per_permuted_vector_us + shape.columns * work.value_bytes * cost.per_permuted_byte_us)
    own_links = slice(2) if device == HOST_CPUS else slice(3)  # what CPUs send to their node's devices is charged to those
    ids_made_us, *made_us = (0.0, 0.0, 0.0) if device == HOST_CPUS else _made_by_server_us(cost, work)
    vectors_us, gradients_us = (
        _exchange_us(cost, sharding.sharding_type, work, sent[own_links])
        + reordered_us
        + converted * (cost.per_converted_byte_us or 0.0)
        + made
        for sent, converted, made in zip((work.output_bytes, work.gradient_bytes), work.converted_bytes, made_us, strict=True)
    )
    reduced_us = 0.0
    if replicated:
        reduced_us = exchange_us(cost, weight_bytes, 1, *work.copies) + optimizer_us(cost, sharding.optimizer, weight_bytes)
    return {
        Stage.INPUT_DIST: cost.id_exchange.time_us(*work.input_bytes[own_links]) + bags_us + bucketed_us + ids_made_us,
        Stage.LOOKUP_FORWARD: forward,
        Stage.OUTPUT_DIST: vectors_us,
        Stage.GRADIENT_DIST: gradients_us,
        Stage.LOOKUP_BACKWARD: backward,
        Stage.ALL_REDUCE: reduced_us,
    }


def _exchange_us(cost: CostModel, sharding_type: ShardingType, work: ShardWorkload, sent_bytes: tuple[Any, ...]) -> Any:
    """Microseconds of a shard's vectors or gradients on their way: partial sums are reduced, all others are sent as they are."""
    sent_us = cost.all_to_all.time_us(*sent_bytes)
    if sharding_type not in ROW_SPLIT:
        return sent_us
    # Of the others the node's ranks have added up before anything leaves it.
    reduced_us = cost.reduce_scatter.ring_us if sharding_type is ShardingType.ROW_WISE else cost.reduce_scatter.time_us
    return np.where(work.is_pooled, reduced_us(*sent_bytes), sent_us)


def _made_by_server_us(cost: CostModel, work: ShardWorkload) -> tuple[Any, Any, Any]:
    """Microseconds of a remote server's CPUs for the messages of a shard: (ids, vectors, gradients). A trainer's shards have none."""
    made, sent = cost.server_messages or NO_MESSAGES, (work.input_bytes, work.output_bytes, work.gradient_bytes)
    ids, vectors, gradients = (made.of_server_us(work.messages, each[2]) for each in sent)
    return ids, vectors, gradients


def served_stages_us(cost: CostModel, work: ShardWorkload, topology: Topology) -> dict[Stage, Any]:
    """Microseconds that a server's shard adds to every trainer: all that servers exchange crosses the trainers' links.

    So an exchange with remote servers lasts as long as the bytes of all of them take on the network of all trainers, or those of the
    busiest on its own. The CPUs of trainers handle what those of servers do: a message of each shard in each exchange, and its bytes.
    What a node's CPUs exchange crosses its devices' links to system memory. A trainer's shards add nothing.
    """
    stages = (Stage.INPUT_DIST, cost.id_exchange), (Stage.OUTPUT_DIST, cost.all_to_all), (Stage.GRADIENT_DIST, cost.all_to_all)
    sent = list(zip(stages, work.of_each_trainer(topology), strict=True))
    if topology.served_tier is Tier.CPU:
        return {stage: links.device_link_us(each) for (stage, links), each in sent}
    made, messages = cost.server_messages or NO_MESSAGES, work.messages // len(topology.trainers)
    return {stage: links.time_us(0.0, each) + made.of_trainer_us(messages, each) for (stage, links), each in sent}


def stage_lengths_us(loads_us: NDArray[np.float64], cost: CostModel) -> NDArray[np.float64]:
    """[K] how long the stages last, from the loads of R ranks ([R, K]): as long as the slowest rank needs.

    With s ranks to a core, loads are what ranks need while all of them work. A rank stays on its core for a stage, and the stage
    lasts until the core of the slowest rank has done the work of all that share it, which are any s - 1 of the others:

        mean + (slowest - mean) (R - s) / (s (R - 1))

    That is the slowest with a core for each rank, and the mean with one core for all.
    """
    slowest, share = loads_us.max(axis=0), slowest_share(cost, len(loads_us))
    if share == 1:
        return np.asarray(slowest)
    mean = loads_us.mean(axis=0)
    return np.asarray(mean + (slowest - mean) * share)


def slowest_share(cost: CostModel, ranks: int) -> float:
    """The share of what the slowest of so many ranks has beyond their mean that makes a stage longer: all of it with a core for each."""
    if ranks == 1:
        return 1.0
    sharing = min(cost.ranks_per_core, ranks)
    return (ranks - sharing) / (sharing * (ranks - 1))


@dataclass(frozen=True)
class _LookupPricer:
    """Prices one shard's lookups."""

    cost: CostModel
    device: str
    sharding: TableSharding
    shape: ShardShape
    work: ShardWorkload

    def time_us(self) -> tuple[Any, Any]:
        """(forward, backward)."""
        if self.sharding.kernel is not ComputeKernel.FUSED_UVM_CACHING:
            return self._of_kernel(self.sharding.kernel, 1.0, 1.0)
        if (beyond := self.cost.kernel(self.device, ComputeKernel.FUSED_UVM_CACHING)) is not None:
            return self._cached(beyond)
        hits = self._of_kernel(ComputeKernel.FUSED, self.sharding.hit_rate, 1.0)
        misses = self._of_kernel(ComputeKernel.FUSED_UVM, self._miss_rate, 0.0)
        return hits[0] + misses[0], hits[1] + misses[1]

    @property
    def _miss_rate(self) -> Any:
        return 1.0 - np.asarray(self.sharding.hit_rate) if self.sharding.miss_rate is None else self.sharding.miss_rate

    def _cached(self, beyond: KernelCost) -> tuple[Any, Any]:
        """All lookups once their rows are there, finding out what misses, and fetching that: what misses is rarely looked up twice.

        Rows of a batch for which the cache has no room stay where they are, so the backward writes them there.
        """
        forward, backward = self._of_kernel(ComputeKernel.FUSED, 1.0, 1.0)
        fetched = np.minimum(self.work.lookups * self._miss_rate, self.work.unique_rows)
        width_bytes = row_bytes(self.sharding.data_type, self.shape.columns)
        updated = beyond.backward_of(self.sharding.optimizer, self.sharding.data_type)
        outside_us = self._kernel(ComputeKernel.FUSED_UVM).backward_of(Optimizer.SGD, self.sharding.data_type)
        return (
            forward + beyond.forward.time_us(self.work.lookups, fetched, width_bytes, 0.0, 0.0, 0.0, self.shape.rows),
            backward
            + updated.time_us(0.0, self.work.unique_rows, width_bytes, 0.0, 0.0, 0.0, self.shape.rows)
            + outside_us.rows_us(self._rows_left_out, width_bytes),
        )

    @property
    def _rows_left_out(self) -> Any:
        """Different rows of a batch that the cache has no room for. Of several caches at once, as bounds have them, none."""
        if self.sharding.miss_rate is not None:
            return 0.0
        return np.maximum(0.0, self.work.unique_rows - np.ceil(self.shape.rows * np.asarray(self.sharding.load_factor)))

    def _kernel(self, kernel: ComputeKernel) -> KernelCost:
        entry = self.cost.kernel(self.device, kernel)
        if entry is None:
            raise ValueError(f"the cost model has no {kernel} kernel for {self.device}")
        return entry

    def _of_kernel(self, kernel: ComputeKernel, share: Any, bag_share: float) -> tuple[Any, Any]:
        """(forward, backward) of these shares of the shard's lookups and bags with one kernel."""
        entry = self._kernel(kernel)
        lookups, unique_rows = self.work.lookups * share, self.work.unique_rows * share
        vectors, uneven_bags = self.work.vectors * bag_share, self.work.uneven_bags * bag_share
        width_bytes = row_bytes(self.sharding.data_type, self.shape.columns)
        arguments = (lookups, unique_rows, width_bytes, vectors, uneven_bags, self.shape.columns * self.work.value_bytes, self.shape.rows)
        backward = entry.backward_of(self.sharding.optimizer, self.sharding.data_type)
        return entry.forward.time_us(*arguments), backward.time_us(*arguments)


def rank_stages_us(cost: CostModel, model: ModelSpec, topology: Topology) -> dict[Stage, float]:
    """Microseconds that every trainer pays whatever its shards: the dense layers, the exchange of their gradients and their optimizer.

    Of several kinds of device, all wait for the slowest.
    """
    dense, copies = dense_part(model), (topology.trainer_nodes, topology.trainers_per_node)
    # The dense layers are replicated, so the slowest kind of device sets their time.
    devices = [cost.dense_cost(kind) for kind in dict.fromkeys(rank.device for rank in topology.trainers)]
    dense_bytes = dense.parameters * OUTPUT_BYTES
    exchanged_us = exchange_start_us(cost, *copies) + float(exchange_us(cost, dense_bytes, len(dense.layers), *copies))
    updated_us = float(optimizer_us(cost, model.optimizer.of_dense_layers, dense_bytes))
    return {
        Stage.DENSE: max(device.time_us(dense, model.local_batch_size, model.num_features, model.dense_precision) for device in devices),
        Stage.ALL_REDUCE: updated_us + exchanged_us,
    }


def sharding_type_stages_us(cost: CostModel, sharding_type: ShardingType, topology: Topology) -> dict[Stage, float]:
    """Microseconds that every rank pays once for a sharding type that is in use, however many tables use it.

    TorchRec 1.8 builds an input distribution, lookups and an output distribution for each sharding type of a collection
    (torchrec/distributed/embeddingbag.py, `create_sharding_infos_by_sharding`), and wraps replicated tables on their own. Messages are
    counted among trainers: a server that holds nothing gets none.
    """
    overhead_us, trainers = cost.sharding_type_us.get(sharding_type, 0.0), len(topology.trainers)
    if sharding_type is ShardingType.DATA_PARALLEL:
        start_us = exchange_start_us(cost, topology.trainer_nodes, topology.trainers_per_node)
        return {Stage.LOOKUP_FORWARD: overhead_us} | ({Stage.ALL_REDUCE: start_us} if start_us else {})
    if len(topology.ranks) == 1:
        return {Stage.LOOKUP_FORWARD: overhead_us}
    dist = cost.reduce_scatter if sharding_type in ROW_SPLIT else cost.all_to_all
    return {
        Stage.INPUT_DIST: cost.id_exchange.start_us(trainers),
        Stage.LOOKUP_FORWARD: overhead_us,
        Stage.OUTPUT_DIST: dist.start_us(trainers),
        Stage.GRADIENT_DIST: dist.start_us(trainers),
    }
