"""Studies in a real browser: one that goes on while it is looked at, its figure, and two beside each other."""

from __future__ import annotations

from html import unescape

from playwright.sync_api import Page

from emplace.app.database import studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.tables import StudyRow
from tests.app.dashboard.conftest import follow
from tests.app.dashboard.demo import Site
from tests.app.stored_studies import a_batch, a_sweep, finish_study, store_study, sweep_figures

HOSTS = ("cpu-dual-socket", "big-basin-16g")


def test_a_study_is_followed_to_its_figure_and_compared(page: Page, site: Site) -> None:
    asked = a_sweep(48, 96)
    parts = sweep_figures(asked)
    study_id = store_study(site.database, asked, parts[:2])
    page.goto("/studies")
    follow(page, f'a[href="/studies/{study_id}"]')
    progress = page.locator("#progress")
    assert "2 of 4 points" in progress.inner_text()
    with site.database.writing() as session:
        assert studies.keep_point(session, Ticket(StudyRow, study_id, 1), 2, parts[2].to_data(), None)
    page.get_by_text("3 of 4 points").wait_for(timeout=5_000)
    finish_study(site.database, study_id, asked.study().answer(parts))
    figure = page.locator("svg.study")
    figure.wait_for(timeout=5_000)
    assert figure.locator("polyline").count() == 2
    assert figure.locator("circle").count() == 4
    assert page.get_by_role("region", name="All points").locator("tbody tr").count() == 4
    assert "4 points on 2 hosts" in page.locator("p.verdict").inner_text()

    page.goto("/studies")
    for each in (site.ids["swept"], site.ids["swept again"]):
        page.check(f'input[value="{each}"]')
    follow(page, "text=Compare two")
    assert page.locator("svg.study").count() == 2
    both = page.get_by_role("region", name="What both have")
    assert both.locator("tbody th").all_inner_texts() == [f"{host}, /local_batch_size 256" for host in HOSTS]
    assert both.locator("tbody td:last-child").all_inner_texts() == ["+0.0", "+0.0"]


def test_batch_sizes_show_where_they_saturate_and_which_reaches_the_quality_first(page: Page, site: Site) -> None:
    page.goto(site.study("batched"))
    throughput, to_quality = page.locator("svg.study").all()
    assert [figure.locator("polyline").count() for figure in (throughput, to_quality)] == [2, 2]
    for figure in (throughput, to_quality):
        third = figure.locator("circle[r='3']").nth(2).get_attribute("cx")
        rings = figure.locator("circle.ring:not([stroke='#333'])").all()
        assert [ring.get_attribute("cx") for ring in rings] == [third, third]
    assert "seconds to the quality" in (to_quality.text_content() or "")
    assert page.locator("figcaption").all_inner_texts() == ["Throughput", "Time to NE 0.78"]
    assert "with /local_batch_size varied" in page.inner_text("main")
    rows = page.locator("tbody tr").all_inner_texts()
    assert len(rows) == 8
    assert ["not known" in row for row in rows] == [False, False, False, True] * 2
    lines = page.locator("main li").all_inner_texts()
    assert [line.startswith(f"{host}: throughput saturates") for host in HOSTS for line in lines].count(True) == 2
    assert not any("still rises" in line for line in lines)
    assert sum("NE 0.78 is reached first with a batch of" in line for line in lines) == 2

    other = store_study(site.database, *a_batch(65_536, 131_072))
    page.goto(f"/studies/compare?study={site.ids['batched']}&study={other}")
    assert page.locator("svg.study").count() == 4
    points = page.get_by_role("region", name="What both have").locator("tbody th").all_inner_texts()
    assert points == [f"{host}, batch {batch}" for host in HOSTS for batch in ("65,536", "131,072")]


def test_a_study_is_cancelled_from_its_page(page: Page, site: Site) -> None:
    asked = a_sweep(24, 40)
    study_id = store_study(site.database, asked, sweep_figures(asked)[:1])
    page.goto(f"/studies/{study_id}")
    follow(page, "text=Cancel")
    assert page.locator("h1 .badge").inner_text() == "cancelled"
    assert page.locator("progress").count() == 0


