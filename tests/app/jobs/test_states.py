"""The state machine of a job, on both databases: what may follow what, and which ticket counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from emplace.app.database import jobs, plans, studies
from emplace.app.database.connection import Database
from emplace.app.database.jobs import MAX_ATTEMPTS, Ticket
from emplace.app.database.priorities import Priority
from emplace.app.database.states import TRANSITIONS, State
from emplace.app.database.tables import PlanRow, StudyRow
from emplace.app.jobs.queue import JobQueue
from emplace.app.web.service import PATIENCE_S
from tests.app.conftest import BACKENDS
from tests.app.questions import a_question

Change = Callable[[Session, Ticket], bool]

CHANGES: dict[str, tuple[State, Change]] = {
    "take up": (State.RUNNING, lambda session, ticket: jobs.take_up(session, ticket) is not None),
    "finish": (State.DONE, lambda session, ticket: jobs.finish(session, ticket, State.DONE, document="{}")),
    "fail": (State.FAILED, lambda session, ticket: jobs.finish(session, ticket, State.FAILED, error="why")),
    "give back": (State.QUEUED, lambda session, ticket: jobs.give_back(session, ticket) is not None),
    "recover": (State.QUEUED, lambda session, ticket: jobs.recover(session, ticket) is not None),
}
"""What a worker does to a job, and the state that it leads to."""


QUESTIONS = count()
"""No two tests ask the same question: they share a database, and none looks at another's rows."""


