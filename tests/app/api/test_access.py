"""A service that asks for keys: who has none sees nothing, and each scope may do what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from emplace.app.application import create_app
from emplace.app.database import keys
from emplace.app.database.connection import Database
from emplace.app.database.keys import AccessScope
from emplace.app.jobs.warm import WarmProcess
from emplace.app.settings import Settings
from emplace.app.web import access
from emplace.placement.errors import ToolError
from tests.app.asking import ONLY_SQLITE
from tests.app.conftest import served
from tests.app.questions import a_host, model_data
from tests.prices import bandwidth_prices

QUESTION = {"model": model_data(), "host": "cpu-dual-socket"}
OPEN = {"/healthz", "/readyz"}

Login = Callable[[AccessScope], dict[str, str]]


@pytest.fixture
def key(database: Database) -> Login:
    """The headers of a new key."""

    def make(scope: AccessScope) -> dict[str, str]:
        with database.writing() as session:
            return {"Authorization": f"Bearer {keys.make(session, f'a {scope} key', scope)}"}

    return make


def test_only_the_digest_of_a_key_is_stored_and_a_revoked_one_counts_no_more(database: Database) -> None:
    with database.writing() as session:
        key = keys.make(session, "ci", AccessScope.PLAN)
        assert keys.scope_of(session, keys.digest_of(key)) is AccessScope.PLAN
        assert keys.scope_of(session, keys.digest_of(key + "x")) is None
        assert key not in str([vars(row) for row in keys.list_keys(session)])
        with pytest.raises(ToolError, match="a key named 'ci' already"):
            keys.make(session, "ci", AccessScope.READ)
        assert keys.any_counts(session)
        keys.revoke(session, "ci")
        assert keys.scope_of(session, keys.digest_of(key)) is None
        assert not keys.any_counts(session)
        with pytest.raises(ToolError, match="no key that counts is named 'ci'"):
            keys.revoke(session, "ci")
        assert keys.make(session, "ci", AccessScope.READ) != key


@ONLY_SQLITE
def test_every_route_asks_for_a_key(guarded: httpx.Client) -> None:
    operations = guarded.get("/openapi.json").json()["paths"]
    pages: dict[str, dict[str, object]] = {"/": {"get": {}}, "/docs": {"get": {}}, "/plans/{plan_id}": {"get": {}}}
    asked = 0
    for path, methods in (operations | pages).items():
        for method in methods:
            answer = guarded.request(method, re.sub(r"\{\w+\}", "x", path), json=QUESTION if method == "post" else None)
            if path in OPEN:
                assert answer.status_code in (200, 503)
            else:
                assert (path, answer.status_code, answer.headers["content-type"]) == (path, 401, "application/problem+json")
                assert answer.headers["www-authenticate"].startswith("Bearer")
                asked += 1
    assert asked > 20


TAKES = {
    ("POST", "/v1/plans"): AccessScope.PLAN,
    ("POST", "/v1/plans/{plan_id}/cancel"): AccessScope.PLAN,
    ("DELETE", "/v1/plans/{plan_id}"): AccessScope.ADMIN,
    ("POST", "/v1/plans/{plan_id}/runs"): AccessScope.RUN,
    ("POST", "/v1/runs/{run_id}/cancel"): AccessScope.RUN,
    ("POST", "/v1/checks"): AccessScope.PLAN,
    ("POST", "/v1/profiles"): AccessScope.RUN,
    ("POST", "/v1/profiles/{profile_id}/cancel"): AccessScope.RUN,
    ("DELETE", "/v1/profiles/{profile_id}"): AccessScope.ADMIN,
    ("POST", "/v1/pipelines"): AccessScope.RUN,
    ("POST", "/v1/pipelines/{pipeline_id}/cancel"): AccessScope.RUN,
    ("POST", "/v1/studies"): AccessScope.PLAN,
    ("POST", "/v1/studies/{study_id}/cancel"): AccessScope.PLAN,
    ("DELETE", "/v1/studies/{study_id}"): AccessScope.ADMIN,
    ("POST", "/new"): AccessScope.PLAN,
    ("POST", "/plans/cancel"): AccessScope.PLAN,
    ("POST", "/plans/retry"): AccessScope.PLAN,
    ("POST", "/plans/delete"): AccessScope.ADMIN,
    ("POST", "/plans/{plan_id}/fixes/{number}"): AccessScope.PLAN,
    ("POST", "/plans/{plan_id}/runs"): AccessScope.RUN,
    ("POST", "/plans/{plan_id}/runs/{run_id}/cancel"): AccessScope.RUN,
    ("POST", "/plans/{plan_id}/what-if"): AccessScope.PLAN,
    ("POST", "/profiles/{profile_id}/cancel"): AccessScope.RUN,
    ("POST", "/studies/new"): AccessScope.PLAN,
    ("POST", "/studies/{study_id}/again"): AccessScope.PLAN,
    ("POST", "/studies/{study_id}/cancel"): AccessScope.PLAN,
    ("POST", "/studies/delete"): AccessScope.ADMIN,
}
"""Every request that changes something, but to log in and out. A profile of an empty body is measured."""


def test_what_each_change_takes_is_said(settings: Settings, database: Database, warm: WarmProcess) -> None:
    app = create_app(settings, database, warm, with_worker=False)
    routes = [(method, str(route.path)) for route in iter_route_contexts(app.routes) for method in route.methods or ()]
    changes = {(method, path) for method, path in routes if method not in ("GET", "HEAD", "OPTIONS")}
    assert changes - {("POST", "/login"), ("POST", "/logout")} == set(TAKES)


def test_each_scope_may_do_what_it_says(guarded: httpx.Client, key: Login) -> None:
    measured = bandwidth_prices(a_host()).to_data() | {"fingerprint": "somebody's"}
    harmless = bandwidth_prices(a_host()).to_data()
    asked: list[tuple[str, str, object, AccessScope]] = [
        ("GET", "/v1/plans", None, AccessScope.READ),
        ("GET", "/metrics", None, AccessScope.READ),
        ("POST", "/v1/profiles", {"cost_model": harmless}, AccessScope.PLAN),
        ("POST", "/v1/profiles", {"cost_model": measured}, AccessScope.ADMIN),
    ]
    asked += [(method, re.sub(r"\{\w+\}", "1", path), {}, needed) for (method, path), needed in TAKES.items()]
    for scope in AccessScope:
        headers = key(scope)
        for method, path, body, needed in asked:
            form = None if path.startswith(("/v1", "/metrics")) else {"none": "none"}
            answer = guarded.request(method, path, json=None if form else body, data=form, headers=headers)
            refused = answer.status_code == 403
            assert refused == (not scope.covers(needed)), (scope, method, path, answer.text)
            assert not refused or f"; yours has {scope}" in answer.json()["detail"]


@ONLY_SQLITE
def test_a_wrong_key_and_a_revoked_one_are_refused(
    guarded: httpx.Client, key: Login, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_FRESH_S", 0.0)
    headers = key(AccessScope.READ)
    assert guarded.get("/v1/plans", headers=headers).status_code == 200
    with database.writing() as session:
        keys.revoke(session, "a read key")
    for wrong in (headers, {"Authorization": "Bearer emplace_x"}, {"Authorization": "Basic eDp5"}):
        assert guarded.get("/v1/plans", headers=wrong).status_code == 401


@ONLY_SQLITE
def test_a_browser_logs_in_with_a_key(guarded: httpx.Client, key: Login) -> None:
    page = {"Accept": "text/html"}
    refused = guarded.get("/plans/x", headers=page)
    assert refused.status_code == 401
    assert '<input name="to" type="hidden" value="/plans/x">' in refused.text
    wrong = guarded.post("/login", data={"key": "emplace_wrong", "to": "/"})
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert "not known" in wrong.text
    form = {"key": key(AccessScope.READ)["Authorization"].removeprefix("Bearer "), "to": "/?model=small"}
    entered = guarded.post("/login", data=form)
    assert (entered.status_code, entered.headers["location"]) == (303, "/?model=small")
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in entered.headers["set-cookie"].split(";")}
    assert "Log out" in guarded.get("/", headers=page).text
    assert guarded.get("/v1/plans").status_code == 200
    assert guarded.post("/v1/plans", json=QUESTION).status_code == 403
    assert guarded.post("/logout").headers["location"] == "/login"
    assert guarded.get("/v1/plans").status_code == 401


@ONLY_SQLITE
def test_the_login_leads_back(guarded: httpx.Client) -> None:
    """To the view with all that its address says; where a form was sent, to the page that the form is on."""
    page = {"Accept": "text/html"}

    def leads_to(answer: httpx.Response) -> str:
        assert answer.status_code == 401
        return unescape(answer.text.split('name="to" type="hidden" value="')[1].split('"')[0])

    assert leads_to(guarded.get("/?q=m1&sort=gap", headers=page)) == "/?q=m1&sort=gap"
    for referer, path in (
        (f"{guarded.base_url}/new?plan=x", "/new?plan=x"),
        ("http://evil.example/new", "/"),
        ("", "/"),
        ("http://[", "/"),
    ):
        sent = guarded.post("/new", data={"model": "m1"}, headers=page | {"Referer": referer})
        assert leads_to(sent) == path
        assert "Nothing was done" in sent.text


@ONLY_SQLITE
@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example", "/\\evil.example", "/\r\nx: y", ""])
def test_the_login_leads_nowhere_else(guarded: httpx.Client, key: Login, elsewhere: str) -> None:
    form = {"key": key(AccessScope.READ)["Authorization"].removeprefix("Bearer "), "to": elsewhere}
    assert guarded.post("/login", data=form).headers["location"] == "/"


@ONLY_SQLITE
def test_a_page_of_another_origin_can_not_log_in(guarded: httpx.Client) -> None:
    assert guarded.post("/login", data={"key": "x"}, headers={"Origin": "http://evil.example"}).status_code == 403


@ONLY_SQLITE
@pytest.mark.parametrize(("trusted", "is_secure"), [("", False), ("127.0.0.2", True), ("127.0.0.0/8", True), ("10.0.0.0/8", False)])
def test_a_login_over_https_makes_a_cookie_for_https_where_the_proxy_is_trusted(
    settings: Settings, database: Database, warm: WarmProcess, monkeypatch: pytest.MonkeyPatch, trusted: str, is_secure: bool
) -> None:
    """As docs/how-to/operate.md says. The proxy is at an address that is not trusted by itself."""
    if trusted:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    with database.writing() as session:
        key = keys.make(session, "me", AccessScope.READ)
    with served(settings, database, warm, asks_for_keys=True) as client:
        proxy = httpx.Client(base_url=client.base_url, transport=httpx.HTTPTransport(local_address="127.0.0.2"))
        told = proxy.post("/login", data={"key": key, "to": "/"}, headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"})
        proxy.close()
    assert told.status_code == 303
    assert ("Secure" in told.headers["set-cookie"]) == is_secure
