"""A plan from an Emplace service: stored there, on its dashboard, and answered at once where an equal question was."""

from __future__ import annotations

import time
from typing import Any

import httpx

from emplace.placement.audit import audit, refuse
from emplace.placement.errors import ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data

_PATIENCE_S = 60.0
"""Time beyond the solve's own limit, for explaining a no and waiting for other jobs."""
_WAIT_S = 20
_BREATH_S = 0.5
"""Between two questions to a service that does not wait."""


def plan_of_service(url: str, model: ModelSpec, host: HostSpec, options: PlanOptions) -> Plan:
    """`POST /v1/plans`, then wait for it; what comes is audited here.

    Raises ToolError where the service can't be reached, refuses, fails or takes too long, InvalidDocument for a plan that is not sound.
    """
    root = url.rstrip("/")
    body = {"model": model.to_data(), "host": host.to_data(), "options": options.to_data()}
    limit_s = min(options.limits.values()) + _PATIENCE_S
    deadline = time.monotonic() + limit_s
    plan = _ask("POST", f"{root}/v1/plans", deadline, headers={"Prefer": f"wait={_WAIT_S}"}, json=body)
    while plan.get("state") in ("queued", "running"):
        if time.monotonic() > deadline:
            raise ToolError(f"{url}: plan {plan.get('id')} is still {plan['state']} after {limit_s:.0f} s; is a worker running?")
        time.sleep(_BREATH_S)
        plan = _ask("GET", f"{root}/v1/plans/{plan.get('id')}", deadline)
    if plan.get("state") != "done" or plan.get("plan") is None:
        raise ToolError(f"{url}: plan {plan.get('id')} is {plan.get('state')}: {plan.get('error') or 'it has no document'}")
    answer = from_data(plan["plan"], Plan, source=url)
    if answer.question.model != model:
        raise ToolError(f"{url}: the plan is for {answer.model.name} of {answer.model.digest}, which is not the model that was asked about")
    refuse(url, audit(answer))
    return answer


def _ask(method: str, url: str, deadline: float, **request: Any) -> dict[str, Any]:
    try:
        response = httpx.request(method, url, timeout=max(1.0, deadline - time.monotonic()), **request)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolError(f"{url}: {str(error) or type(error).__name__}") from None
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ToolError(f"{url} is no Emplace service: its answer is not a JSON object")
    if response.is_error:
        raise ToolError(f"{url} answered {response.status_code}: {answer.get('detail', '')}")
    return answer
