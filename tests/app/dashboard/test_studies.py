"""Studies in a real browser: one that goes on while it is looked at, its figure, and two beside each other."""

from __future__ import annotations

from playwright.sync_api import Page

from emplace.app.database import studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.tables import StudyRow
from tests.app.dashboard.conftest import follow
from tests.app.dashboard.demo import Site
from tests.app.stored_studies import a_sweep, finish_study, store_study, sweep_figures


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
    assert page.locator("tbody tr").count() == 4
    assert "4 points on 2 hosts" in page.locator("p.verdict").inner_text()

    page.goto("/studies")
    for each in (site.ids["swept"], site.ids["swept again"]):
        page.check(f'input[value="{each}"]')
    follow(page, "text=Compare two")
    assert page.locator("svg.study").count() == 2
    assert page.locator("tbody th").all_inner_texts() == [f"{host}, /local_batch_size 256" for host in ("cpu-dual-socket", "big-basin-16g")]
    assert page.locator("tbody td:last-child").all_inner_texts() == ["+0.0", "+0.0"]


def test_a_study_is_cancelled_from_its_page(page: Page, site: Site) -> None:
    asked = a_sweep(24, 40)
    study_id = store_study(site.database, asked, sweep_figures(asked)[:1])
    page.goto(f"/studies/{study_id}")
    follow(page, "text=Cancel")
    assert page.locator("h1 .badge").inner_text() == "cancelled"
    assert page.locator("progress").count() == 0
