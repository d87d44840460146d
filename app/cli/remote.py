"""Asking an Emplace service instead of solving here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emplace.gate import Budgets, CheckResult
from emplace.placement.cost_model import CostModel
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack

if TYPE_CHECKING:
    from emplace.studies.overview import Overview


def check_on_server(
    url: str,
    model: ModelSpec,
    host: HostSpec,
    options: PlanOptions,
    cost_model: CostModel | None,
    stack: Stack | None,
    budgets: Budgets,
    *,
    whole: bool,
) -> CheckResult:
    """`POST /v1/checks`; `whole` asks for the best plan. Raises ToolError when the service can't be reached or refuses."""
    from emplace.client import Client

    with Client(url) as client:
        return client.check(model, host, budgets=budgets, cost_model=cost_model, stack=stack, plan=whole, **options.to_data())


def overview_of_server(url: str) -> Overview:
    """`GET /v1/overview`. Raises ToolError when the service can't be reached or refuses."""
    from emplace.client import Client

    with Client(url) as client:
        return client.overview()
