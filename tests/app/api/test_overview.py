"""The overview of the store, on both databases: over the API, the client, the command and the dashboard, and after a migration."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from alembic import command
from sqlalchemy import func, insert, select

import emplace
from emplace.app.cli.main import exit_code
from emplace.app.database.connection import Database
from emplace.app.database.migrate import alembic_config, migrate
from emplace.app.database.plan_facts import overview_of_store
from emplace.app.database.plans import remove
from emplace.app.database.tables import PlanFactsRow, PlanRow
from emplace.studies.overview import Overview
from tests.app.dashboard.demo import Site, fixable_plan, question_of, store
from tests.app.dashboard.test_both_databases import many_row
from tests.app.finished import measurement_of, plan_of, store_run
from tests.app.questions import a_question


def filled(api: httpx.Client, database: Database) -> Site:
    """Two plans of one model, one of m3, one that does not fit, and two runs of the first."""
    site = Site("", database, api)
    plain = plan_of(a_question())
    site.ids["plain"] = store(site, plain)
    for _ in range(2):
        store_run(database, site.ids["plain"], measurement_of(plain))
    site.ids["seeded"] = store(site, plan_of(a_question(seed=7)))
    site.ids["m3"] = store(site, plan_of(question_of("m3", "big-basin-16g", ranks=8)))
    site.ids["fixable"] = store(site, fixable_plan(a_question(seed=9)))
    return site


def told(api: httpx.Client) -> Overview:
    answer = api.get("/v1/overview")
    assert answer.status_code == 200, answer.text
    return Overview.model_validate(answer.json())


def test_an_empty_store_has_an_empty_overview(api: httpx.Client) -> None:
    found = api.get("/v1/overview").json()
    assert found == {"schema_version": 1, "jobs": 0, "utilisation": {}, "servers": {}}
    page = api.get("/overview")
    assert (page.status_code, "No plan with a placement" in page.text) == (200, True)


def test_plans_with_a_placement_are_jobs_and_runs_measurements(api: httpx.Client, database: Database) -> None:
    site = filled(api, database)
    found = told(api)
    assert found.jobs == 3
    assert found.hash_sizes is not None
    assert (found.hash_sizes.jobs, found.hash_sizes.count) == (3, 3 + 3 + 127)
    assert found.prediction is not None
    assert (found.prediction.ratio.jobs, found.prediction.ratio.median) == (2, 0.667)
    assert found.servers["trainers"].jobs == 3
    assert set(found.utilisation) >= {"system_memory", "trainers", "dense", "lookup_forward"}
    with database.writing() as session:
        remove(session, site.ids["m3"])
    left = told(api)
    assert left.hash_sizes is not None
    assert (left.jobs, left.hash_sizes.count) == (2, 6)


def test_every_face_shows_the_same(api: httpx.Client, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    filled(api, database)
    found = told(api)
    url = str(api.base_url)
    with emplace.Client(url) as client:
        assert client.overview() == found

    async def asked() -> Overview:
        async with emplace.AsyncClient(url) as client:
            return await client.overview()

    assert asyncio.run(asked()) == found
    for source in ([], ["--server", url]):
        assert exit_code(["overview", *source, "--format", "json"]) == 0
        assert Overview.model_validate(json.loads(capsys.readouterr().out)) == found
    page = api.get("/overview", params={"format": "json"}).json()
    assert Overview.model_validate(page["overview"]) == found
    drawn = api.get("/overview").text
    assert drawn.count("<svg") >= 6
    for words in ("3 jobs, 2 measurements", "system memory", "Hash size of a table", "Predicted over measured step"):
        assert words in drawn


def test_facts_of_plans_of_an_earlier_version_are_filled_in(database: Database) -> None:
    plan = plan_of(a_question())
    documents = [plan.model_dump_json(exclude_none=True), '{"of": "no version that is read"}']
    with database.writing() as session:
        session.execute(insert(PlanRow), [many_row(number) | {"document": text} for number, text in enumerate(documents)])
    with database.writing() as session:
        command.downgrade(alembic_config(session.connection()), "0010")
    migrate(database)
    with database.reading() as session:
        found = overview_of_store(session)
        assert session.scalar(select(func.count()).select_from(PlanFactsRow)) == 1
    assert (found.jobs, found.hash_sizes is not None) == (1, True)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_ten_thousand_plans_are_looked_through_in_moments(api: httpx.Client, database: Database) -> None:
    site = filled(api, database)
    with database.reading() as session:
        kept = session.get_one(PlanFactsRow, site.ids["m3"])
        facts = {"job": kept.job, "tables": kept.tables, "model_digest": kept.model_digest}
    with database.writing() as session:
        session.execute(insert(PlanRow), [many_row(number) for number in range(10_000)])
        rows = [facts | {"plan_id": f"{number:032x}", "model_digest": f"model {number // 100}"} for number in range(10_000)]
        session.execute(insert(PlanFactsRow), rows)
    found = told(api)
    assert found.jobs == 10_003
    assert api.get("/v1/overview").elapsed.total_seconds() < 10  # 0.3 s on a quiet machine
