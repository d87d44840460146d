"""What if: a plan's placement under a change, and the question that is asked of it."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.catalog import builtin_host
from emplace.placement.model import ModelSpec
from emplace.placement.plan import FewestDevices, JobSize, PlanOptions, Question
from emplace.placement.workload import Objective
from tests.app.dashboard.demo import Site, store
from tests.app.finished import plan_of
from tests.app.questions import a_question, model_data
from tests.prices import bandwidth_prices


@pytest.fixture(scope="module")
def fewest(site: Site) -> str:
    """A plan for the fewest devices, which are two of eight."""
    host = builtin_host("big-basin-16g")
    question = Question(
        model=ModelSpec.model_validate(model_data(name="few")),
        host=host,
        cost_model=bandwidth_prices(host),
        options=PlanOptions(objective=Objective.DEVICES),
    )
    sizes = JobSize(nodes=1, ranks=1), JobSize(nodes=1, ranks=2)
    plan = plan_of(question).model_copy(update={"fewest": FewestDevices(size=sizes[1], impossible=sizes[:1], undecided=())})
    return f"/plans/{store(site, plan)}/what-if"


def twin(site: Site, address: str, **wish: str) -> dict[str, Any]:
    found: dict[str, Any] = site.api.get(address, params={**wish, "format": "json"}).json()
    return found


def test_a_plan_for_the_fewest_devices_fits_where_it_fits(site: Site, fewest: str) -> None:
    assert twin(site, fewest, batch="32")["outcome"]["violations"] == []
    assert twin(site, fewest, hbm="12GiB")["outcome"]["violations"] == []


def test_the_question_that_is_planned_may_take_other_sizes(site: Site, fewest: str) -> None:
    asked = site.api.post(fewest, data={"hbm": "12GiB"}).headers["location"]
    options = dict(site.api.get(f"{asked}?format=json").json()["options"])
    assert options["objective"] == "devices"
    assert not {"nodes", "ranks"} & set(options)


def test_the_frontier_is_of_one_model(site: Site) -> None:
    """Another model of the same name is another model."""
    plan = plan_of(a_question(seed=90))
    other = Question(**{**dict(a_question(seed=91)), "model": ModelSpec.model_validate(model_data(tables=2))})
    here, there = store(site, plan), store(site, plan_of(other))
    twins = twin(site, f"/plans/{here}/what-if")
    places = [point["href"] for point in twins["frontier"]["points"]]
    assert f"/plans/{here}" in places
    assert f"/plans/{there}" not in places


def test_what_is_too_long_is_said_at_its_field(site: Site) -> None:
    for field in ("hbm", "nodes", "batch", "data_type"):
        answer = site.api.get(f"{site.plan('m3')}/what-if", params={field: "9" * 60})
        assert answer.status_code == 422
        assert f'id="error-{field}-1"' in answer.text, field


def test_a_change_that_nobody_can_have_is_said_on_the_form(site: Site) -> None:
    answer = site.api.post(f"{site.plan('m3')}/what-if", data={"nodes": "many", "batch": "64"})
    assert answer.status_code == 422
    assert 'id="error-nodes-1"' in answer.text
    assert 'value="64"' in answer.text
