"""The dashboard with large plans and many of them: one command, one table.

    python -m benchmarks.dashboard [--database-url URL] [--only PART] [--out FILE]

Server, worker, clients and Chromium share this machine. Parts: chart and readers, of a plan of 1000 tables on 128 ranks; many, a list of 10,000
plans. SQLite unless a URL of an empty PostgreSQL database is given. Needs Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import insert

import emplace
from benchmarks.json_lines import emit
from benchmarks.markdown import beside_reach
from benchmarks.screenshots import large_question, launched
from benchmarks.service_load import closed_loop, get, small_question
from benchmarks.service_process import ServedService
from emplace.app.database import plans
from emplace.app.database.connection import Database
from emplace.app.database.plan_list import PlanColumn
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow, new_id
from emplace.app.reports.options_text import options_line
from emplace.placement.plan import Plan

LOOKS, READERS, PAGES, LISTED, TIMES = 15, 50, 1000, 10_000, 7

REACH = {
    "chart": "first chart <= 500 ms, page <= 1 MB",
    "readers": "p99 <= 1000 ms, 0 errors",
    "many": "slowest <= 150 ms",
}

_WATCH = """
new Promise((told) => {
  const look = () => {
    const chart = document.querySelector("svg.step");
    // Whole once something stands behind it; seen once the frame that holds it is out.
    if (chart && (chart.parentElement.nextElementSibling || chart.closest("figure").nextElementSibling)) {
      requestAnimationFrame(() => setTimeout(() => told(performance.now())));
    } else requestAnimationFrame(look);
  };
  look();
}).then((at) => { window.chartAt = at; });
"""
"""Milliseconds from the request of the page until its first chart is on the screen."""
_WEIGHT = "performance.getEntries().reduce((sum, each) => sum + (each.decodedBodySize ?? 0), 0)"


def chart(service: ServedService, database_url: str) -> Iterator[dict[str, Any]]:
    """In a browser that knows nothing yet; the first look is at a plan that the service has not read yet."""
    path = _large_plan(database_url)
    service.stop()
    service.start()
    with sync_playwright() as playwright:
        browser = launched(playwright)
        _look(browser, f"{service.url}/plans")  # Chromium itself is warm
        looks = [_look(browser, service.url + path) for _ in range(LOOKS)]
        browser.close()
    first, *later = [chart_ms for chart_ms, _ in looks]
    yield {
        "part": "chart",
        "median_ms": statistics.median(later),
        "longest_ms": max(later),
        "first_look_ms": first,
        "page_kb": looks[0][1] / 1e3,
    }


def _look(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds until the chart is there, 0 where there is none, and the bytes of the page and what it loads, unpacked."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.add_init_script(_WATCH)
    page.goto(url)
    has_chart = page.locator("svg.step").count() == 1
    shown_ms = page.wait_for_function("window.chartAt").json_value() if has_chart else 0.0
    weight = page.evaluate(_WEIGHT)
    context.close()
    return shown_ms, weight


def readers(service: ServedService, database_url: str) -> Iterator[dict[str, Any]]:
    path = _large_plan(database_url)
    httpx.get(service.url + path, timeout=60)
    before = service.cpu_seconds()
    answers, seconds = asyncio.run(closed_loop(service.port, READERS, iter([get(path)] * PAGES)))
    cpu_ms = 1e3 * (service.cpu_seconds() - before) / PAGES
    yield {"part": "readers"} | answers.figures() | {"per_second": PAGES / seconds, "cpu_ms_each": cpu_ms}


def many(service: ServedService, database_url: str) -> Iterator[dict[str, Any]]:
    """One client that sorts the list by each of its columns, both ways; the slowest of them by its median."""
    with httpx.Client(base_url=service.url, timeout=60) as client:
        _store_copies(database_url, _stored(database_url, _solved(small_question(1))))
        before = service.cpu_seconds()
        waits = {
            (column, order): [_seconds(client, f"/?sort={column}&order={order}") for _ in range(TIMES)]
            for column in PlanColumn
            for order in ("asc", "desc")
        }
    cpu_ms = 1e3 * (service.cpu_seconds() - before) / (TIMES * len(waits))
    medians = {by: statistics.median(each) for by, each in waits.items()}
    slowest = max(medians, key=medians.__getitem__)
    yield {
        "part": "many",
        "plans": LISTED,
        "slowest": " ".join(slowest),
        "slowest_ms": 1e3 * medians[slowest],
        "median_ms": 1e3 * statistics.median(medians.values()),
        "longest_ms": 1e3 * max(map(max, waits.values())),
        "cpu_ms_each": cpu_ms,
    }


PARTS = {part.__name__: part for part in (chart, readers, many)}


def _seconds(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    assert client.get(path).raise_for_status().text.count("<tr>") > 20
    return time.perf_counter() - started


def _large_plan(database_url: str) -> str:
    """The page of the plan."""
    return f"/plans/{_stored(database_url, _solved_large())}"


@cache
def _solved_large() -> Plan:
    return _solved(large_question() | {"options": {"nodes": 16, "work_limit": 2}})


def _solved(question: dict[str, Any]) -> Plan:
    """Here, not by the service's worker, which gives way to everything else."""
    return emplace.plan(question["model"], question["host"], **question["options"])


def _stored(database_url: str, plan: Plan) -> str:
    """The id of the plan, stored as a worker stores it."""
    database = Database(database_url)
    with database.writing() as session:
        row, _ = plans.create(session, plan.question, options_line(plan.question.options))
        row.state, row.document = State.DONE, plan.model_dump_json(exclude_none=True)
        for name, value in plans.columns_of(plan).items():
            setattr(row, name, value)
    database.close()
    return row.id


def _store_copies(database_url: str, plan_id: str) -> None:
    """Plans of many models, hosts and figures with the documents of one, a third of them measured."""
    database, rng = Database(database_url), np.random.default_rng(1)
    with database.writing() as session:
        row = plans.find(session, plan_id, with_document=True)
        assert row is not None
        same = {column.key: getattr(row, column.key) for column in PlanRow.__table__.columns}
        copies = [same | _own(number, rng) for number in range(LISTED)]
        session.execute(insert(PlanRow), copies)
        session.execute(insert(RunRow), [_run(copy) for copy in copies[::3]])
    database.close()


def _own(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """What differs from copy to copy."""
    figures = ("gap", "step_time_us", "throughput_samples_per_s", "imbalance", "memory_share")
    return {
        "id": new_id(),
        "question_digest": f"sha256:{number}",
        "model_name": f"model-{rng.integers(40)}",
        "host_name": f"host-{rng.integers(12)}",
        "options": f"ranks {rng.integers(1, 128)}, seed {number}",
        **dict(zip(figures, rng.random(len(figures)).tolist(), strict=True)),
    }


def _run(plan: dict[str, Any]) -> dict[str, Any]:
    measured = {"verified": True, "step_time_us": 1.1 * plan["step_time_us"], "host_fingerprint": "none", "steps": 1, "seed": 0}
    return {"plan_id": plan["id"], "state": "done", "ticket": 1, "attempts": 1, "created_at": plan["created_at"]} | measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database-url")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder, ServedService(Path(folder), asked.database_url) as service:
        for name in asked.only or PARTS:
            for line in PARTS[name](service, asked.database_url or f"sqlite:///{folder}/emplace.db"):
                lines.append(line)
                emit(line, asked.out)
    print("\n".join(beside_reach(lines, REACH)))


if __name__ == "__main__":
    main()
