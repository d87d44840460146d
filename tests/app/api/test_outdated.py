"""A plan of a version whose documents this one does not read: its question is not blamed, and whoever asks again gets one."""

from __future__ import annotations

import json
import logging

import httpx
import pytest
from sqlalchemy import delete, update

from emplace.app.database.connection import Database
from emplace.app.database.plan_facts import fill_in
from emplace.app.database.tables import PlanFactsRow, PlanRow
from tests.app.asking import ONLY_SQLITE, ask_small
from tests.app.finished import finish_plan


def outdated_plan(api: httpx.Client, database: Database) -> str:
    plan_id = ask_small(api)
    data = json.loads(finish_plan(database, plan_id).model_dump_json(exclude_none=True))
    del data["question"]["cost_model"]["stack"]["shard_us"]
    with database.writing() as session:
        session.execute(update(PlanRow).values(document=json.dumps(data)))
        session.execute(delete(PlanFactsRow))
    return plan_id


@ONLY_SQLITE
@pytest.mark.parametrize("address", ["/v1/plans/{}/export", "/plans/{}", "/plans/{}/tables"])
def test_it_is_said_to_be_of_an_earlier_version(api: httpx.Client, database: Database, address: str) -> None:
    plan_id = outdated_plan(api, database)
    answer = api.get(address.format(plan_id))
    assert answer.status_code == 410
    said = answer.json()
    assert said["detail"].startswith(f"plan {plan_id} was stored by an earlier version of Emplace, and this one can't read it")
    assert said["detail"].endswith("ask for it again")
    assert "/question/cost_model/stack/shard_us" in said["detail"]
    assert said["errors"] == []


@ONLY_SQLITE
def test_the_overview_goes_without_it_and_the_log_says_so(api: httpx.Client, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    outdated_plan(api, database)
    with caplog.at_level(logging.WARNING), database.writing() as session:
        fill_in(session)
    assert "1 stored plan of an earlier version can't be read any more" in caplog.text
