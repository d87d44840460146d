"""The dashboard in a real browser."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from emplace.app.database import jobs
from emplace.app.database.connection import Database
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow
from emplace.app.reports.figures import microseconds, percent
from emplace.placement.measurement import Emulation, Verdict
from tests.app.finished import finish_plan, measurement_of, store_run, ticket_of
from tests.app.questions import a_host, model_data
from tests.prices import bandwidth_prices

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, api: httpx.Client) -> Iterator[Page]:
    """A page that fails the test for any error in its console and any request to elsewhere."""
    context = browser.new_context(base_url=str(api.base_url), viewport={"width": 1200, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith(str(api.base_url)) else None)
    yield page
    context.close()
    assert errors == []


def ask(api: httpx.Client, **changes: object) -> str:
    return str(
        api.post("/v1/plans", json={"model": model_data(), "host": "cpu-dual-socket", "options": {"ranks": 2}} | changes).json()["id"]
    )


def follow(page: Page, selector: str) -> None:
    """Click, and wait until the page that it leads to is whole: a click by itself may return while that is still read."""
    with page.expect_navigation():
        page.click(selector)


def test_an_empty_list_says_how_to_begin(page: Page) -> None:
    page.goto("/")
    assert "No plan is stored yet" in page.inner_text("main")


def test_the_list_shows_filters_and_pages(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan))
    for seed in range(26):
        ask(api, model=model_data(name="other"), options={"seed": seed})
    page.goto("/")
    assert page.locator("tbody tr").count() == 25
    follow(page, "text=Older plans")
    assert page.locator("tbody tr").count() == 2
    row = page.locator("tbody tr", has_text="small")
    assert "feasible" in row.inner_text()
    assert microseconds(plan.step_time_us) in row.inner_text()
    assert microseconds(1.5 * (plan.step_time_us or 0)) + " verified" in row.inner_text()
    page.goto("/")
    page.select_option("select[name=model]", "other")
    follow(page, "button")
    follow(page, "text=Older plans")
    assert page.locator("tbody tr").count() == 1
    follow(page, "nav >> text=Newest")
    assert page.locator("tbody tr", has_text="other").count() == 25
    page.select_option("select[name=model]", "small")
    follow(page, "button")
    assert page.locator("tbody tr").count() == 1
    page.select_option("select[name=status]", "infeasible")
    follow(page, "button")
    assert "No plan matches" in page.inner_text("main")


def test_plans_of_one_model_and_host_are_told_apart_by_their_options(page: Page, api: httpx.Client) -> None:
    ask(api, options={"ranks": 2, "seed": 7, "tiers": ["ddr"]})
    plan_id = ask(api, options={})
    page.goto("/")
    plain, chosen = page.locator("tbody tr").all_inner_texts()
    assert "ranks 2, tiers ddr, seed 7" in chosen
    assert "seed" not in plain
    follow(page, "tbody tr:nth-child(2) a")
    assert "Ranks\n2\nTiers\nddr\nSeed\n7" in page.locator("section", has_text="Options").inner_text()
    page.goto(f"/plans/{plan_id}")
    assert page.locator("h2", has_text="Options").count() == 0


def test_plans_without_an_answer_can_be_selected(page: Page, api: httpx.Client, database: Database) -> None:
    finish_plan(database, ask(api, options={"seed": 1}))
    api.post(f"/v1/plans/{ask(api, options={'seed': 2})}/cancel")
    ask(api, options={"seed": 3})
    page.goto("/")
    offered = page.locator("select[name=status] option").all_inner_texts()
    assert offered[1:] == ["optimal", "feasible", "infeasible", "undecided", "queued", "running", "failed", "cancelled"]
    for status, seed in (("feasible", 1), ("cancelled", 2), ("queued", 3)):
        page.select_option("select[name=status]", status)
        follow(page, "button")
        (row,) = page.locator("tbody tr").all_inner_texts()
        assert f"seed {seed}" in row
        assert status in row


def test_figures_say_whether_they_are_predicted(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan))
    page.goto("/")
    assert page.locator("th", has_text="hroughput").all_inner_texts() == ["Predicted throughput"]
    page.goto(f"/plans/{plan_id}")
    overhead = microseconds(plan.question.cost_model.step_overhead_us)
    assert f"overhead\t{overhead}\t-\nstep\t{microseconds(plan.step_time_us)}\t" in page.inner_text("main")


def test_a_phone_can_read_charts_and_sees_that_tables_scroll(browser: Browser, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan))
    context = browser.new_context(base_url=str(api.base_url), viewport={"width": 390, "height": 844})
    page = context.new_page()
    for path in ("/", f"/plans/{plan_id}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        for wide in page.locator("main table:visible, svg.chart").all():
            assert (
                wide.evaluate("it => getComputedStyle(it.closest('.scroll')).backgroundAttachment")
                == "local, local, scroll, scroll, scroll"
            )
    heights = page.locator("svg.chart text.label").evaluate_all("all => all.map(it => it.getBoundingClientRect().height)")
    assert min(heights) >= 10
    context.close()


def test_one_plan_shows_where_everything_is_and_what_was_measured(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan, verified=False))
    page.goto("/")
    follow(page, "tbody a")
    text = page.inner_text("main")
    assert f"50.00% ({percent(plan.placement_gap)} of what placement decides)" in text
    for table in plan.tables:
        assert f"{table.name}\ttable_wise\tfused\t{table.shards[0].rank}" in text
    assert "not verified" in text
    assert "the update differs by 1e-6" in text
    assert page.locator("svg.chart").count() == 3
    segment = page.locator("svg.chart").first.locator("rect.segment").first.bounding_box()
    assert segment is not None
    assert segment["width"] > 0
    page.click("text=The same as a table")
    assert page.locator("details table").is_visible()


def test_an_emulated_run_shows_its_verdicts_and_no_times(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    measured = measurement_of(finish_plan(database, plan_id))
    emulation = Emulation(host="h", holds=True, rows=9, emulated_rows=3, local_batch_size=2, emulated_local_batch_size=1)
    verdicts = (*measured.verdicts, Verdict(name="throughput", passed=None, detail="not checked: emulated"))
    changes = {"emulated": emulation, "verified": False, "verdicts": verdicts, "ranks": (), "step_time_us": None}
    store_run(database, plan_id, measured.model_copy(update=changes))
    page.goto(f"/plans/{plan_id}")
    section = page.locator("section", has_text="Emulated: scaled down")
    assert section.locator(".badge").all_inner_texts() == ["emulated", "passed", "unknown"]
    assert "not checked: emulated" in section.inner_text()
    assert section.locator("table").count() == 0
    assert "Measured step" not in page.content()


def test_why_there_is_no_plan_is_said(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    finish_plan(database, plan_id, infeasible=True)
    page.goto(f"/plans/{plan_id}")
    text = page.inner_text("main")
    assert "hbm: 12 bytes over" in text
    assert "Put it into system memory verified" in text


def test_a_failed_plan_shows_its_error_as_text(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    with database.writing() as session:
        ticket = ticket_of(session, PlanRow, plan_id)
        assert jobs.take_up(session, ticket)
        assert jobs.finish(session, ticket, State.FAILED, error="<script>alert(1)</script>")
    page.goto(f"/plans/{plan_id}")
    assert "<script>alert(1)</script>" in page.inner_text("main")


def test_progress_is_live_and_ends_in_the_plan(page: Page, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    page.goto(f"/plans/{plan_id}")
    assert "queued" in page.inner_text("#progress")
    with database.writing() as session:
        jobs.add_event(session, plan_id, {"incumbent_us": 1234.5, "bound_us": 1200.0, "gap": 0.028, "elapsed_s": 1.5, "phase": "search"})
    page.wait_for_selector("text=1234.5 us", timeout=10_000)
    assert "2.80%" in page.inner_text("#progress")
    timer = threading.Timer(0.2, finish_plan, (database, plan_id))
    timer.start()
    page.wait_for_selector("text=Load of the ranks", timeout=10_000)
    timer.join()


def test_the_page_of_the_api_needs_nothing_from_elsewhere(page: Page) -> None:
    page.goto("/docs")
    page.locator(".opblock-summary-path", has_text="export").wait_for(timeout=20_000)
    page.locator(".opblock-summary-path", has_text="/healthz").click()
    page.click("text=Try it out")
    page.click("text=Execute")
    page.wait_for_selector(".live-responses-table .response-col_status:has-text('200')", timeout=10_000)


def test_a_plan_that_is_gone_is_said_on_a_page(browser: Browser, api: httpx.Client) -> None:
    context = browser.new_context(base_url=str(api.base_url))
    page = context.new_page()
    answer = page.goto(f"/plans/{'0' * 32}")
    assert answer is not None
    assert answer.status == 404
    assert "no plan has the id" in page.inner_text("main")
    page.click("text=All plans")
    page.wait_for_selector("text=No plan is stored yet")
    context.close()


def test_no_other_page_can_frame_it(browser: Browser, api: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "trap.html").write_text(f'<iframe src="{api.base_url}"></iframe>')
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto((tmp_path / "trap.html").as_uri())
    page.wait_for_timeout(500)
    assert "frame-ancestors" in refused[0] or "X-Frame-Options" in refused[0]
    context.close()


@pytest.mark.parametrize("price", [1e12, 1e4])
def test_a_plan_that_takes_for_ever_fits_its_list(page: Page, api: httpx.Client, database: Database, price: float) -> None:
    cost = bandwidth_prices(a_host()).to_data() | {"step_overhead_us": price}
    for kernel in cost["kernels"]:
        kernel["forward"]["per_lookup_byte_us"] = price
    finish_plan(database, ask(api, cost_model=cost))
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") == 1200
    cells = page.locator("tbody td.number").all_inner_texts()
    assert max(map(len, cells)) <= 20, cells


def test_the_pages_work_without_javascript(browser: Browser, api: httpx.Client, database: Database) -> None:
    plan_id = ask(api)
    context = browser.new_context(base_url=str(api.base_url), java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/plans/{plan_id}")
    finish_plan(database, plan_id)
    page.wait_for_selector("text=Load of the ranks", timeout=10_000)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, api: httpx.Client, database: Database, scheme: Literal["light", "dark"]) -> None:
    """WCAG AA: a contrast of at least 4.5 for every text on the page."""
    plan_id = ask(api)
    plan = finish_plan(database, plan_id)
    store_run(database, plan_id, measurement_of(plan))
    context = browser.new_context(base_url=str(api.base_url), color_scheme=scheme)
    page = context.new_page()
    for path in ("/", f"/plans/{plan_id}"):
        page.goto(path)
        assert page.evaluate(_CONTRAST) == []
    context.close()


_CONTRAST = """() => {
  const parse = (color) => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return { rgb: [r, g, b], a }; };
  const light = ({ rgb }) => { const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (node) => { for (; node; node = node.parentElement) { const c = parse(getComputedStyle(node).backgroundColor); if (c.a === 1) return c; } return { rgb: [255, 255, 255] }; };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    if (node.tagName === "title" || ![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.closest("svg.chart") ? style.fill : style.color);
    const [high, low] = [light(ink), light(ground(node))].sort((a, b) => b - a);
    if ((high + 0.05) / (low + 0.05) < 4.5) poor.push(`${node.tagName} ${node.textContent.trim().slice(0, 30)} ${style.color}`);
  }
  return poor;
}"""
