"""Every view and every button on both databases, without a browser; and the list of many plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert

from emplace.app.database.connection import Database
from emplace.app.database.plan_list import PlanColumn, WantedPlans, find_plans
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.jobs.warm import WarmProcess
from tests.app.conftest import BACKENDS
from tests.app.dashboard.demo import Site, serving, store_demo


@pytest.fixture(params=BACKENDS)
def site(request: pytest.FixtureRequest, new_database: Callable[[str, Path], str], tmp_path: Path, warm: WarmProcess) -> Iterator[Site]:
    with serving(Database(new_database(request.param, tmp_path)).url, tmp_path, warm) as site:
        store_demo(site)
        yield site


def pressed(site: Site, path: str, **fields: str) -> str:
    """Where a button leads to."""
    answer = site.api.post(path, data=fields)
    assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
    return answer.headers["location"]


def test_every_view_and_button(site: Site) -> None:
    for path in [*site.every_view(), *(f"/?sort={column}&order={order}" for column in PlanColumn for order in ("asc", "desc"))]:
        assert site.api.get(path).status_code == httpx.codes.OK, path
    fixed = pressed(site, f"{site.plan('fixable')}/fixes/0")
    assert pressed(site, "/plans/cancel", plan=site.ids["queued"]) == site.plan("queued")
    assert pressed(site, "/plans/retry", plan=site.ids["failed"]) != site.plan("failed")
    assert pressed(site, f"{site.plan('m3')}/what-if", hbm="128GiB") != fixed
    assert pressed(site, "/new", model="rm1", host="dgx-h100", ranks="1").startswith("/plans/")
    refused = site.api.post(f"{site.plan('plain')}/runs", data={"emulate": "yes"})
    assert refused.status_code == httpx.codes.CONFLICT
    assert "here there is no worker" in refused.text
    assert pressed(site, f"{site.study('sweeping')}/cancel") == site.study("sweeping")
    assert pressed(site, "/studies/delete", study=site.ids["sized"]) == "/studies"
    assert site.api.get(site.study("sized")).status_code == httpx.codes.NOT_FOUND
    assert pressed(site, "/plans/delete", plan=site.ids["plain"]) == "/"
    assert site.api.get(site.plan("plain")).status_code == httpx.codes.NOT_FOUND


def test_odd_forms_are_answered(site: Site) -> None:
    what_if = f"{site.plan('m3')}/what-if"
    for number in ("\u00b2", "9" * 5000, "-1", "1.5"):
        assert site.api.get(what_if, params={"nodes": number}).status_code == httpx.codes.UNPROCESSABLE_ENTITY, number
    assert pressed(site, "/login", key="\u20ac", to="/") == "/"
    for kind, part in (("multipart/form-data; boundary*", "form-data"), ("multipart/form-data; boundary=x", "form-data; name*")):
        body = f"--x\r\nContent-Disposition: {part}\r\n\r\n1\r\n--x--\r\n"
        answer = site.api.post(what_if, content=body, headers={"Content-Type": kind})
        assert answer.is_client_error or answer.is_redirect, (kind, answer.text)


def test_a_form_of_another_origin_is_refused(site: Site) -> None:
    for path in (
        "/plans/delete",
        "/plans/cancel",
        "/plans/retry",
        "/new",
        f"{site.plan('plain')}/runs",
        f"{site.plan('fixable')}/fixes/0",
        "/studies/delete",
        "/studies/new",
    ):
        answer = site.api.post(path, data={"plan": site.ids["plain"]}, headers={"Origin": "https://elsewhere.example"})
        assert answer.status_code == httpx.codes.FORBIDDEN, path
    assert site.api.get(site.plan("plain")).status_code == httpx.codes.OK


def test_figures_that_are_absent_come_last_in_either_order(site: Site) -> None:
    for column in (PlanColumn.STEP, PlanColumn.MEASURED, PlanColumn.MEMORY):
        for descending in (False, True):
            with site.database.reading() as session:
                rows = find_plans(session, WantedPlans(sort=column, descending=descending, rows=100)).plans
            values = {
                PlanColumn.STEP: [row.step_time_us for row in rows],
                PlanColumn.MEASURED: [1.0 if row.id == site.ids["plain"] else None for row in rows],
                PlanColumn.MEMORY: [row.memory_share for row in rows],
            }[column]
            known = [value for value in values if value is not None]
            assert values == [*sorted(known, reverse=descending), *[None] * (len(values) - len(known))]


def test_pages_of_a_long_list_hold_every_plan_once(site: Site) -> None:
    with site.database.writing() as session:
        session.execute(insert(PlanRow), [many_row(number) for number in range(120)])
        session.execute(insert(RunRow), [run_row(number) for number in range(0, 120, 3)])
    seen: list[str] = []
    with site.database.reading() as session:
        for page in range(1, 6):
            seen += [row.id for row in find_plans(session, WantedPlans(model="many", sort=PlanColumn.GAP, page=page)).plans]
    assert sorted(seen) == [f"{number:032x}" for number in range(120)]


def test_the_newest_measurement_is_what_plans_are_sorted_by(site: Site) -> None:
    with site.database.writing() as session:
        session.execute(insert(PlanRow), [many_row(number) for number in range(3)])
        newer = run_row(0) | {"id": "f" * 32, "step_time_us": 5000.0}
        emulated = run_row(2) | {"id": "e" * 32, "emulate": True, "step_time_us": 9000.0}
        session.execute(insert(RunRow), [*map(run_row, range(3)), newer, emulated])
    with site.database.reading() as session:
        for descending, order in ((True, [0, 2, 1]), (False, [1, 2, 0])):
            rows = find_plans(session, WantedPlans(model="many", sort=PlanColumn.MEASURED, descending=descending)).plans
            assert [int(row.id, 16) for row in rows] == order


def many_row(number: int) -> dict[str, object]:
    """A finished plan, as the list sees it."""
    return {
        "id": f"{number:032x}",
        "state": "done",
        "ticket": 1,
        "attempts": 1,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "question_digest": f"sha256:{number}",
        "model_name": "many",
        "model_digest": "sha256:m",
        "host_name": f"host-{number % 7}",
        "host_digest": "sha256:h",
        "cost_source": "datasheet",
        "options": f"seed {number}",
        "status": "feasible",
        "gap": (number * 37 % 101) / 100,
        "step_time_us": 1000.0 + number * 7919 % 1000,
        "memory_share": (number % 50) / 50,
        "memory_bytes": number,
        "imbalance": 1.0 + number % 10,
        "question": "{}",
        "document": "{}",
    }


def run_row(number: int) -> dict[str, object]:
    return {
        "id": f"{number:032x}",
        "plan_id": f"{number:032x}",
        "state": "done",
        "ticket": 1,
        "attempts": 1,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "host_fingerprint": "none",
        "steps": 1,
        "seed": 0,
        "emulate": False,
        "verified": True,
        "step_time_us": 1000.0 + number,
    }
