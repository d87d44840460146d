"""What is said to an Emplace service, apart from how it is sent: each conversation yields what to ask and gets the answers.

`emplace.client` holds them, with and without `await`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from emplace.gate import Budgets, CheckResult
from emplace.placement.audit import audit, refuse
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.errors import ToolError
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from emplace.placement.stack import Stack

if TYPE_CHECKING:
    from emplace.studies.asked import StudyAnswer
    from emplace.studies.overview import Overview

Urgency: TypeAlias = Literal["high", "normal", "low"]
T = TypeVar("T")
D = TypeVar("D", bound=Document)

KEY_VARIABLE = "EMPLACE_API_KEY"
PATIENCE_S = 60.0
"""Time beyond a solve's own limit, for explaining a no and waiting for other jobs."""
_DEFAULT_LIMIT_S = 10.0
_WAIT_S = 20
_BREATH_S = 0.5
"""Between two questions about what is not done."""
_HEARD_S = 5.0
_UNFINISHED = ("queued", "running")


@dataclass(frozen=True)
class Ask:
    """One request. `timeout_s` is how long its answer may take."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = PATIENCE_S


@dataclass(frozen=True)
class Pause:
    """A time in which nothing is asked."""

    seconds: float


@dataclass(frozen=True)
class StoredPlan:
    """A plan as the service keeps it: `plan` is there once `state` is done, `error` where it is failed."""

    id: str
    state: str
    error: str | None
    plan: Plan | None


@dataclass(frozen=True)
class StoredStudy:
    """A study as the service keeps it: `answer` is there once `state` is done, `error` where it is failed."""

    id: str
    kind: str
    state: str
    points_done: int
    points: int
    error: str | None
    answer: StudyAnswer | None


Conversation: TypeAlias = Generator[Ask | Pause, Any, T]
"""It is sent the JSON object that answers an Ask."""


def question(
    model: ModelSpec | Mapping[str, Any] | str,
    host: HostSpec | Mapping[str, Any] | str,
    options: PlanOptions | Mapping[str, Any],
    cost_model: CostModel | None,
    stack: Stack | str | None,
    priority: Urgency | None = None,
) -> dict[str, Any]:
    """The body that asks it. A name is one that the service knows; its `local` is the machine that it runs on."""
    parts = {"model": model, "host": host, "options": options, "cost_model": cost_model, "stack": stack, "priority": priority}
    return {key: _data(part) for key, part in parts.items() if part is not None}


def submit(body: Mapping[str, Any], wait_s: int = 0, deadline: float | None = None) -> Conversation[StoredPlan]:
    headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
    told = yield Ask("POST", "/v1/plans", body, headers, wait_s + PATIENCE_S if deadline is None else _left(deadline))
    return _stored(told)


def plan(body: Mapping[str, Any], timeout_s: float | None) -> Conversation[Plan]:
    """Submit, and wait until the plan is there; it is audited here, and for the model that was asked about."""
    limit_s = timeout_s if timeout_s is not None else _limit_s(body.get("options", {})) + PATIENCE_S
    deadline = time.monotonic() + limit_s
    stored = yield from submit(body, min(_WAIT_S, int(limit_s)), deadline)
    while stored.state in _UNFINISHED:
        if time.monotonic() > deadline:
            raise ToolError(f"plan {stored.id} is still {stored.state} after {limit_s:.0f} s; is a worker running?")
        yield Pause(_BREATH_S)
        stored = yield from get_plan(stored.id, deadline)
    if stored.plan is None:
        raise ToolError(f"plan {stored.id} is {stored.state}: {stored.error or 'it has no document'}")
    asked = body["model"]
    model = stored.plan.question.model
    if isinstance(asked, Mapping) and model != from_data(dict(asked), ModelSpec, source="model"):
        raise ToolError(f"the plan is for {model.name} of {stored.plan.model.digest}, which is not the model that was asked about")
    refuse(f"plan {stored.id}", audit(stored.plan))
    return stored.plan


def get_plan(plan_id: str, deadline: float | None = None) -> Conversation[StoredPlan]:
    told = yield Ask("GET", f"/v1/plans/{plan_id}", timeout_s=PATIENCE_S if deadline is None else _left(deadline))
    return _stored(told)


def cancel(plan_id: str) -> Conversation[StoredPlan]:
    told = yield Ask("POST", f"/v1/plans/{plan_id}/cancel")
    return _stored(told)


def delete(plan_id: str) -> Conversation[None]:
    yield Ask("DELETE", f"/v1/plans/{plan_id}")


def check(body: Mapping[str, Any], budgets: Budgets, whole: bool, timeout_s: float | None) -> Conversation[CheckResult]:
    limit_s = timeout_s if timeout_s is not None else _limit_s(body.get("options", {})) + 2 * PATIENCE_S
    asked = {**body, "budgets": budgets.to_data()} | ({"plan": True} if whole else {})
    told = yield Ask("POST", "/v1/checks", asked, timeout_s=limit_s)
    return _read(told, CheckResult)


def run(plan_id: str, asked: Mapping[str, Any], timeout_s: float) -> Conversation[Measurement]:
    """Run a stored plan on a worker of its host, and wait for the measurement."""
    deadline = time.monotonic() + timeout_s
    told = yield Ask("POST", f"/v1/plans/{plan_id}/runs", asked)
    while told.get("state") in _UNFINISHED:
        if time.monotonic() > deadline:
            raise ToolError(f"run {told['id']} is still {told['state']} after {timeout_s:.0f} s")
        yield Pause(_BREATH_S)
        told = yield Ask("GET", f"/v1/runs/{told['id']}")
    if told.get("measurement") is None:
        raise ToolError(f"run {told.get('id')} is {told.get('state')}: {told.get('error') or 'it has no measurement'}")
    return _read(told["measurement"], Measurement)


def submit_study(body: Mapping[str, Any]) -> Conversation[StoredStudy]:
    told = yield Ask("POST", "/v1/studies", body)
    return _stored_study(told)


def study(body: Mapping[str, Any], timeout_s: float) -> Conversation[StudyAnswer]:
    """Submit, and wait until all points are there."""
    deadline = time.monotonic() + timeout_s
    stored = yield from submit_study(body)
    while stored.state in _UNFINISHED:
        if time.monotonic() > deadline:
            done = f"{stored.points_done} of {stored.points} points after {timeout_s:.0f} s"
            raise ToolError(f"study {stored.id} is still {stored.state}, with {done}; it goes on in the service")
        yield Pause(_BREATH_S)
        stored = yield from get_study(stored.id)
    if stored.answer is None:
        raise ToolError(f"study {stored.id} is {stored.state}: {stored.error or 'it has no document'}")
    return stored.answer


def get_study(study_id: str) -> Conversation[StoredStudy]:
    told = yield Ask("GET", f"/v1/studies/{study_id}")
    return _stored_study(told)


def cancel_study(study_id: str) -> Conversation[StoredStudy]:
    told = yield Ask("POST", f"/v1/studies/{study_id}/cancel")
    return _stored_study(told)


def delete_study(study_id: str) -> Conversation[None]:
    yield Ask("DELETE", f"/v1/studies/{study_id}")


def study_question(kind: str, model: Any, hosts: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body that asks it."""
    listed = hosts if isinstance(hosts, str) else [_data(host) for host in hosts]
    return {key: _data(part) for key, part in {**asked, "kind": kind, "model": model}.items()} | {"hosts": listed}


