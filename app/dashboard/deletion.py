"""What is asked before anything is deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from emplace.app.dashboard import tones
from emplace.app.dashboard.plans.list_page import PlanLine


@dataclass(frozen=True)
class Doomed:
    id: str
    href: str
    name: str
    word: str
    tone: tones.Tone
    note: str
    asked_at: datetime


@dataclass(frozen=True)
class Deletion:
    """`what` and `whats` name one and several of `rows`, `list` is the address of all, `besides` what goes with them."""

    what: str
    whats: str
    list: str
    besides: str
    rows: tuple[Doomed, ...]


def of_plans(lines: Iterable[PlanLine]) -> Deletion:
    rows = tuple(
        Doomed(each.id, f"/plans/{each.id}", f"{each.model} on {each.host}", each.word, each.tone, each.options, each.asked_at)
        for each in lines
    )
    return Deletion("plan", "plans", "/", "Their runs, progress and pipelines go with them. What is at work on them ends.", rows)
