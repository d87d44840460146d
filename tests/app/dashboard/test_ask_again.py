"""`Plan again with changes`: what the form has no field for is carried on, and let go where somebody says so."""

from __future__ import annotations

import json
from html import unescape
from html.parser import HTMLParser

import pytest

from emplace.app.database.tables import PlanRow
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.plan import PlanOptions, Question
from emplace.placement.reading import from_data
from tests.app.dashboard.demo import Site, ask
from tests.app.finished import plan_of
from tests.app.questions import a_host, a_question


class _Fields(HTMLParser):
    """What a browser would send of the form as it stands."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sent: list[tuple[str, str]] = []
        self._select = self._text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        had = {name: value or "" for name, value in attrs}
        if tag == "select":
            self._select = had["name"]
        elif tag == "option" and "selected" in had:
            self.sent.append((self._select, had.get("value", "")))
            self._text = self._select if "value" not in had else ""
        elif tag == "textarea":
            self.sent.append((had["name"], ""))
            self._text = had["name"]
        elif tag == "input" and had.get("type") != "file" and (had.get("type") != "checkbox" or "checked" in had):
            self.sent.append((had["name"], had.get("value", "")))

    def handle_data(self, data: str) -> None:
        if self._text:
            self.sent[-1] = (self._text, data)
            self._text = ""


def form_of(site: Site, plan_id: str) -> tuple[str, dict[str, list[str]]]:
    page = site.api.get(f"/new?plan={plan_id}").text
    fields: dict[str, list[str]] = {}
    for name, value in _Fields(page).sent:
        fields.setdefault(name, []).append(value)
    return unescape(page), fields


def asked(site: Site, fields: dict[str, list[str]]) -> Question:
    """What the form asks."""
    answer = site.api.post("/new", data=fields)
    assert answer.status_code == 303, answer.text
    with site.database.reading() as session:
        row = session.get_one(PlanRow, answer.headers["location"].rpartition("/")[2])
        return from_data(json.loads(row.question), Question, source="question")


def of_datasheet(**options: object) -> Question:
    question = a_question()
    return question.model_copy(
        update={"cost_model": datasheet_cost_model(a_host()), "options": PlanOptions.model_validate({"work_limit": 2.0, **options})}
    )


def moved() -> Question:
    start = [table.to_data() for table in plan_of(a_question()).tables]
    return of_datasheet(start=start, move_price_us_per_gib=100.0)


def own_stack() -> Question:
    usual = datasheet_cost_model(a_host()).stack
    assert usual is not None
    stack = usual.model_copy(update={"name": "mine"})
    return of_datasheet().model_copy(update={"cost_model": datasheet_cost_model(a_host(), stack)})


def own_prices() -> Question:
    return a_question(seed=61)


@pytest.mark.parametrize(
    ("question", "key", "said"),
    [
        (moved(), "start", "where the job has 3 tables now, and 100 us of a step"),
        (own_stack(), "stack", "a software stack of its own, mine"),
        (own_prices(), "cost_model", "prices of its own"),
    ],
    ids=["start", "stack", "prices"],
)
def test_what_no_field_shows_is_carried_on_or_let_go(site: Site, question: Question, key: str, said: str) -> None:
    page, fields = form_of(site, ask(site, question))
    assert said in page
    assert fields["keep"] == [key]
    assert asked(site, fields | {"seed": ["62"]}) == question.model_copy(
        update={"options": question.options.model_copy(update={"seed": 62})}
    )
    plain = asked(site, fields | {"keep": []})
    assert plain.options.start is None
    assert plain.cost_model == datasheet_cost_model(a_host())


def test_nothing_is_kept_of_a_question_that_the_form_shows_whole(site: Site) -> None:
    question = of_datasheet(seed=63)
    _, fields = form_of(site, ask(site, question))
    assert "keep" not in fields
    assert asked(site, fields) == question


def test_prices_of_another_host_are_refused_where_they_are_kept(site: Site) -> None:
    _, fields = form_of(site, ask(site, own_prices().model_copy(update={"options": PlanOptions(work_limit=2.0, seed=64)})))
    answer = site.api.post("/new", data=fields | {"host": ["big-basin-16g"], "host_text": [""]})
    assert answer.status_code == 422
    assert 'id="error-cost_model-1"' in answer.text
    assert 'value="cost_model" autocomplete="off" checked' in answer.text
