"""The dashboard in a real browser: what each view says, and what its buttons do."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from emplace.app.dashboard.units import time_unit
from emplace.app.database import jobs
from emplace.app.database.states import State
from emplace.placement.catalog import builtin_host
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question
from tests.app.dashboard.conftest import follow
from tests.app.dashboard.demo import Site, ask, end, fixable_plan, large_question, store
from tests.app.finished import measurement_of, plan_of, store_run
from tests.app.questions import a_question, model_data
from tests.executor.plans import build_plan, table_wise
from tests.prices import bandwidth_prices

_AXE = Axe()
_REFUSED = "the server responded with a status of"
MAX_NAME = 200
COLOUR = "it => getComputedStyle(it).color"


@pytest.fixture(scope="module")
def large(site: Site) -> Iterator[str]:
    """The plan of 1000 tables on 128 ranks."""
    plan_id = store(site, plan_of(large_question()))
    yield f"/plans/{plan_id}"
    site.api.post("/plans/delete", data={"plan": plan_id})


def row_of(plan_id: str) -> str:
    return f'tbody tr:has(a[href="/plans/{plan_id}"])'


def test_the_drawn_step_adds_up_to_the_headline(page: Page, site: Site) -> None:
    page.goto(site.plan("m3"))
    headline = page.locator("dd").first.inner_text()
    assert headline.endswith(" ms")
    chart = page.locator("svg.step")
    words = chart.text_content() or ""
    assert f"{headline} a step" in words
    spans = chart.locator("rect.segment.wait").evaluate_all("all => all.map(it => it.getBBox()).map(box => [box.x, box.x + box.width])")
    assert all(abs(after[0] - before[1]) < 0.1 for before, after in pairwise(spans))
    tips = chart.locator("rect.over title").all_text_contents()
    assert len(tips) == 8
    assert all("works" in tip and "waits" in tip for tip in tips)
    assert "no plan is faster than" in words
    assert chart.locator("line.bound").count() == 1


def test_a_colour_means_one_thing(page: Page, site: Site) -> None:
    page.goto("/")
    ids = site.ids

    def colour(plan_id: str, inside: str) -> str:
        return str(page.locator(f"{row_of(plan_id)} {inside}").first.evaluate(COLOUR))

    badge = "td:nth-child(4) .badge"
    good, far = colour(ids["optimal"], badge), colour(ids["plain"], badge)
    infeasible, failed, queued = colour(ids["fixable"], badge), colour(ids["failed"], badge), colour(ids["queued"], badge)
    assert len({good, far, infeasible, failed, queued}) == 5
    assert colour(ids["plain"], "td:nth-child(5) span") == far != colour(ids["optimal"], "td:nth-child(5) span")
    assert page.locator(f"{row_of(ids['plain'])} td:nth-child(7)").inner_text().endswith("verified, predicted -33%")
    assert colour(ids["plain"], "td:nth-child(7) .badge") == far
    assert colour(ids["cancelled"], badge) == failed


def test_units_stand_at_the_heads_of_columns(page: Page, site: Site) -> None:
    for path, numbers in (("/", "td.number"), (site.plan("m3"), "td.number"), (f"{site.plan('m3')}/tables", "td.number")):
        page.goto(path)
        if path == site.plan("m3"):
            page.click("text=The same as a table")
        cells = [cell for cell in page.locator(numbers).all_inner_texts() if cell]
        assert cells
        assert not [cell for cell in cells if any(unit in cell.split() for unit in ("us", "ms", "s", "GiB", "MiB", "B"))]
    assert "Bytes at peak, GiB" in page.inner_text("thead")


def test_how_long_a_solve_took_and_its_limit_are_told_apart(page: Page, site: Site) -> None:
    page.goto(site.plan("plain"))
    solved = page.locator("dl.facts div", has_text="Solved in").inner_text()
    assert "by the clock" in solved
    assert "2 s of counted work" in solved
    assert "Work limit" not in page.inner_text("main")


def test_a_thousand_tables_are_sorted_searched_and_paged(page: Page, large: str) -> None:
    answer = page.goto(large)
    assert answer is not None
    assert len(answer.body()) < 1_000_000
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 5_000
    assert page.locator("svg.step rect.over").count() == 128
    follow(page, "nav[aria-label='Order of ranks'] >> text=load")
    tips = page.locator("svg.step rect.over title").all_text_contents()
    assert float(tips[0].split("works ")[1].split()[0]) >= float(tips[-1].split("works ")[1].split()[0])
    page.goto(f"{large}/tables")
    sizes = [float(cell) for cell in page.locator("tbody td:nth-child(6)").all_inner_texts()]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] > 0
    follow(page, "thead >> text=Table")
    assert page.locator("tbody th").first.inner_text() == "table_0"
    follow(page, "text=Next")
    assert "page 2 of 10" in page.inner_text("nav.paging")
    page.fill("input[type=search]", "table_77")
    follow(page, "text=Search >> nth=-1")
    assert page.locator("tbody tr").count() == 11
    page.goto(f"{large}/map?by=time&q=table_77")
    assert page.locator("svg.heat rect.over").count() == 11
    assert page.locator("svg.heat rect.sum").count() == 128


def test_the_list_fits_and_a_phone_sees_the_status(browser: Browser, site: Site) -> None:
    for width, last in ((1280, "td:nth-child(12)"), (390, "td:nth-child(4) .badge")):
        context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 844})
        page = context.new_page()
        page.goto("/")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for box in (cell.bounding_box() for cell in page.locator(f"tbody {last}").all()):
            assert box is not None
            assert box["x"] + box["width"] <= width
        context.close()


def test_the_longest_names_fit(browser: Browser, site: Site) -> None:
    host = builtin_host("cpu-dual-socket").model_copy(update={"name": "h" * MAX_NAME})
    data = model_data(name="m" * MAX_NAME)
    for number, table in enumerate(data["tables"]):
        table["name"] = str(number) * MAX_NAME
    plan = plan_of(
        Question(model=ModelSpec.model_validate(data), host=host, cost_model=bandwidth_prices(host), options=PlanOptions(seed=41))
    )
    plan_id = store(site, plan)
    run_id = store_run(site.database, plan_id, measurement_of(plan))
    shown = f"/plans/{plan_id}"
    views = ["", "/tables", "/map", "/what-if", f"/runs/{run_id}"]
    paths = ["/", "/models", f"/models/{data['name']}", "/hosts", "/models/ncf", f"/plans/delete?plan={plan_id}"]
    paths += [f"/compare?plan={plan_id}&plan={site.ids['plain']}", *(f"{shown}{view}" for view in views)]
    for width in (1280, 360):
        context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 844})
        page = context.new_page()
        wide = {path: found for path in paths if (found := width_of(page, path)) != width}
        assert wide == {}
        page.goto("/")
        name = page.locator(f"{row_of(plan_id)} th").bounding_box()
        assert name is not None
        assert name["width"] < 240
        context.close()
    site.api.post("/plans/delete", data={"plan": plan_id})


def width_of(page: Page, path: str) -> int:
    page.goto(path)
    return int(page.evaluate("document.documentElement.scrollWidth"))


def test_an_export_for_torchrec_is_offered_where_there_is_one(site: Site) -> None:
    """TorchRec's ranks have one kind of device: not GPUs beside servers without any."""
    host, model = builtin_host("big-basin-16g"), a_question().model
    on_server, *others = model.tables
    layouts = {on_server.name: table_wise(on_server, 8), **{table.name: table_wise(table, 0) for table in others}}
    plan_id = store(site, build_plan(model, host, layouts, ranks=8))
    export = "export?format=torchrec"
    assert site.api.get(f"/v1/plans/{plan_id}/{export}").status_code == 409
    assert export not in site.api.get(f"/plans/{plan_id}").text
    assert export in site.api.get(site.plan("m3")).text
    site.api.post("/plans/delete", data={"plan": plan_id})


