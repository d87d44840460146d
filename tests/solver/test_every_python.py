"""The same question has the same plan on every Python: sum() of floats is corrected for rounding since 3.12, and was not before."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable
from typing import Any

import pytest

from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.solver.solve import solve_question
from emplace.studies.queueing import Network, Station, bounds, mean_values

SUM = sum


def rounded(values: Iterable[Any], start: Any = 0) -> Any:
    """As before Python 3.12."""
    total = start
    for value in values:
        total = total + value
    return total


def corrected(values: Iterable[Any], start: Any = 0) -> Any:
    """As since: of floats."""
    kept = list(values)
    return math.fsum(kept) if kept and all(type(value) is float for value in kept) else SUM(kept, start)


def planned() -> Plan:
    """A plan whose step is as long as its input takes to arrive: features of many different mean lengths."""
    data = builtin_model("criteo-kaggle").to_data()
    for number, table in enumerate(data["tables"]):
        table["features"][0]["length"] = {"lognormal": {"mean": 1.3**number, "sigma": 0.5}}
    host = builtin_host("dgx-a100-40g")
    slow = host.model_copy(update={"nodes": 1, "remote_servers": None, "node": host.node.model_copy(update={"network": 1e7})})
    options = PlanOptions(work_limit=0.1, tiers=("hbm",))
    plan = solve_question(Question(model=ModelSpec.model_validate(data), host=slow, cost_model=datasheet_cost_model(slow), options=options))
    return plan.model_copy(update={"solver": plan.solver.model_copy(update={"seconds": 0.0})})


def test_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "sum", rounded)
    before = planned()
    monkeypatch.setattr(builtins, "sum", corrected)
    since = planned()
    assert before.step_time_us == since.step_time_us
    assert before.content_digest() == since.content_digest()
    assert audit(before) == []


def test_a_queueing_network(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(tuple(Station(str(number), 0.1 + number / 7) for number in range(12)), 3.3, 9)
    monkeypatch.setattr(builtins, "sum", rounded)
    before = mean_values(network), bounds(network)
    monkeypatch.setattr(builtins, "sum", corrected)
    assert (mean_values(network), bounds(network)) == before
