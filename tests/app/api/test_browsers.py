"""What a browser may do here for a page of another origin: nothing."""

from __future__ import annotations

import socket
import subprocess

import httpx
import pytest

from tests.app.asking import ask_small
from tests.app.questions import model_data

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

QUESTION = {"model": model_data(), "host": "cpu-dual-socket"}
STRANGER = "http://evil.example"


def own(api: httpx.Client) -> str:
    return str(api.base_url).rstrip("/")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": STRANGER},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_changes_nothing(api: httpx.Client, headers: dict[str, str]) -> None:
    plan_id = ask_small(api)
    for method, path in (("POST", "/v1/plans"), ("POST", f"/v1/plans/{plan_id}/cancel"), ("DELETE", f"/v1/plans/{plan_id}")):
        refused = api.request(method, path, headers=headers, json=QUESTION if path == "/v1/plans" else None)
        assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
    assert [plan["state"] for plan in api.get("/v1/plans").json()["items"]] == ["queued"]


def test_its_own_pages_and_programs_do(api: httpx.Client) -> None:
    for headers in ({}, {"Origin": own(api)}, {"Origin": own(api), "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        assert api.post("/v1/plans", json=QUESTION, headers=headers).status_code == 202


def test_a_page_of_another_origin_may_be_left_for_this_one(api: httpx.Client) -> None:
    """A link from elsewhere, and a program that asks for documents."""
    assert api.get("/", headers={"Sec-Fetch-Site": "cross-site", "Origin": STRANGER}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "[::1].evil.example", "ho st"])
def test_another_name_that_leads_here_is_refused(api: httpx.Client, host: str) -> None:
    """DNS rebinding: a page's own name that leads to this address makes its scripts same-origin."""
    refused = api.get("/v1/plans", headers={"Host": host})
    assert (refused.status_code, refused.headers["content-type"]) == (421, "application/problem+json")
    assert "EMPLACE_ALLOWED_HOSTS" in refused.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8000", "10.1.2.3"])
def test_localhost_and_addresses_are_its_own(api: httpx.Client, host: str) -> None:
    assert api.get("/v1/plans", headers={"Host": host}).status_code == 200


@pytest.fixture
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_ALLOWED_HOSTS", "emplace.example, other.example")


def test_a_listed_name_is_its_own_also_where_a_proxy_renames_it(behind_a_proxy: None, api: httpx.Client) -> None:
    del behind_a_proxy
    proxied = {"Host": "emplace.example", "Origin": "https://emplace.example"}
    renamed = {"Host": "127.0.0.1:8000", "Origin": "https://other.example"}
    for headers in (proxied, renamed):
        assert api.post("/v1/plans", json=QUESTION, headers=headers).status_code == 202
    assert api.post("/v1/plans", json=QUESTION, headers={"Host": "emplace.example", "Origin": STRANGER}).status_code == 403


def test_another_port_of_this_machine_is_another_origin(serve: tuple[httpx.Client, subprocess.Popen[bytes]]) -> None:
    """Also under the names that the service goes by without a proxy: those of its machine and of its address."""
    api, _ = serve
    port = api.base_url.port
    for origin in ("http://127.0.0.1:1", f"http://{socket.gethostname()}:1", f"http://{socket.gethostname()}", f"ftp://127.0.0.1:{port}"):
        assert api.post("/v1/plans", json=QUESTION, headers={"Origin": origin}).status_code == 403, origin
    for name in ("127.0.0.1", socket.gethostname()):
        headers = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
        assert api.post("/v1/plans", json=QUESTION, headers=headers).status_code in (200, 202)


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_says_what_it_is(api: httpx.Client, media_type: str | None) -> None:
    """What a form of another origin can send without being asked for leave is none of the types that are read."""
    headers = {} if media_type is None else {"Content-Type": media_type}
    refused = api.post("/v1/plans", content=b'{"model": "m1", "host": "zion"}', headers=headers)
    assert (refused.status_code, refused.headers["content-type"]) == (415, "application/problem+json")
    assert "application/json or application/yaml" in refused.json()["detail"]


def test_every_answer_is_protected(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from emplace.app.database import paging

    plan_id = ask_small(api)
    answers = [
        api.get(path) for path in ("/", f"/plans/{plan_id}", "/docs", "/static/emplace.css", "/openapi.json", "/healthz", "/nothing")
    ]
    answers += [api.post("/v1/plans", json={}), api.get("/v1/plans", headers={"Host": "evil.example"})]
    answers += [api.post("/v1/plans", content=b" " * 40_000_000, headers={"content-type": "application/json"}), api.get("/v1/plans")]
    monkeypatch.setattr(paging, "page", lambda *_: 1 / 0)
    answers.append(api.get("/v1/plans"))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 200, 404, 422, 421, 413, 200, 500]
    for answer in answers:
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        is_page = answer.is_success and answer.headers["content-type"].startswith("text/html")  # its forms have to say where they are from
        assert answer.headers["referrer-policy"] == ("same-origin" if is_page else "no-referrer")
        assert answer.headers["x-request-id"]


def test_a_browser_gets_a_page_for_what_is_not_there(api: httpx.Client) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path, status in ((f"/plans/{'0' * 32}", 404), ("/nothing", 404), ("/?page=0", 422)):
        page = api.get(path, headers=browser)
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert 'href="/"' in page.text
        assert api.get(path).headers["content-type"] == "application/problem+json"
    assert "no plan has the id" in api.get(f"/plans/{'0' * 32}", headers=browser).text
    assert "<script>" not in api.get("/plans/<script>x", headers=browser).text
    assert api.get(f"/v1/plans/{'0' * 32}", headers=browser).headers["content-type"] == "application/problem+json"