def barriers(page: Page) -> list[str]:
    """What axe-core finds wrong, and where first. What it finds right is much more, and stays in the browser."""
    page.evaluate(_AXE.axe_script)
    found = page.evaluate("axe.run({resultTypes: ['violations'], preload: false}).then((found) => found.violations)")
    return [f"{each['id']} {each['nodes'][0]['target']}" for each in found]


def test_a_page_that_keeps_people_out_is_found(page: Page) -> None:
    page.set_content("<html lang=en><title>a</title><main><h1>a</h1><img src=a.png><p style='color: #bbb'>pale</p></main>")
    assert [each.partition(" ")[0] for each in barriers(page)] == ["color-contrast", "image-alt"]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_no_view_keeps_anyone_out(browser: Browser, site: Site, width: int, scheme: Literal["light", "dark"]) -> None:
    """axe-core finds nothing: dark on a desktop, light on a phone. Nothing is wrong in the console, nor asked from elsewhere."""
    context = browser.new_context(base_url=site.url, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" and _REFUSED not in message.text else None)
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(site.url) else None)
    for path, status in (dict.fromkeys([*site.every_view(), site.plan("m3"), "/login"], 200) | site.refusals()).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == status, path
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") == width, path
        wrong += [f"{path}: {each}" for each in barriers(page)]
    for path in ("/new", "/studies/new?kind=size"):
        page.goto(path)
        follow(page, "main form button")
        assert page.locator(".field .error").count() > 0
        wrong += [f"{path} refused: {each}" for each in barriers(page)]
    assert wrong == []
    context.close()


