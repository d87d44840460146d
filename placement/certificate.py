"""The proof that a plan can carry: weights, from which anyone can work out a bound, and cases. placement/proof/ checks it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from emplace.placement.document import Document
from emplace.placement.model import ComputeKernel, Name, ShardingType
from emplace.placement.stages import PLACED_STAGES, Stage

MOST_US = 1e15
"""The longest step that a proof is about: thirty years."""

Weight = Annotated[float, Field(ge=0, le=1e6)]


class LargestShard(Document):
    """The share of a stage's length that is charged to a rank with the largest shard of one table: to that, and to what every rank has of others."""

    table: Name
    stage: Stage
    share: Weight


class FullestRank(Document):
    """The share of a stage's length that is charged to the rank of a class with most of some tables, of those that are whole on one."""

    of_class: Annotated[int, Field(strict=True, ge=0)]
    stage: Stage
    tables: Annotated[tuple[Name, ...], Field(min_length=1)]
    most_us: Annotated[float, Field(gt=0)]
    """A whole table counts as what it takes in the stage, at most so much."""
    share: Weight


class Weights(Document):
    """What each load weighs. Classes of ranks and groups of nodes are in the order of their first rank.

    Of each stage, the shares of all ranks, of largest shards and of fullest ranks come to at most 1.
    """

    stages: tuple[Annotated[tuple[Weight, ...], Field(min_length=len(PLACED_STAGES), max_length=len(PLACED_STAGES))], ...]
    """[class][stage] the share of a stage's length that is charged to each rank of a class, stages as in PLACED_STAGES."""
    hbm: tuple[Weight, ...]
    """[class] for a byte of HBM, in microseconds; of weights that only prove that nothing fits, without a unit."""
    ddr: tuple[Weight, ...]
    """[group of nodes] for a byte of system memory, likewise."""
    largest: tuple[LargestShard, ...] = ()
    fullest: tuple[FullestRank, ...] = ()


class HasWay(Document):
    """That a table has this sharding type and kernel, and is on servers or is not."""

    table: Name
    sharding_type: ShardingType
    compute_kernel: ComputeKernel
    on_servers: bool = False


class HasAtMost(Document):
    """That the columns of a table are in at most so many pieces."""

    table: Name
    most_pieces: Annotated[int, Field(strict=True, ge=1, le=10**6)]


class ProofCase(Document):
    """The proof for some placements: weights for all of them, and where these are not enough, two cases."""

    weights: tuple[Weights, ...] = ()
    cases: Cases | None = None


class Cases(Document):
    """Two cases between which every placement is in one: what is said of a table is so, or it is not."""

    says: HasWay | HasAtMost
    so: ProofCase
    otherwise: ProofCase


class ProofPart(ProofCase):
    """The proof for all placements on one set of ranks."""

    each_rank: bool = False
    """Whether each rank is a class of its own, and each node a group. Else the ranks of a device kind are a class, servers apart, and
    the trainers' nodes a group, and the servers' another. Cases are of classes of ranks."""


class Proof(Document):
    """What it proves, and the weights and cases that do."""

    bound_us: Annotated[float, Field(ge=0, le=MOST_US)] | None = None
    """No placement has a shorter step. Absent: there is no placement."""
    trainers: ProofPart
    """Placements on trainers alone."""
    with_servers: ProofPart | None = None
    """Placements in a job with remote servers, where the question allows them."""
