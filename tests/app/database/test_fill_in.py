"""Plans that were stored before lists were sorted by memory and imbalance have these figures after the migration."""

from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import insert

from emplace.app.database.connection import Database
from emplace.app.database.migrate import alembic_config
from emplace.app.database.plans import columns_of
from emplace.app.database.tables import PlanRow
from tests.app.dashboard.test_both_databases import many_row
from tests.app.finished import plan_of
from tests.app.questions import a_question

_NEW = ("imbalance", "memory_bytes", "memory_share", "trainers")


def test_figures_of_stored_plans_are_filled_in(database: Database) -> None:
    plan = plan_of(a_question())
    with database.writing() as session:
        session.execute(insert(PlanRow), [many_row(1) | {"document": plan.model_dump_json(exclude_none=True)}])
    for move, revision in ((command.downgrade, "0005"), (command.upgrade, "head")):
        with database.writing() as session:
            move(alembic_config(session.connection()), revision)
    with database.reading() as session:
        row = session.get_one(PlanRow, f"{1:032x}")
    expected = columns_of(plan)
    assert {name: getattr(row, name) for name in _NEW} == {name: pytest.approx(expected[name]) for name in _NEW}