def test_every_view_has_a_twin_in_json(site: Site) -> None:
    for path in site.every_view():
        answer = site.api.get(path, params={"format": "json"} if "?" not in path else None, headers={"Accept": "application/json"})
        twin = site.api.get(f"{path}{'&' if '?' in path else '?'}format=json")
        assert answer.status_code == twin.status_code == 200, path
        assert isinstance(twin.json(), dict), path
    step = site.api.get(f"{site.plan('m3')}?format=json").json()
    assert step["charts"]["step"]["spans"][-1]["end_us"] == pytest.approx(step["plan"]["step_time_us"])
    assert step["derived"]["limits"]["stages"]


def test_the_list_is_sorted_and_searched(page: Page) -> None:
    page.goto("/")
    follow(page, "thead >> text=Predicted step")
    steps = [cell for cell in page.locator("tbody td:nth-child(6)").all_inner_texts() if cell != "-"]
    assert [float(step.replace(",", "")) for step in steps] == sorted((float(step.replace(",", "")) for step in steps), reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Predicted step")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\s\d\d:\d\d", page.locator("tbody time").first.inner_text())
    follow(page, "thead >> text=Fullest memory")
    shares = [float(cell.split()[0]) for cell in page.locator("tbody td:nth-child(9)").all_inner_texts() if cell != "-"]
    assert len(shares) > 1
    assert shares == sorted(shares, reverse=True)
    page.fill("input[type=search]", "small seed 7")
    follow(page, "text=Filter")
    assert page.locator("tbody tr").count() == 1
    page.fill("input[type=search]", "100%_no")
    follow(page, "text=Filter")
    assert "No plan matches" in page.inner_text("main")


def test_two_ticked_plans_are_compared_the_question_first(page: Page, site: Site) -> None:
    page.goto("/?q=small&status=feasible")
    for name in ("plain", "seeded"):
        page.check(f"{row_of(site.ids[name])} input")
    follow(page, "text=Compare two")
    text = page.inner_text("main")
    assert "/options/seed" in text
    assert text.index("The question") < text.index("The placement") < text.index("Time and memory")
    assert page.locator("svg.mirror").count() == 2


def test_plans_of_different_hosts_are_said_to_be(page: Page, site: Site) -> None:
    page.goto(f"/compare?plan={site.ids['plain']}&plan={site.ids['m3']}")
    assert "Different hosts: cpu-dual-socket and big-basin-16g" in page.inner_text("main")


