"""The queue is put in order: jobs that were taken off it and that no worker has in hand go back, messages of jobs that ended leave."""

from __future__ import annotations

import logging
from collections.abc import Collection

from emplace.app.database import jobs, workers
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.jobs.queue import JobQueue

_log = logging.getLogger(__name__)

_AT_ONCE = 1000
"""Messages that are looked at together."""


def put_back_lost_jobs(
    database: Database, queue: JobQueue, worker_id: str | None = None, in_hand: Collection[Ticket] = (), missing: Collection[str] = ()
) -> set[str]:
    """Queue again what workers had taken that are dead, what this one had taken and doesn't have in hand, and what any gave up with
    an error, as where the database failed it: of these jobs the row may not even say that they were taken. An attempt counts where
    the worker is dead. `worker_id` is None where this one has not registered yet.

    Of its own only the messages in `missing`, which were not in hand the last time either: one that was taken a moment ago may be on
    its way. Returns those that are to be `missing` the next time. Any number of workers may do so at once.
    """
    # In this order: a job is taken before it runs, and who takes it has registered before. So what is at work at this moment is
    # not mistaken for lost, and what ends meanwhile has changed its row, which a ticket shows.
    with database.reading() as session:
        running = jobs.running_tickets(session)
    taken, failed = list(queue.taken()), queue.failed(_AT_ONCE)
    with database.reading() as session:
        others = {row.id for row in workers.list_workers(session)} - {worker_id}
    own = [each for each in taken if each.worker_id == worker_id]
    not_in_hand = {each.message_id for each in own if each.ticket not in in_hand}
    lost = not_in_hand.intersection(missing)
    kept = [each for each in taken if each.worker_id in others or (each in own and each.message_id not in lost)]
    dropped = [each for each in taken if each not in kept]
    of_the_living = {each.ticket for each in own} | set(failed.values())
    for ticket in (running - {each.ticket for each in kept}) | {each.ticket for each in dropped} | set(failed.values()):
        with database.writing() as session:
            row = jobs.give_back(session, ticket) if ticket in of_the_living else jobs.recover(session, ticket)
            if row is not None:
                _log.warning("no worker has the job %s any more; it is queued again", row.id)
                queue.put(session, row)
    queue.drop(each.message_id for each in dropped)
    queue.delete(failed)
    return not_in_hand - lost


def drop_dead_messages(database: Database, queue: JobQueue) -> None:
    """Take the messages off their queues whose jobs were cancelled or deleted. A worker that takes each to find that out is slow: what
    was asked for after thousands of them would wait for minutes."""
    while waiting := queue.waiting(_AT_ONCE):
        with database.reading() as session:
            dead = jobs.without_purpose(session, waiting.values())
        if not dead:
            return
        queue.drop(message_id for message_id, ticket in waiting.items() if ticket in dead)
