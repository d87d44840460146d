"""What processes of fleets are told, who each of them is, and what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from emplace.executor.asynchronous.settings import Averaging, FleetSettings
from emplace.placement.document import Document


class Role(StrEnum):
    SPARSE_SERVER = "sparse_server"
    DENSE_SERVER = "dense_server"
    THREAD = "thread"
    SHADOW = "shadow"
    """Averages a trainer's dense parameters in the background."""


class FleetJob(Document):
    """One fleet's training. Its processes are sparse servers, then dense ones, then threads trainer by trainer, then shadows."""

    settings: FleetSettings
    synchronous: bool = False
    """Instead: all threads take each step together on parts of one batch."""

    @property
    def roles(self) -> list[tuple[Role, int]]:
        """Who each process is: its role, and its number among those of the role."""
        settings, shadows = self.settings, self.settings.averaging is Averaging.SHADOWSYNC and not self.synchronous
        counts = {
            Role.SPARSE_SERVER: settings.sparse_servers,
            Role.DENSE_SERVER: 0 if self.synchronous else settings.dense_servers,
            Role.THREAD: settings.customers,
            Role.SHADOW: settings.trainers if shadows else 0,
        }
        return [(role, index) for role, count in counts.items() for index in range(count)]

    @property
    def batch(self) -> int:
        """Examples of a thread's round. A synchronous step shares one batch out, so that it learns as often from as many examples."""
        return self.settings.batch // self.settings.customers if self.synchronous else self.settings.batch

    @property
    def rounds(self) -> int:
        """Rounds of each thread: all threads together train on as many examples, synchronously or not."""
        return self.settings.rounds * (self.settings.customers if self.synchronous else 1)

    def tables_of(self, server: int) -> slice:
        """The tables that a sparse server holds: about as many as each other one."""
        return _part(self.settings.tables, self.settings.sparse_servers, server)

    def parameters_of(self, server: int, parameters: int) -> slice:
        """The dense parameters whose centre a dense server holds."""
        return _part(parameters, self.settings.dense_servers, server)


def _part(whole: int, parts: int, part: int) -> slice:
    return slice(whole * part // parts, whole * (part + 1) // parts)


class FleetTurns(Document):
    """What one launch trains: fleets that stand still while another one's threads have their turn. Ranks are those of the first fleet, then of the next."""

    fleets: tuple[FleetJob, ...]
    order: tuple[int, ...]
    """The fleet by number, turn by turn."""

    @cached_property
    def roles(self) -> list[tuple[int, Role, int]]:
        """Who each rank is: its fleet by number, its role there, and its number among those of the role."""
        return [(number, role, index) for number, fleet in enumerate(self.fleets) for role, index in fleet.roles]

    @property
    def thread_ranks(self) -> list[int]:
        """Threads of all fleets."""
        return [rank for rank, (_, role, _) in enumerate(self.roles) if role is Role.THREAD]

    def client_ranks(self, fleet: int) -> list[int]:
        """Ranks of a fleet that ask its servers: threads, and shadows where there are any."""
        return [rank for rank, (of, role, _) in enumerate(self.roles) if of == fleet and role in (Role.THREAD, Role.SHADOW)]

    def rounds_of(self, fleet: int) -> list[range]:
        """The rounds that each thread of a fleet does in each of the fleet's turns: about as many in one as in another."""
        rounds, turns = self.fleets[fleet].rounds, self.order.count(fleet)
        parts = [_part(rounds, turns, turn) for turn in range(turns)]
        return [range(part.start, part.stop) for part in parts]


class Staleness(Document):
    """Updates by others between a read and the update that follows from it."""

    mean: float
    most: int


@dataclass
class StalenessSum:
    """Adds up staleness, update by update."""

    total: int = 0
    most: int = 0
    updates: int = 0

    def add(self, missed: int) -> None:
        self.total += missed
        self.most = max(self.most, missed)
        self.updates += 1

    def result(self) -> Staleness:
        """Mean and most of all that was added."""
        return Staleness(mean=self.total / max(self.updates, 1), most=self.most)


def all_staleness(parts: Sequence[tuple[Staleness, int]]) -> Staleness:
    """Staleness of several, each with its number of updates."""
    updates = sum(count for _, count in parts)
    return Staleness(
        mean=sum(each.mean * count for each, count in parts) / max(updates, 1), most=max((each.most for each, _ in parts), default=0)
    )


class Mark(Document):
    """How far a process is: at a time of the machine's clock, with so much processor time used."""

    at_s: float
    cpu_s: float


class HeldOutQuality(Document):
    """Normalised entropy of held-out examples: 1 is the base rate's."""

    normalised_entropy: float
    best_normalised_entropy: float
    """That of the hidden model: nothing has less."""


class FleetRankReport(Document):
    """What one process saw."""

    role: Role
    index: int
    turns: tuple[tuple[Mark, ...], ...]
    """Marks at the start of each turn of the fleet and after each round of a thread or average of a shadow; those of a server are all in
    one, as each request comes and when it is answered."""
    losses: tuple[float, ...] = ()
    """A thread's mean log loss in each round, of examples that it had not trained on yet."""
    staleness: Staleness
    updates: int
    quality: HeldOutQuality | None = None
    """The first thread's."""


def fleet_turns_path(folder: Path) -> Path:
    """Where a launch's processes find what they train."""
    return folder / "turns.json"


def fleet_folder(folder: Path, fleet: int) -> Path:
    """Where a fleet of a launch has its sockets and the memory of its trainers."""
    return folder / f"fleet-{fleet}"


def fleet_report_path(folder: Path, rank: int) -> Path:
    """Where a process writes its report."""
    return folder / f"fleet-rank{rank}.json"