def test_a_fix_is_planned_with_in_two_clicks(page: Page, site: Site) -> None:
    page.goto("/")
    follow(page, f"{row_of(site.ids['fixable'])} a")
    assert "hbm: 12 bytes over" in page.inner_text("main")
    follow(page, "text=Plan with this")
    assert "Waits for a worker." in page.inner_text("main")
    assert "Seed\n99" in page.inner_text("main")


def test_a_new_plan_says_what_is_wrong_at_its_field(page: Page) -> None:
    page.goto("/new?host=cpu-dual-socket")
    broken = model_data()
    broken["tables"][1]["embedding_dim"] = 7
    page.locator("summary").first.click()
    page.fill("#model_text", json.dumps(broken))
    page.fill("#ranks", "two")
    follow(page, "main button")
    assert page.locator(".field:has(#ranks) .error").inner_text().startswith("must be a whole number")
    page.fill("#ranks", "2")
    follow(page, "main button")
    error = page.locator(".field:has(#model) .error").inner_text()
    assert "/tables/1/embedding_dim" in error
    assert "multiple of 4" in error
    assert page.locator("#model_text").get_attribute("aria-invalid") == "true"
    page.fill("#model_text", page.input_value("#model_text").replace('"embedding_dim": 7', '"embedding_dim": 8'))
    follow(page, "main button")
    assert "small on cpu-dual-socket queued" in page.inner_text("h1")


def test_a_model_can_be_uploaded(page: Page, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(model_data(name="uploaded")))
    page.goto("/new?host=dgx-h100")
    page.locator("summary").first.click()
    page.set_input_files("#model_file", tmp_path / "model.json")
    follow(page, "main button")
    assert page.inner_text("h1").startswith("uploaded on dgx-h100")


def test_a_plan_is_asked_again_with_changes(page: Page, site: Site) -> None:
    page.goto(site.plan("seeded"))
    follow(page, "text=Plan again with changes")
    assert page.input_value("#seed") == "7"
    assert page.input_value("#host") == "cpu-dual-socket"
    assert "name: small" in page.input_value("#model_text")
    page.fill("#seed", "70")
    follow(page, "main button")
    assert "Seed\n70" in page.inner_text("main")


def test_a_waiting_plan_is_cancelled_retried_and_deleted(page: Page, site: Site) -> None:
    plan_id = ask(site, a_question(seed=31))
    page.goto(f"/plans/{plan_id}")
    assert "Place in the queue" in page.inner_text("main")
    follow(page, "text='Cancel'")
    assert "this says nothing about the model" in page.inner_text("main")
    follow(page, "text='Retry'")
    assert "Waits for a worker." in page.inner_text("main")
    again = page.url.rpartition("/")[2]
    assert again != plan_id
    follow(page, "text=Delete…")
    assert "This can't be undone" in page.inner_text("main")
    follow(page, "button.danger")
    assert site.api.get(f"/plans/{again}").status_code == 404
    page.goto("/?status=cancelled")
    page.check(f"{row_of(plan_id)} input")
    follow(page, "text=Delete…")
    follow(page, "button.danger")
    assert site.api.get(f"/plans/{plan_id}").status_code == 404