def overview() -> Conversation[Overview]:
    """How all stored plans and runs are distributed."""
    from emplace.studies.overview import Overview

    told = yield Ask("GET", "/v1/overview")
    return _read(told, Overview)


def store_cost_model(model: CostModel) -> Conversation[str]:
    """The id of the profile that holds it."""
    told = yield Ask("POST", "/v1/profiles", {"cost_model": model.to_data()})
    return str(told.get("id"))


def _data(part: Any) -> Any:
    return part.to_data() if isinstance(part, Document) else dict(part) if isinstance(part, Mapping) else part


def _limit_s(options: Mapping[str, Any]) -> float:
    """How long the solve takes at most, by its options; those of counted work can take longer on a slow machine."""
    given = [float(value) for key in ("time_limit", "work_limit") if isinstance(value := options.get(key), int | float)]
    return min(given, default=_DEFAULT_LIMIT_S)


def _stored(told: Mapping[str, Any]) -> StoredPlan:
    document = told.get("plan")
    made = _read(document, Plan) if document is not None else None
    return StoredPlan(str(told.get("id")), str(told.get("state")), told.get("error"), made)


def _stored_study(told: Mapping[str, Any]) -> StoredStudy:
    from emplace.studies.asked import ANSWERS

    document, kind = told.get("study"), str(told.get("kind"))
    made = _read(document, ANSWERS[kind]) if document is not None and kind in ANSWERS else None
    return StoredStudy(
        id=str(told.get("id")),
        kind=kind,
        state=str(told.get("state")),
        points_done=int(told.get("points_done") or 0),
        points=int(told.get("points") or 0),
        error=told.get("error"),
        answer=made,
    )


def _read(data: Any, kind: type[D]) -> D:
    return from_data(data, kind, source="the service's answer")


def _left(deadline: float) -> float:
    """How long an answer may take: a service that waits as long as it was asked to must still be heard."""
    return max(0.0, deadline - time.monotonic()) + _HEARD_S
