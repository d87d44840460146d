"""Stored runs."""

from __future__ import annotations

from sqlalchemy import event

from emplace.app.database import plans, runs
from emplace.app.database.connection import Database
from emplace.app.database.states import State
from emplace.app.database.tables import RunRow
from tests.app.questions import a_question


def test_the_newest_run_of_each_plan_is_found_without_reading_the_others(database: Database) -> None:
    with database.writing() as session:
        plan_ids = [plans.create(session, a_question(seed), "")[0].id for seed in range(3)]
        for plan_id in plan_ids[:2]:
            for number, (state, emulate) in enumerate(
                ((State.DONE, False), (State.DONE, False), (State.DONE, True), (State.FAILED, False))
            ):
                run_id = f"{plan_ids.index(plan_id)}{number}"
                session.add(RunRow(id=run_id, plan_id=plan_id, host_fingerprint="here", seed=0, state=state, emulate=emulate))
    loaded: list[RunRow] = []
    event.listen(RunRow, "load", read := lambda row, _: loaded.append(row))
    with database.reading() as session:
        found = runs.latest_done(session, plan_ids)
    event.remove(RunRow, "load", read)
    assert {plan_id: row.id for plan_id, row in found.items()} == {plan_ids[0]: "01", plan_ids[1]: "11"}
    assert len(loaded) == 2
