"""Asking an Emplace service instead of solving here."""

from __future__ import annotations

from typing import Any

from emplace.gate import Budgets, CheckResult
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import from_data
from emplace.placement.stack import Stack

_PATIENCE_S = 120.0
"""Time beyond the solve's own limit, for explaining a no and waiting for other checks."""


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
    import httpx

    body: dict[str, Any] = {"model": model.to_data(), "host": host.to_data(), "options": options.to_data(), "budgets": budgets.to_data()}
    if cost_model is not None:
        body["cost_model"] = cost_model.to_data()
    if stack is not None:
        body["stack"] = stack.to_data()
    if whole:
        body["plan"] = True
    try:
        response = httpx.post(f"{url.rstrip('/')}/v1/checks", json=body, timeout=min(options.limits.values()) + _PATIENCE_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolError(f"{url}: {str(error) or type(error).__name__}") from None
    if response.status_code != httpx.codes.OK:
        raise ToolError(f"{url} answered {response.status_code}: {_detail(response)}")
    return from_data(_json(response, url), CheckResult, source=url)


def _detail(response: Any) -> str:
    """What a problem document (RFC 9457) says, or the start of any other body."""
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return str(response.text[:200])


def _json(response: Any, url: str) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ToolError(f"{url} is no Emplace service: its answer is not JSON") from None
