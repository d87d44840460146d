"""Logging in, in a real browser: with a key the pages are there, and without one they are not."""

from __future__ import annotations

import httpx
from playwright.sync_api import Browser

from emplace.app.database import keys
from emplace.app.database.connection import Database
from emplace.app.database.keys import AccessScope
from tests.app.asking import ONLY_SQLITE


@ONLY_SQLITE
def test_a_key_opens_the_pages(browser: Browser, guarded: httpx.Client, database: Database) -> None:
    with database.writing() as session:
        key = keys.make(session, "me", AccessScope.READ)
    context = browser.new_context(base_url=str(guarded.base_url))
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.goto("/?model=small")
    page.fill("#key", "emplace_wrong")
    with page.expect_navigation():
        page.click(".login button")
    assert "not known" in page.content()
    assert "not known" in page.inner_text("[role=alert]")
    page.fill("#key", key)
    with page.expect_navigation():
        page.click(".login button")
    assert "Plans" in page.title()
    with page.expect_navigation():
        page.click(".top button")
    page.goto("/")
    assert page.title().startswith("Log in")
    context.close()
