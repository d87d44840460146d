"""The programs whose best plan is the answer: the trainers alone, and with servers beside them where those are allowed.

The two are separate because a process group with servers can't run the sharding types that spread over every rank. The answer
is the better of the two plans; its bound the lower of the two bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.placement.topology import SERVED, Topology


@dataclass(frozen=True)
class Variant:
    """A topology with the tiers that it is solved with."""

    name: str
    topology: Topology
    tiers: frozenset[Tier]


def variants(question: Question) -> list[Variant]:
    """The variants of a question, trainers alone first. Raises InvalidDocument for ranks that the host can't have."""
    tiers = question.allowed_tiers
    alone = question.topology(with_servers=False)
    found = [Variant("trainers", alone, tiers - SERVED)] if tiers - SERVED else []
    if tiers & SERVED:
        found.append(Variant("trainers and servers", question.topology(with_servers=True), tiers))
    return found
