"""What arrives over the networks of trainers in a step, beside its input: no step is shorter than all of it takes on a node's wire.

Wires carry both directions at once, so what arrives counts and what leaves does not. The trainers of a node share its wire.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.placement.cost_model import CostModel
from emplace.placement.dense_part import dense_part
from emplace.placement.model import ModelSpec, Tier
from emplace.placement.topology import Topology
from emplace.placement.workload import OUTPUT_BYTES, ShardWorkload, all_reduce_share


def of_shards_us(
    cost: CostModel, work: ShardWorkload, weight_bytes: NDArray[np.int64], topology: Topology
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[S] microseconds of each shard's bytes (on the wire of its own rank, on each trainer's).

    Ids and gradients arrive where the shard is, vectors where their examples are. To remote servers ids and gradients leave.
    """
    nothing, per_vector_byte_us = np.zeros(len(weight_bytes)), cost.all_to_all.per_inter_node_byte_us
    if work.messages:
        vectors = work.of_each_trainer(topology)[1] if topology.served_tier is Tier.REMOTE else 0.0
        return nothing, nothing + vectors * per_vector_byte_us
    here_us = work.input_bytes[1] * cost.id_exchange.per_inter_node_byte_us + work.gradient_bytes[1] * per_vector_byte_us
    if work.copies[0]:
        here_us = _reduced_us(cost, weight_bytes, *work.copies)
    return nothing + here_us, nothing + work.output_bytes[1] * per_vector_byte_us / len(topology.trainers)


def of_dense_us(cost: CostModel, model: ModelSpec, topology: Topology) -> float:
    """Microseconds of the dense layers' gradients on each trainer's wire."""
    copies = topology.trainer_nodes, topology.trainers_per_node
    return float(_reduced_us(cost, dense_part(model).parameters * OUTPUT_BYTES, *copies))


def _reduced_us(cost: CostModel, parameter_bytes: Any, nodes: int, trainers_per_node: int) -> Any:
    """Microseconds of gradients that are reduced, or of the parameters that dense servers answer them with."""
    if cost.dense_servers is not None:
        return parameter_bytes / trainers_per_node * cost.dense_servers.per_trainer_byte_us / cost.dense_servers.every
    return parameter_bytes * all_reduce_share(nodes, trainers_per_node)[1] * cost.all_reduce.per_inter_node_byte_us


def on_wires_us(input_us: float, arriving_us: NDArray[np.float64], topology: Topology) -> float:
    """Microseconds of the fullest wire: the input of its trainers and what else arrives at them ([T] each on an equal share of it)."""
    if input_us == 0:
        return 0.0  # without input, a step's stages take at least as long
    return input_us + float(arriving_us.reshape(topology.trainer_nodes, -1).mean(axis=1).max())
