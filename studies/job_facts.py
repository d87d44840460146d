"""What a job says of itself that an overview of many jobs counts."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from emplace.placement.document import Document
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, RankLoad
from emplace.placement.power import busy_shares
from emplace.placement.stages import Stage
from emplace.placement.sums import add_up
from emplace.studies.distribution import Tally, tally, three_digits

ON_NETWORK = (Stage.INPUT_DIST, Stage.OUTPUT_DIST, Stage.GRADIENT_DIST, Stage.ALL_REDUCE)

RESOURCES = ("device_memory", "system_memory", "trainers", "parameter_servers", "network", *(stage.value for stage in Stage))
"""That plans say the utilisation of, in the order in which they are shown."""
SERVERS = ("trainers", "parameter_servers", "dense_servers")


class JobFacts(Document):
    """What one job says of itself; the rest is not there."""

    utilisation: dict[str, float] = Field(default_factory=dict)
    """From 0 to 1, by resource."""
    servers: dict[str, int] = Field(default_factory=dict)
    """By kind."""


class TableFacts(Document):
    """How the figures of a model's tables are spread."""

    hash_sizes: Tally = ()
    embedding_dims: Tally = ()
    feature_lengths: Tally = ()
    """Mean ids of an example."""


def facts_of(plan: Plan) -> JobFacts | None:
    """The facts of a plan; None where it has no placement, and so is no job."""
    if not plan.has_placement or not plan.step_time_us or not plan.num_trainers:
        return None
    shares = {name: three_digits(min(1.0, max(0.0, share))) for name, share in _utilisation(plan, plan.step_time_us)}
    return JobFacts(utilisation=shares, servers=_servers(plan))


def table_facts_of(model: ModelSpec) -> TableFacts:
    """The facts of a model's tables."""
    return TableFacts(
        hash_sizes=tally(table.num_embeddings for table in model.tables),
        embedding_dims=tally(table.embedding_dim for table in model.tables),
        feature_lengths=tally(feature.lengths.mean for table in model.tables for feature in table.features),
    )


def _servers(plan: Plan) -> dict[str, int]:
    dense = plan.question.host.dense_servers
    trainers = {rank.node for rank in plan.ranks if not rank.is_server}
    nodes = {rank.node for rank in plan.ranks}  # CPUs that look up beside a node's devices are on the node of trainers
    return {
        "trainers": len(trainers),
        "parameter_servers": len(nodes - trainers),
        "dense_servers": 0 if dense is None else dense.count,
    }


def _utilisation(plan: Plan, step_us: float) -> Iterator[tuple[str, float]]:
    """Memories by the fullest one, everything else by the share of the predicted step in which the mean rank or node works."""
    yield from _fullest("device_memory", [(rank.hbm_bytes, rank.hbm_capacity_bytes) for rank in plan.ranks])
    yield from _fullest("system_memory", [(node.ddr_bytes, node.ddr_capacity_bytes) for node in plan.nodes])
    trainers, nodes = [rank for rank in plan.ranks if not rank.is_server], busy_shares(plan)
    alone = len({rank.node for rank in trainers})
    yield "trainers", add_up(nodes[:alone]) / alone
    if nodes[alone:]:
        yield "parameter_servers", add_up(nodes[alone:]) / len(nodes[alone:])
    if len(nodes) > 1:
        yield "network", add_up(_mean_us(trainers, stage) for stage in ON_NETWORK) / step_us
    for stage in Stage:
        yield stage.value, _mean_us(trainers, stage) / step_us


def _fullest(name: str, memories: list[tuple[int, int]]) -> Iterator[tuple[str, float]]:
    shares = [used / capacity for used, capacity in memories if capacity]
    if shares:
        yield name, max(shares)


def _mean_us(ranks: list[RankLoad], stage: Stage) -> float:
    return add_up(rank.stages_us.get(stage, 0.0) for rank in ranks) / len(ranks)
