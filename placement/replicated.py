"""What parameters cost that every trainer holds, of dense layers or of replicated tables: their exchange and the optimizer's step."""

from __future__ import annotations

from typing import Any

from emplace.placement.cost_model import CostModel
from emplace.placement.model import Optimizer
from emplace.placement.workload import all_reduce_share


def exchange_start_us(cost: CostModel, nodes: int, trainers_per_node: int) -> float:
    """Microseconds of an exchange of gradients, however few its bytes: an all-reduce of all trainers, or of those of each node and then
    with dense servers."""
    if cost.dense_servers is None:
        trainers = nodes * trainers_per_node
        return cost.all_reduce.start_us(trainers) if trainers > 1 else 0.0
    within = cost.all_reduce.start_us(trainers_per_node) if trainers_per_node > 1 else 0.0
    return within + cost.dense_servers.start_us


def exchange_us(cost: CostModel, parameter_bytes: Any, tensors: int, nodes: int, trainers_per_node: int) -> Any:
    """Microseconds of the exchange that grow with the bytes, and with the tensors, a message each to a server, that they are of."""
    near, far = all_reduce_share(nodes, trainers_per_node)
    if cost.dense_servers is None:
        return cost.all_reduce.ring_us(parameter_bytes * near, parameter_bytes * far)
    within_us = cost.all_reduce.time_us(parameter_bytes * near, 0.0)
    return within_us + cost.dense_servers.time_us(parameter_bytes, tensors, nodes, trainers_per_node)


def optimizer_us(cost: CostModel, optimizer: Optimizer, parameter_bytes: Any) -> Any:
    """Microseconds of the optimizer's step: of every trainer, or of dense servers that gradients go to."""
    servers = cost.dense_servers
    if servers is not None and servers.every == 1:
        return servers.update_us(optimizer, parameter_bytes)
    return cost.update_us(optimizer, parameter_bytes)
