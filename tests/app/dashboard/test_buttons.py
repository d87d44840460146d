"""What buttons do, without a browser: cancel, ask again, and delete what was shown before."""

from __future__ import annotations

import httpx

from emplace.app.database.states import State
from emplace.app.database.tables import ProfileRow, RunRow
from tests.app.dashboard.demo import Site, ask
from tests.app.questions import a_question
from tests.app.stored_studies import a_sweep, store_study, sweep_figures

GONE = "0" * 32


def pressed(site: Site, path: str, **fields: str | list[str]) -> str:
    answer = site.api.post(path, data=fields)
    assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
    return answer.headers["location"]


def test_nothing_ticked_is_said_in_words(site: Site) -> None:
    for path in ("/plans/delete", "/studies/delete"):
        answer = site.api.get(path)
        assert answer.status_code == 200
        assert "Nothing is ticked" in answer.text
    for path in ("/compare", "/studies/compare"):
        assert "tick two" in site.api.get(path).text


def test_one_that_is_gone_does_not_keep_the_others(site: Site) -> None:
    waiting = ask(site, a_question(seed=501))
    assert pressed(site, "/plans/cancel", plan=[GONE, waiting]) == "/"
    assert site.api.get(f"/v1/plans/{waiting}").json()["state"] == State.CANCELLED
    assert pressed(site, "/plans/retry", plan=[GONE, waiting]).startswith("/plans/")
    for button in ("cancel", "retry"):
        assert site.api.post(f"/plans/{button}", data={"plan": GONE}).status_code == 404


def test_studies_are_shown_before_they_are_deleted(site: Site) -> None:
    asked = a_sweep(24, 40)
    ids = [store_study(site.database, asked, sweep_figures(asked)[:1]) for _ in range(2)]
    page = site.api.get("/studies/delete", params={"study": [*ids, GONE]}).text
    assert "Delete these 2 studies?" in page
    assert all(f'value="{each}"' in page for each in ids)
    assert pressed(site, "/studies/delete", study=ids) == "/studies"
    assert site.api.get(f"/studies/{ids[0]}").status_code == 404
    assert 'formaction="/studies/delete">Delete…' in site.api.get("/studies").text


def test_ticks_are_not_put_back_by_their_place(site: Site) -> None:
    """A browser that goes back or reloads would tick the same rows of another list."""
    for path, name in (("/", "plan"), ("/studies", "study")):
        page = site.api.get(path).text
        assert page.count(f'type="checkbox" name="{name}"') == page.count('autocomplete="off"') > 0


def test_a_cancelled_study_says_so_and_is_asked_again(site: Site) -> None:
    asked = a_sweep(24, 40)
    study_id = store_study(site.database, asked, sweep_figures(asked)[:1])
    page = site.api.get(pressed(site, f"/studies/{study_id}/cancel")).text
    assert "Cancelled when 1 of 4 points were done" in page
    new = pressed(site, f"/studies/{study_id}/again")
    assert new != f"/studies/{study_id}"
    assert site.api.get(f"/v1{new}").json()["asked"] == asked.to_data()


def test_a_run_at_work_is_cancelled(site: Site) -> None:
    plan = site.plan("seeded")
    with site.database.writing() as session:
        row = RunRow(plan_id=site.ids["seeded"], host_fingerprint="none", seed=0, emulate=False, state=State.QUEUED)
        session.add(row)
        session.flush()
        run = f"{plan}/runs/{row.id}"
    for page in (site.api.get(plan).text, site.api.get(run).text):
        assert f'action="{run}/cancel"' in page
    after = site.api.get(pressed(site, f"{run}/cancel")).text
    assert "The run was cancelled: nothing was measured." in after
    assert f'action="{run}/cancel"' not in after
    assert site.api.post(f"{plan}/runs/{GONE}/cancel").status_code == 404


def test_a_measurement_at_work_is_cancelled(site: Site) -> None:
    with site.database.writing() as session:
        row = ProfileRow(host_name="here", host_fingerprint="none", source="measured", state=State.QUEUED)
        session.add(row)
        session.flush()
        profile = f"/profiles/{row.id}"
    assert f'action="{profile}/cancel"' in site.api.get(profile).text
    assert "Cancelled before it was measured." in site.api.get(pressed(site, f"{profile}/cancel")).text
    assert site.api.post(f"/profiles/{GONE}/cancel").status_code == 404


def test_a_file_that_is_no_text_is_said_at_its_field(site: Site) -> None:
    """What was typed besides stays."""
    for path, field in (("/new", "model"), ("/new", "host"), ("/studies/new?kind=batch", "curve")):
        answer = site.api.post(
            path, data={"model": "ncf", "gap": "0.25", "batches": "64", "hosts": "zion"}, files={f"{field}_file": ("a.yaml", b"\xff\xfen")}
        )
        assert answer.status_code == 422
        [error] = [line for line in answer.text.splitlines() if f'id="error-{field}-1"' in line]
        assert "in UTF-8" in error
        assert 'value="0.25"' in answer.text