def test_a_new_study_says_what_is_wrong_at_its_field(page: Page) -> None:
    page.goto("/studies")
    follow(page, "text='New study'")
    page.select_option("#model", "suite")
    page.check('input[name="hosts"][value="cpu-dual-socket"]')
    page.fill("#vary", "/sparse=4,8\n/no-such=1")
    page.fill("#ranks", "two")
    follow(page, "main button")
    assert page.locator(".field:has(#ranks) .error").inner_text().startswith("must be a whole number")
    page.fill("#ranks", "")
    follow(page, "main button")
    assert "/no-such is not there" in page.locator(".field:has(#vary) .error").inner_text()
    assert page.locator("#vary").get_attribute("aria-invalid") == "true"
    assert page.is_checked('input[name="hosts"][value="cpu-dual-socket"]')
    page.fill("#vary", "/sparse=4,8,1000000")
    follow(page, "main button")
    assert "/sparse=1000000" in page.locator(".field:has(#vary) .error").inner_text()
    page.fill("#vary", "/sparse=4,8\n/dense=64,128")
    follow(page, "main button")
    assert page.inner_text("h1").startswith("Sweep of suite queued")
    assert "0 of 4 points" in page.inner_text("#progress")
    assert "with /sparse, /dense varied" in page.inner_text("main")


def test_sizings_and_rankings_are_asked_for_without_scripts(site: Site) -> None:
    """As a browser does that has none."""

    def sent(kind: str, **fields: str) -> tuple[int, str]:
        answer = site.api.post(f"/studies/new?kind={kind}", data={"model": "ncf", "hosts": "cpu-dual-socket", **fields})
        return answer.status_code, answer.headers.get("location") or answer.text

    assert sent("size", throughput="5k", objective="servers")[1].startswith("/studies/")
    assert sent("recommend", objective="throughput", nodes="1")[1].startswith("/studies/")
    curve = "points:\n- {global_batch: 512, examples: 4.1G}"
    assert sent("batch", batches="256, 1k", curve_text=curve)[1].startswith("/studies/")
    for kind, fields, field, said in (
        ("size", {}, "throughput", "say what the job must reach"),
        ("size", {"examples": "10T", "deadline": "1s"}, "deadline", "no job reaches"),
        ("size", {"throughput": "5k", "objective": "cost"}, "hosts", "price_per_hour: 12.5"),
        ("size", {"throughput": "5k", "max_nodes": "many"}, "max_nodes", "must be a whole number"),
        ("batch", {}, "batches", "must be examples of a rank"),
        ("batch", {"batches": "64,64"}, "batches", "is named twice"),
        ("batch", {"batches": "64", "curve_text": "global_batch,examples\n64,5G"}, "curve", "must be a curve document"),
        ("batch", {"batches": "64", "curve_text": curve.replace("4.1G", "many")}, "curve", "/points/0/examples: must be a number above 0"),
        ("recommend", {"hosts": ""}, "hosts", "tick at least one"),
        ("recommend", {"set": "sparse=4"}, "set", "only the template suite has settings"),
        ("recommend", {"host_text": "node: 8 x h100-80g"}, "hosts", "network, as in"),
    ):
        status, page = sent(kind, **fields)
        assert status == 422, page
        [error] = [line for line in page.splitlines() if f'id="error-{field}-1"' in line]
        assert said in error
        assert fields.get("curve_text", "") in unescape(page)


def test_the_names_of_bars_are_whole(page: Page, site: Site) -> None:
    page.goto(site.study("ranked"))
    names = page.locator("svg.study text[text-anchor=end]")
    assert max(len(name) for name in names.all_text_contents()) > 40
    assert min(names.evaluate_all("all => all.map((it) => it.getBBox().x)")) >= 0
