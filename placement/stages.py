"""The step-time model. Training is bulk-synchronous: every stage waits for its slowest rank.

    step = overhead + sum over stages of (fixed + max over ranks of the rank's load)

A rank's load in a stage is the sum over its shards, so all of this is linear in the placement.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np

from placement.cost_model import CostModel
from placement.dense_part import dense_part
from placement.model import ComputeKernel, ModelSpec, ShardingType
from placement.topology import Topology
from placement.workload import OUTPUT_BYTES, ROW_SPLIT, ShardWorkload


class Stage(StrEnum):
    """In the order of a training step."""

    INPUT_DIST = "input_dist"
    LOOKUP_FORWARD = "lookup_forward"
    OUTPUT_DIST = "output_dist"
    DENSE = "dense"
    GRADIENT_DIST = "gradient_dist"
    LOOKUP_BACKWARD = "lookup_backward"
    ALL_REDUCE = "all_reduce"


PLACED_STAGES = tuple(stage for stage in Stage if stage is not Stage.DENSE)
"""The stages that depend on the placement."""


def shard_stages_us(
    cost: CostModel,
    device: str,
    kernel: ComputeKernel,
    sharding_type: ShardingType,
    work: ShardWorkload,
    *,
    row_bytes: Any,
    columns: Any,
    weight_bytes: Any,
    hit_rate: Any = 0.0,
) -> dict[Stage, Any]:
    """Microseconds that one shard adds to its rank in each stage. `hit_rate` is the cache's, for fused_uvm_caching."""
    forward, backward = _lookup_us(cost, device, kernel, work, row_bytes, columns, hit_rate)
    dist = cost.reduce_scatter if sharding_type in ROW_SPLIT else cost.all_to_all
    near, far = work.all_reduce_share
    return {
        Stage.INPUT_DIST: cost.all_to_all.time_us(*work.input_bytes),
        Stage.LOOKUP_FORWARD: forward,
        Stage.OUTPUT_DIST: dist.time_us(*work.output_bytes),
        Stage.GRADIENT_DIST: dist.time_us(*work.output_bytes),
        Stage.LOOKUP_BACKWARD: backward,
        Stage.ALL_REDUCE: cost.all_reduce.time_us(weight_bytes * near, weight_bytes * far),
    }


def _lookup_us(
    cost: CostModel, device: str, kernel: ComputeKernel, work: ShardWorkload, row_bytes: Any, columns: Any, hit_rate: Any
) -> tuple[Any, Any]:
    if kernel is not ComputeKernel.FUSED_UVM_CACHING:
        return _kernel_us(cost, device, kernel, work.lookups, work.unique_rows, work.bags, row_bytes, columns)
    missed = 1.0 - np.asarray(hit_rate)
    hits = _kernel_us(
        cost, device, ComputeKernel.FUSED, work.lookups * hit_rate, work.unique_rows * hit_rate, work.bags, row_bytes, columns
    )
    misses = _kernel_us(cost, device, ComputeKernel.FUSED_UVM, work.lookups * missed, work.unique_rows * missed, 0.0, row_bytes, columns)
    return hits[0] + misses[0], hits[1] + misses[1]


def _kernel_us(
    cost: CostModel, device: str, kernel: ComputeKernel, lookups: Any, unique: Any, bags: Any, row_bytes: Any, columns: Any
) -> tuple[Any, Any]:
    entry = cost.kernel(device, kernel)
    if entry is None:
        raise ValueError(f"the cost model has no {kernel} kernel for {device}")
    bag_bytes = columns * OUTPUT_BYTES
    arguments = (lookups, unique, row_bytes, bags, bag_bytes)
    return entry.forward.time_us(*arguments), entry.backward.time_us(*arguments)


def rank_stages_us(cost: CostModel, model: ModelSpec, topology: Topology) -> dict[Stage, float]:
    """What every trainer pays whatever its shards: fixed parts of the collectives, dense layers, their all-reduce.

    The backward pass of a dense layer takes twice the flop of its forward pass. Of several kinds of device, all wait for the slowest.
    """
    dense, trainers = dense_part(model), len(topology.trainers)
    flops = 3 * dense.forward_flops * model.local_batch_size
    local, nodes = topology.trainers_per_node, topology.trainer_nodes
    dense_bytes = dense.parameters * OUTPUT_BYTES
    # The dense layers are replicated, so the slowest kind of device sets their time.
    devices = [cost.dense_cost(kind) for kind in dict.fromkeys(rank.device for rank in topology.trainers)]
    alone = len(topology.ranks) == 1
    reduce_us = cost.all_reduce.time_us(dense_bytes * 2 * (local - 1) / local, dense_bytes * 2 * (nodes - 1) / nodes / local)
    return {
        Stage.INPUT_DIST: 0.0 if alone else cost.all_to_all.fixed_us,
        Stage.OUTPUT_DIST: 0.0 if alone else cost.all_to_all.fixed_us,
        Stage.DENSE: max(device.fixed_us + flops * device.per_flop_us for device in devices),
        Stage.GRADIENT_DIST: 0.0 if alone else cost.all_to_all.fixed_us,
        Stage.ALL_REDUCE: cost.all_reduce.fixed_us + float(reduce_us) if trainers > 1 else 0.0,
    }
