"""One browser, and one server with a demo database, for each module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from emplace.app.jobs.warm import WarmProcess
from tests.app.dashboard.demo import Site, serving, store_demo

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """While it is there, a loop runs in this thread, and asyncio.run can't: so it ends with its module."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory, warm: WarmProcess) -> Iterator[Site]:
    """The demo, on SQLite."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(migrated_sqlite, folder / "emplace.db")
    with serving(f"sqlite:///{folder / 'emplace.db'}", folder, warm) as site:
        store_demo(site)
        yield site


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page that fails the test for any error in its console and any request to elsewhere. That a form was refused is no error."""
    context = browser.new_context(base_url=site.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" and "422" not in message.text else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(request.url) if not request.url.startswith(site.url) else None)
    yield page
    context.close()
    assert errors == []


def follow(page: Page, selector: str) -> None:
    """Click, and wait until the page that it leads to is whole: a click by itself may return while that is still read."""
    with page.expect_navigation():
        page.click(selector)
