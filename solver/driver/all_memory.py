"""What is told of a question in a moment: whether its weights are more than all memory. Then no placement fits."""

from __future__ import annotations

from emplace.placement.memory import weight_bytes
from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.placement.topology import SERVED


def weights_exceed_memory(question: Question) -> bool:
    """Whether the weights alone are more than all memory of the tiers that the question allows. Raises InvalidDocument for ranks that the
    host can't have."""
    return sum(map(weight_bytes, question.model.tables)) > _memory_bytes(question)


def _memory_bytes(question: Question) -> int:
    tiers = question.allowed_tiers
    topology = question.topology(with_servers=bool(tiers & SERVED))
    nodes = topology.trainer_nodes
    return (
        sum(rank.hbm_capacity_bytes for rank in topology.ranks) * (Tier.HBM in tiers)
        + sum(topology.node_ddr_capacity_bytes[:nodes]) * bool(tiers & {Tier.DDR, Tier.CPU})
        + sum(topology.node_ddr_capacity_bytes[nodes:])
    )