def test_a_form_of_another_site_changes_nothing(browser: Browser, site: Site, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    action = f"{site.url}/plans/delete"
    trap = f'<form method="post" action="{action}"><input name="plan" value="{site.ids["plain"]}"><button>Win</button></form>'
    (tmp_path / "trap.html").write_text(trap)
    page.goto((tmp_path / "trap.html").as_uri())
    follow(page, "button")
    assert "may not change anything here" in page.inner_text("body")
    assert site.api.get(site.plan("plain")).status_code == 200
    (tmp_path / "frame.html").write_text(f'<iframe src="{site.url}"></iframe>')
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto((tmp_path / "frame.html").as_uri())
    page.wait_for_event("console", predicate=lambda _: True, timeout=5_000) if not refused else None
    assert "frame-ancestors" in refused[0] or "X-Frame-Options" in refused[0]
    context.close()


def test_what_if_says_at_once_and_plans_as_a_job(page: Page, site: Site) -> None:
    page.goto(f"{site.plan('m3')}/what-if")
    page.fill("#hbm", "64")
    follow(page, "text=See at once")
    assert "a size with a unit" in page.locator(".error").inner_text()
    page.fill("#hbm", "128GiB")
    follow(page, "text=See at once")
    assert "The audit finds nothing against it." in page.inner_text("main")
    page.fill("#hbm", "4GiB")
    follow(page, "text=See at once")
    assert "does not fit" in page.inner_text("main")
    page.fill("#hbm", "128GiB")
    follow(page, "text=See at once")
    follow(page, "text='Plan it'")
    assert "Waits for a worker." in page.inner_text("main")


def test_a_run_stands_beside_what_was_predicted(page: Page, site: Site) -> None:
    page.goto(f"{site.plan('plain')}/runs/{site.runs['plain']}")
    text = page.inner_text("main")
    assert "-33.3%" in text  # of what was measured, as the verdicts of a run say it
    assert "the update differs by 1e-6" in text
    assert page.locator("svg.points line.equal").count() == 1
    overhead = page.locator("tbody tr", has_text="overhead").locator("td").all_inner_texts()
    assert overhead[1:] == ["-", "-"]
    follow(page, "text=all runs of this machine")
    assert page.locator("svg.points").count() == 2
    off = page.locator("tbody tr", has=page.locator(f'a[href$="{site.runs["plain"]}"]')).locator("td").last
    assert off.inner_text() == "-33.3"
    page.goto(site.plan("plain"))
    assert page.get_by_role("region", name="Runs").locator("td").last.inner_text() == "-33.3"
    assert "the prediction is 33% below that" in page.inner_text("p.verdict")
    page.goto(f"{site.plan('emulated')}/runs/{site.runs['emulated']}")
    assert "Emulated: scaled down" in page.inner_text("h1")
    assert page.locator("svg").count() == 1


def test_an_emulation_that_fails_is_no_calm_word(page: Page, site: Site) -> None:
    page.goto(site.plan("emulated"))
    said = page.get_by_role("region", name="Runs").locator("tbody .badge").all_inner_texts()
    assert sorted(said) == ["emulated", "not verified"]
    page.goto(f"{site.plan('emulated')}/runs/{site.runs['emulated in vain']}")
    assert "not verified" in page.inner_text("h1")


def test_an_error_is_shown_as_text(page: Page, site: Site) -> None:
    page.goto(site.plan("failed"))
    assert "<script>alert(1)</script>" in page.inner_text("main")


def test_progress_is_live_and_ends_in_the_plan(page: Page, site: Site) -> None:
    question = a_question(seed=41)
    plan_id = ask(site, question)
    page.goto(f"/plans/{plan_id}")
    assert "queued" in page.inner_text("#progress")
    with site.database.writing() as session:
        for best in (2000.0, 1234.5):
            event = {"incumbent_us": best, "bound_us": 1200.0, "gap": 0.028, "elapsed_s": 1.5, "phase": "search"}
            jobs.add_event(session, plan_id, event)
    page.wait_for_selector("#progress svg.search", timeout=10_000)
    assert time_unit([1234.5]).show(1234.5) in page.inner_text("#progress")
    plan = plan_of(question)
    done = {"document": plan.model_dump_json(exclude_none=True), "status": plan.status, "gap": plan.gap, "step_time_us": plan.step_time_us}
    timer = threading.Timer(0.1, lambda: end(site, plan_id, State.DONE, **done))
    timer.start()
    page.wait_for_selector("text=The step", timeout=10_000)
    timer.join()


def test_rows_of_the_list_are_live(page: Page, site: Site) -> None:
    plan_id = ask(site, a_question(seed=42))
    page.goto("/")
    page.check(f"{row_of(plan_id)} input")
    site.api.post("/plans/cancel", data={"plan": plan_id})
    page.wait_for_selector(f"{row_of(plan_id)} >> text=cancelled", timeout=10_000)
    assert page.is_checked(f"{row_of(plan_id)} input")


def test_what_has_the_focus_keeps_it_while_rows_change(page: Page, site: Site) -> None:
    first, second = (ask(site, a_question(seed=seed)) for seed in (44, 45))
    page.goto("/")
    for selector, plan_id in (("th a", first), ("input", second)):
        page.focus(f"{row_of(second)} {selector}")
        site.api.post("/plans/cancel", data={"plan": plan_id})
        page.wait_for_selector(f"{row_of(plan_id)} >> text=cancelled", timeout=10_000)
        assert page.evaluate("selector => document.activeElement === document.querySelector(selector)", f"{row_of(second)} {selector}")


def test_the_pages_work_without_javascript(browser: Browser, site: Site) -> None:
    plan_id = store(site, fixable_plan(a_question(seed=43)))
    context = browser.new_context(base_url=site.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"/plans/{plan_id}")
    follow(page, "text=Plan with this")
    assert "Place in the queue" in page.inner_text("main")
    page.goto("/?sort=gap&order=asc")
    assert page.locator("tbody tr").count() > 5
    context.close()


def test_a_keyboard_reaches_what_scrolls(page: Page, site: Site) -> None:
    page.goto(site.plan("m3"))
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()"))
    assert reached[0] == "Skip to content"
    assert "As it passes: each stage lasts until its slowest rank is done" in reached
    assert "Device memory of each rank" in reached


def test_the_api_can_be_read_and_tried(page: Page, site: Site) -> None:
    page.goto("/docs")
    assert "/v1/plans/{plan_id}/export" in page.inner_text("main")

    def tried(path: str, **fields: str) -> Locator:
        """The answer, once it is there."""
        card = page.locator("section", has=page.get_by_role("heading", name=path, exact=True))
        card.locator("summary").click()
        for name, value in fields.items():
            card.locator(f"[name={name}]").fill(value)
        card.get_by_role("button", name="Send").click()
        card.locator("h3", has_text=re.compile(r"^\d")).wait_for(timeout=10_000)
        return card

    one = tried("GET /v1/plans/{plan_id}", plan_id=site.ids["plain"])
    assert one.locator("h3").inner_text() == "200 OK"
    assert "content-type: application/json" in one.locator("pre").first.inner_text()
    page.wait_for_function("text => text.textContent.startsWith('{\\n  \"id\"')", arg=one.locator("[data-text]").element_handle())
    two = tried("GET /v1/plans", limit="2", status="feasible")
    page.wait_for_function("text => JSON.parse(text.textContent).items.length === 2", arg=two.locator("[data-text]").element_handle())
    assert "422" in tried("GET /v1/plans/{plan_id}/export", plan_id=site.ids["plain"], format="no such").inner_text()
    streamed = tried("GET /v1/plans/{plan_id}/events", plan_id=site.ids["plain"])
    streamed.locator("[data-text]", has_text="event: end").wait_for(timeout=10_000)


def test_a_request_with_a_body_is_tried_by_keyboard(page: Page) -> None:
    page.goto("/docs")
    card = page.locator("section", has=page.get_by_role("heading", name="POST /v1/studies", exact=True))
    card.locator("summary").press("Enter")
    card.get_by_label("Example").select_option("size")
    assert '"kind": "size"' in card.locator("[data-body]").input_value()
    card.locator("[data-body]").fill("kind: size\nmodel: no-such\n")
    card.get_by_role("button", name="Send").press("Enter")
    card.locator("h3", has_text="422").wait_for(timeout=10_000)
    card.locator("[data-text]", has_text="hosts").wait_for()


def test_a_plan_that_is_gone_is_said_on_a_page(browser: Browser, site: Site) -> None:
    context = browser.new_context(base_url=site.url)
    page = context.new_page()
    answer = page.goto(f"/plans/{'0' * 32}")
    assert answer is not None
    assert answer.status == 404
    assert "no plan has the id" in page.inner_text("main")
    context.close()
