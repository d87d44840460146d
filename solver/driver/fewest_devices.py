"""The fewest devices that a model fits: every smaller job is proven impossible, or named as undecided.

Whether a job fits need not follow from a smaller one: the batch of all trainers grows with their number, and with it the
buffers of every table. So sizes are tried one after the other from the smallest, and none is inferred from another,
except where the weights alone are more than all memory of a job: then so they are for every smaller one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emplace.placement.memory import row_bytes
from emplace.placement.model import Tier
from emplace.placement.plan import FewestDevices, JobSize, Question, job_sizes, sized
from emplace.solver.driver.attempt import Attempt, allowed_tiers, attempt, quick_placement, variants
from emplace.solver.model.build import price
from emplace.solver.result import ShouldStop, StoppedBy

TRIED_SHARE = 0.1
"""Of the limit, for each size that is neither packed in a moment nor refuted by a sum."""
MOST_SECONDS = 2.0
ANY_GAP = 0.9


@dataclass(frozen=True)
class Smallest:
    """`question` is that of the smallest size that fits, with a first plan; or of the largest size, where none fits."""

    question: Question
    record: FewestDevices
    first: Attempt


def smallest_size(question: Question, should_stop: ShouldStop | None) -> Smallest:
    """Try sizes from the smallest. Raises InvalidDocument for ranks that the host can't have."""
    impossible: list[JobSize] = []
    undecided: list[JobSize] = []
    for size in job_sizes(question):
        here = sized(question, size)
        first = _tried(here, should_stop)
        if first.placement is not None:
            return Smallest(here, FewestDevices(size=size, impossible=tuple(impossible), undecided=tuple(undecided)), first)
        (impossible if first.stopped_by is StoppedBy.PROOF else undecided).append(size)
    cancelled = should_stop is not None and should_stop()
    unsettled = StoppedBy.CANCELLED if cancelled else StoppedBy.LIMIT
    nothing = _nothing(unsettled if undecided else StoppedBy.PROOF)
    return Smallest(here, FewestDevices(size=None, impossible=tuple(impossible), undecided=tuple(undecided)), nothing)


def _tried(question: Question, should_stop: ShouldStop | None) -> Attempt:
    """A plan of any quality, a proof that there is none, or neither."""
    if should_stop is not None and should_stop():
        return _nothing(StoppedBy.CANCELLED)
    if _weight_bytes(question) > _memory_bytes(question):
        return _nothing(StoppedBy.PROOF)
    for variant in variants(question):
        if (packed := quick_placement(price(question, variant.topology, variant.tiers))) is not None:
            return Attempt(packed, 0.0, StoppedBy.LIMIT, "none", 0)
    seconds = min(question.options.time_limit * TRIED_SHARE, MOST_SECONDS)
    options = question.options.model_copy(update={"time_limit": seconds, "gap": ANY_GAP})
    return attempt(question.model_copy(update={"options": options}), None, should_stop)


def _nothing(stopped_by: StoppedBy) -> Attempt:
    return Attempt(None, math.inf if stopped_by is StoppedBy.PROOF else 0.0, stopped_by, "each size", 0)


def _weight_bytes(question: Question) -> int:
    """The least that all tables take, wherever they are."""
    return sum(int(table.num_embeddings * row_bytes(table.data_type, table.embedding_dim)) for table in question.model.tables)


def _memory_bytes(question: Question) -> int:
    tiers = allowed_tiers(question)
    topology = question.topology(with_servers=Tier.REMOTE in tiers)
    nodes = topology.trainer_nodes
    return (
        sum(rank.hbm_capacity_bytes for rank in topology.ranks) * (Tier.HBM in tiers)
        + sum(topology.node_ddr_capacity_bytes[:nodes]) * (Tier.DDR in tiers)
        + sum(topology.node_ddr_capacity_bytes[nodes:])
    )
