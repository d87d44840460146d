"""Asking an Emplace service instead of solving here."""

from __future__ import annotations

from typing import Any

from app.gate import Budgets, CheckResult
from placement.errors import ToolError
from placement.host import HostSpec
from placement.model import ModelSpec
from placement.plan import PlanOptions
from placement.reading import from_data

_PATIENCE_S = 60.0
"""Beyond the solve's own limit."""


def check_on_server(url: str, model: ModelSpec, host: HostSpec, options: PlanOptions, budgets: Budgets, source: str) -> CheckResult:
    """`POST /v1/checks`. Raises ToolError when the service can't be reached or refuses."""
    import httpx

    body = {"model": model.to_data(), "host": host.to_data(), "options": options.to_data(), "budgets": budgets.to_data()}
    try:
        response = httpx.post(f"{url.rstrip('/')}/v1/checks", json=body, timeout=options.time_limit + _PATIENCE_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolError(f"{url}: {error or type(error).__name__}") from None
    if response.status_code != httpx.codes.OK:
        raise ToolError(f"{url} answered {response.status_code}: {_problem_text(response)}")
    return from_data(response.json(), CheckResult, source=url).model_copy(update={"source": source})


def _problem_text(response: Any) -> str:
    """What a problem document (RFC 9457) says, or the start of any other body."""
    try:
        problem = response.json()
        return "; ".join([problem["title"], *filter(None, [problem.get("detail")]), *(str(each) for each in problem.get("errors", []))])
    except (ValueError, KeyError, TypeError, AttributeError):
        return str(response.text[:200])
