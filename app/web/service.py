"""The parts that live as long as the service does, and how requests reach the database.

A request takes a thread first and then a connection, and gives both back before it asks for anything else. There are as many
connections as threads, so nobody waits for a connection, and whoever waits for a thread holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy.orm import Session

from emplace.app.database.connection import NO_ANSWER, Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.workers import WorkerObserver
from emplace.app.jobs.queue import JobQueue
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from emplace.app.web.check_queue import CheckQueue
from emplace.app.web.grouped import Close, Grouped
from emplace.app.web.metrics import Metrics
from emplace.app.web.threads import Threads
from emplace.app.web.together import Begin, Together
from emplace.placement.catalog import LOCAL_HOST
from emplace.placement.host import HostSpec
from emplace.planning import resolve_host

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
WorkOnAll: TypeAlias = "Callable[[Session, Service, Sequence[Item]], Sequence[T | Exception]]"
"""Returns what came of each item: an exception where that is what whoever brought it is told."""

READING, WRITING, GROUPS, WATCHING, PROBING, SCRAPING = 2, 5, 1, 4, 1, 1
"""Threads for requests that read; for those that write, which may wait for locks (only one where the database takes one writer); for
groups of these; for what waits for news; for health; for metrics. They share one interpreter's lock: more of them would only be in each
other's way, and a second group would be half of the first."""
DOCUMENTS = 2
"""Threads that parse and validate. They hold the interpreter's lock, so more of them would gain nothing."""
CONNECTIONS = READING + WRITING + GROUPS + WATCHING + PROBING + SCRAPING
PATIENCE_S = 5.0
"""How long a request that writes waits for its turn, and then for another's lock in the database."""


class Service:
    """What routes work with."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        queue: JobQueue,
        warm: WarmProcess,
        closing: Callable[[], bool],
        metrics: Metrics,
    ) -> None:
        """`warm` solves the checks. `closing` says that the service is about to end: what waits stops waiting."""
        assert database.connections >= CONNECTIONS
        self.settings = settings
        self.database = database
        self.queue = queue
        self.closing = closing
        self.metrics = metrics
        self.workers = WorkerObserver(settings.worker_lease_seconds)
        self.documents = Threads(DOCUMENTS)
        self.checks = CheckQueue(settings.check_concurrency, settings.check_queue)
        self.warm = warm
        self._reading, self._writing = Threads(READING), Threads(1 if database.writes_one_by_one else WRITING, PATIENCE_S)
        self._watching, self._probing, self._scraping = Threads(WATCHING), Threads(PROBING), Threads(SCRAPING)
        self._together = Together()
        self._grouped = Grouped()
        self._writing_groups = self._writing if database.writes_one_by_one else Threads(GROUPS, PATIENCE_S)

    async def read(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(session, ...)` in a transaction that only reads."""
        return await self._reading.run(_within, self.database.reading, lambda session: work(session, *args, **kwargs))

    async def read_together(self, work: Callable[..., T], *args: Hashable) -> T:
        """`read`, once for all who ask the same until it begins. What it returns is shared: nobody may change it."""
        return await self._once_for_all(self._reading, work, *args)

    async def write(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(session, ...)` in a transaction that may write. It is over before this returns: what a client is told is stored."""
        return await self._writing.run(_within, self.database.writing, lambda session: work(session, *args, **kwargs))

    async def delete(self, work: Callable[Concatenate[Session, P], list[Ticket]], *args: P.args, **kwargs: P.kwargs) -> None:
        """`write` for what deletes jobs; what it returns are their newest tickets, whose messages are forgotten afterwards."""
        gone = await self.write(work, *args, **kwargs)
        await self._writing.run(self.queue.forget, gone)

    async def write_together(self, work: WorkOnAll[Item, T], item: Item) -> T:
        """What `work` made of this item, in one `write` with all others that wait for the same work."""

        def write_all(close: Close[Item]) -> Sequence[T | Exception]:
            return self._write_all(work, close())

        return await self._grouped.join(work, item, lambda close: self._writing_groups.run(write_all, close))

    def _write_all(self, work: WorkOnAll[Item, T], items: Sequence[Item]) -> Sequence[T | Exception]:
        """What came of each. One that can't be stored leaves the others alone: each is then written by itself."""
        try:
            return _within(self.database.writing, lambda session: work(session, self, items))
        except NO_ANSWER:
            raise
        except Exception as error:
            if len(items) == 1:
                return [error]
            return [outcome for item in items for outcome in self._write_all(work, [item])]

    async def watch(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` for what looks for news again and again: however many look, other requests don't wait for them."""
        return await self._watching.run(_within, self.database.reading, lambda session: work(session, *args, **kwargs))

    async def probe(self, work: Callable[..., T], *args: Hashable) -> T:
        """`read_together` for those who look after the service: they don't wait for its clients."""
        return await self._once_for_all(self._probing, work, *args)

    async def scrape(self, work: Callable[..., T], *args: Hashable) -> T:
        """`probe` for what may take a while: whoever probes doesn't wait for it. One at a time."""
        return await self._once_for_all(self._scraping, work, *args)

    async def _once_for_all(self, threads: Threads, work: Callable[..., T], *args: Hashable) -> T:
        def look(begin: Begin) -> T:
            begin()
            return _within(self.database.reading, lambda session: work(session, *args))

        return await self._together.ask((work, *args), lambda begin: threads.run(look, begin))

    @cached_property
    def local_host(self) -> HostSpec:
        """The machine that the service runs on."""
        return resolve_host(LOCAL_HOST)


def _within(transaction: Callable[[], AbstractContextManager[Session]], work: Callable[[Session], T]) -> T:
    with transaction() as session:
        return work(session)