@pytest.fixture(scope="module", params=BACKENDS)
def database(
    request: pytest.FixtureRequest, new_database: Callable[[str, Path], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    database = Database(new_database(request.param, tmp_path_factory.mktemp("states")), patience_s=PATIENCE_S)
    yield database
    database.close()


@pytest.fixture(scope="module")
def queue(database: Database) -> Iterator[JobQueue]:
    queue = JobQueue(database)
    yield queue
    queue.close()


def queued(database: Database, queue: JobQueue) -> Ticket:
    """A new plan in its queue."""
    with database.writing() as session:
        row, _ = plans.create(session, a_question(seed=next(QUESTIONS)), "as listed")
        queue.put(session, row)
        return Ticket(PlanRow, row.id, row.ticket)


def brought_to(database: Database, queue: JobQueue, state: State) -> Ticket:
    """A plan in that state, by the shortest way there."""
    ticket = queued(database, queue)
    way = {
        State.QUEUED: [],
        State.RUNNING: ["take up"],
        State.DONE: ["take up", "finish"],
        State.FAILED: ["take up", "fail"],
        State.CANCELLED: [],
    }
    with database.writing() as session:
        assert all(CHANGES[step][1](session, ticket) for step in way[state])
        if state is State.CANCELLED:
            assert jobs.cancel(session, PlanRow, ticket.resource_id) is State.CANCELLED
    return ticket


def put_back(database: Database, queue: JobQueue, ticket: Ticket, change: Callable[[Session, Ticket], jobs.JobRow | None]) -> Ticket:
    """The job's new ticket after `give_back` or `recover`."""
    with database.writing() as session:
        row = change(session, ticket)
        assert row is not None
        queue.put(session, row)
        return Ticket(PlanRow, row.id, row.ticket)


def stored(database: Database, ticket: Ticket) -> tuple[object, ...]:
    with database.reading() as session:
        row = session.get_one(PlanRow, ticket.resource_id)
        return row.state, row.ticket, row.attempts, row.started_at, row.finished_at, row.error, row.document


@pytest.mark.parametrize(("before", "change"), list(product(State, CHANGES)))
def test_only_what_the_table_allows_can_happen(database: Database, queue: JobQueue, before: State, change: str) -> None:
    ticket = brought_to(database, queue, before)
    earlier, (after, make) = stored(database, ticket), CHANGES[change]
    with database.writing() as session:
        happened = make(session, ticket)
    assert happened == (after in TRANSITIONS[before])
    assert stored(database, ticket)[0] == (after if happened else before)
    if not happened:
        assert stored(database, ticket) == earlier


@pytest.mark.parametrize("before", State)
def test_what_has_ended_is_not_cancelled(database: Database, queue: JobQueue, before: State) -> None:
    ticket = brought_to(database, queue, before)
    earlier = stored(database, ticket)
    with database.writing() as session:
        after = jobs.cancel(session, PlanRow, ticket.resource_id)
    assert after is (before if before.is_final else State.CANCELLED)
    if before.is_final:
        assert stored(database, ticket) == earlier


def test_nothing_follows_what_is_final() -> None:
    assert {state for state in State if state.is_final} == {State.DONE, State.FAILED, State.CANCELLED}
    reached = set[State]().union(*TRANSITIONS.values())
    assert reached == set(State)


@pytest.mark.parametrize("change", CHANGES)
def test_an_older_ticket_counts_no_more(database: Database, queue: JobQueue, change: str) -> None:
    first = brought_to(database, queue, State.RUNNING)
    second = put_back(database, queue, first, jobs.recover)
    with database.writing() as session:
        assert jobs.take_up(session, second)
    earlier = stored(database, second)
    with database.writing() as session:
        assert not CHANGES[change][1](session, first)
        assert not jobs.is_running(session, first)
        assert jobs.is_running(session, second)
    assert stored(database, second) == earlier


def test_a_job_that_is_gone_can_be_nobody_s(database: Database, queue: JobQueue) -> None:
    ticket = brought_to(database, queue, State.RUNNING)
    with database.writing() as session:
        plans.remove(session, ticket.resource_id)
    with database.writing() as session:
        assert not any(make(session, ticket) for _, make in CHANGES.values())
        assert not jobs.is_running(session, ticket)
        assert jobs.cancel(session, PlanRow, ticket.resource_id) is None


def test_attempts_are_counted_and_capped(database: Database, queue: JobQueue) -> None:
    ticket = queued(database, queue)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        with database.writing() as session:
            row = jobs.take_up(session, ticket)
            assert row is not None
            assert row.attempts == attempt
        if attempt < MAX_ATTEMPTS:
            ticket = put_back(database, queue, ticket, jobs.recover)
    with database.writing() as session:
        assert jobs.recover(session, ticket) is None
    state, _, attempts, _, finished_at, error, _ = stored(database, ticket)
    assert (state, attempts) == (State.FAILED, MAX_ATTEMPTS)
    assert finished_at is not None
    assert "5 workers in turn ended" in str(error)


def test_stops_in_good_order_are_no_attempts(database: Database, queue: JobQueue) -> None:
    ticket = queued(database, queue)
    for _ in range(MAX_ATTEMPTS + 1):
        with database.writing() as session:
            assert jobs.take_up(session, ticket)
        ticket = put_back(database, queue, ticket, jobs.give_back)
        ticket = put_back(database, queue, ticket, jobs.give_back)  # from its queue, before it ran
    assert stored(database, ticket)[:3] == (State.QUEUED, 1 + 2 * (MAX_ATTEMPTS + 1), 0)


@pytest.mark.parametrize(("before", "change"), [(State.QUEUED, "take up"), (State.RUNNING, "finish")])
def test_of_many_at_once_one_wins(database: Database, queue: JobQueue, before: State, change: str) -> None:
    ticket = brought_to(database, queue, before)

    def attempt(_: int) -> bool:
        with database.writing() as session:
            return CHANGES[change][1](session, ticket)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1


def test_of_many_that_recover_a_job_one_queues_it(database: Database, queue: JobQueue) -> None:
    ticket = brought_to(database, queue, State.RUNNING)

    def recover(_: int) -> bool:
        with database.writing() as session:
            row = jobs.recover(session, ticket)
            if row is not None:
                queue.put(session, row)
            return row is not None

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(recover, range(16))) == 1
    assert stored(database, ticket)[:2] == (State.QUEUED, ticket.number + 1)


@pytest.mark.parametrize("before", State)
def test_only_what_waits_becomes_more_urgent(database: Database, queue: JobQueue, before: State) -> None:
    ticket = brought_to(database, queue, before)
    with database.writing() as session:
        assert plans.hasten(session, session.get_one(PlanRow, ticket.resource_id), Priority.HIGH) is (before is State.QUEUED)
    with database.reading() as session:
        urgent = session.get_one(PlanRow, ticket.resource_id).priority
    assert Priority.of_rank(urgent) is (Priority.HIGH if before is State.QUEUED else Priority.NORMAL)


def test_a_study_that_gets_on_outlives_any_number_of_workers(database: Database, queue: JobQueue) -> None:
    with database.writing() as session:
        row = StudyRow(kind="sweep", model_name="small", hosts="[]", varied="[]", points=100, asked="{}")
        session.add(row)
        session.flush()
        queue.put(session, row)
    for point in range(MAX_ATTEMPTS + 1):
        ticket = Ticket(StudyRow, row.id, row.ticket)
        with database.writing() as session:
            assert jobs.take_up(session, ticket)
            assert studies.keep_point(session, ticket, point, {}, None)
        with database.writing() as session:
            lost = jobs.recover(session, ticket)
            assert isinstance(lost, StudyRow)
            queue.put(session, row := lost)
