"""A client of an Emplace service, typed, with and without `await`.

with emplace.Client("http://127.0.0.1:8000") as client:
    plan = client.plan("criteo-terabyte", "dgx-a100-80g", tiers=["hbm"])
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import httpx

from emplace import conversations
from emplace.conversations import KEY_VARIABLE, Ask, Conversation, Pause, StoredPlan, StoredStudy, Urgency
from emplace.gate import Budgets, CheckResult
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import ToolError
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data
from emplace.placement.stack import Stack

if TYPE_CHECKING:
    from emplace.studies.asked import StudyAnswer, StudyKind
    from emplace.studies.overview import Overview

T = TypeVar("T")

_RUN_TIMEOUT_S = _STUDY_TIMEOUT_S = 1800.0

Model = ModelSpec | Mapping[str, Any] | str
"""A document, its data, or a name that the service knows."""
Host = HostSpec | Mapping[str, Any] | str


class Client:
    """Every method raises ToolError where the service can't be reached, refuses, fails or takes too long, and InvalidDocument for an
    answer that is not sound."""

    def __init__(self, url: str, key: str | None = None) -> None:
        """`key` is an API key; by default what EMPLACE_API_KEY says, if that is set."""
        self._url, self._http = url, _opened(httpx.Client, url, key)

    def plan(
        self,
        model: Model,
        host: Host,
        *,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        timeout_s: float | None = None,
        priority: Urgency | None = None,
        **options: Any,
    ) -> Plan:
        """A plan from the service, waited for and audited here. `options` are those of PlanOptions; without a limit 10 s of time."""
        return self._hold(conversations.plan(conversations.question(model, host, options, cost_model, stack, priority), timeout_s))

    def submit(
        self,
        model: Model,
        host: Host,
        *,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        priority: Urgency | None = None,
        **options: Any,
    ) -> StoredPlan:
        """Ask for a plan, and don't wait for it."""
        return self._hold(conversations.submit(conversations.question(model, host, options, cost_model, stack, priority)))

    def get_plan(self, plan_id: str) -> StoredPlan:
        return self._hold(conversations.get_plan(plan_id))

    def cancel(self, plan_id: str) -> StoredPlan:
        return self._hold(conversations.cancel(plan_id))

    def delete(self, plan_id: str) -> None:
        self._hold(conversations.delete(plan_id))

    def check(
        self,
        model: Model,
        host: Host,
        *,
        budgets: Budgets | Mapping[str, Any] | None = None,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        plan: bool = False,
        timeout_s: float | None = None,
        **options: Any,
    ) -> CheckResult:
        """Whether the model fits the host within the budgets; `plan` looks for the best plan, too."""
        body = conversations.question(model, host, options, cost_model, stack)
        return self._hold(conversations.check(body, _budgets(budgets), plan, timeout_s))

    def run(self, plan_id: str, *, steps: int = 30, seed: int = 0, emulate: bool = False, timeout_s: float = _RUN_TIMEOUT_S) -> Measurement:
        """Run a stored plan on a worker of its host, and wait for the measurement."""
        return self._hold(conversations.run(plan_id, {"steps": steps, "seed": seed, "emulate": emulate}, timeout_s))

    def store_cost_model(self, model: CostModel) -> str:
        """The id of the profile that holds it. One of a machine prices all its later plans."""
        return self._hold(conversations.store_cost_model(model))

    def study(
        self, kind: StudyKind, model: Model, hosts: Sequence[Host] | str, *, timeout_s: float = _STUDY_TIMEOUT_S, **asked: Any
    ) -> StudyAnswer:
        """The answer of a study that the service makes, waited for. `hosts` are a list or "all"; `asked` is the rest of the request
        (`POST /v1/studies`), such as `vary=["--nodes=1,2"]`, `set=["sparse=64"]`, `options={"gap": 0.02}`."""
        return self._hold(conversations.study(conversations.study_question(kind, model, hosts, asked), timeout_s))

    def submit_study(self, kind: StudyKind, model: Model, hosts: Sequence[Host] | str, **asked: Any) -> StoredStudy:
        """Begin a study, and don't wait for it."""
        return self._hold(conversations.submit_study(conversations.study_question(kind, model, hosts, asked)))

    def get_study(self, study_id: str) -> StoredStudy:
        return self._hold(conversations.get_study(study_id))

    def cancel_study(self, study_id: str) -> StoredStudy:
        return self._hold(conversations.cancel_study(study_id))

    def delete_study(self, study_id: str) -> None:
        self._hold(conversations.delete_study(study_id))

    def overview(self) -> Overview:
        """How the service's plans and runs are distributed."""
        return self._hold(conversations.overview())

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _hold(self, conversation: Conversation[T]) -> T:
        """Say what the conversation says, and tell it the answers."""
        told: Any = None
        while True:
            said = _next(conversation, told)
            if isinstance(said, _End):
                return said.result
            if isinstance(said, Pause):
                time.sleep(said.seconds)
                told = None
                continue
            try:
                told = _answer(self._url, self._http.request(**_request(said)))
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise _unreachable(self._url, error) from None


class AsyncClient:
    """`Client`, whose methods are waited for."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url, self._http = url, _opened(httpx.AsyncClient, url, key)

    async def plan(
        self,
        model: Model,
        host: Host,
        *,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        timeout_s: float | None = None,
        priority: Urgency | None = None,
        **options: Any,
    ) -> Plan:
        return await self._hold(conversations.plan(conversations.question(model, host, options, cost_model, stack, priority), timeout_s))

    async def submit(
        self,
        model: Model,
        host: Host,
        *,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        priority: Urgency | None = None,
        **options: Any,
    ) -> StoredPlan:
        return await self._hold(conversations.submit(conversations.question(model, host, options, cost_model, stack, priority)))

    async def get_plan(self, plan_id: str) -> StoredPlan:
        return await self._hold(conversations.get_plan(plan_id))

    async def cancel(self, plan_id: str) -> StoredPlan:
        return await self._hold(conversations.cancel(plan_id))

    async def delete(self, plan_id: str) -> None:
        await self._hold(conversations.delete(plan_id))

    async def check(
        self,
        model: Model,
        host: Host,
        *,
        budgets: Budgets | Mapping[str, Any] | None = None,
        cost_model: CostModel | None = None,
        stack: Stack | str | None = None,
        plan: bool = False,
        timeout_s: float | None = None,
        **options: Any,
    ) -> CheckResult:
        body = conversations.question(model, host, options, cost_model, stack)
        return await self._hold(conversations.check(body, _budgets(budgets), plan, timeout_s))

    async def run(
        self, plan_id: str, *, steps: int = 30, seed: int = 0, emulate: bool = False, timeout_s: float = _RUN_TIMEOUT_S
    ) -> Measurement:
        return await self._hold(conversations.run(plan_id, {"steps": steps, "seed": seed, "emulate": emulate}, timeout_s))

    async def store_cost_model(self, model: CostModel) -> str:
        return await self._hold(conversations.store_cost_model(model))

    async def study(
        self, kind: StudyKind, model: Model, hosts: Sequence[Host] | str, *, timeout_s: float = _STUDY_TIMEOUT_S, **asked: Any
    ) -> StudyAnswer:
        return await self._hold(conversations.study(conversations.study_question(kind, model, hosts, asked), timeout_s))

    async def submit_study(self, kind: StudyKind, model: Model, hosts: Sequence[Host] | str, **asked: Any) -> StoredStudy:
        return await self._hold(conversations.submit_study(conversations.study_question(kind, model, hosts, asked)))

    async def get_study(self, study_id: str) -> StoredStudy:
        return await self._hold(conversations.get_study(study_id))

    async def cancel_study(self, study_id: str) -> StoredStudy:
        return await self._hold(conversations.cancel_study(study_id))

    async def delete_study(self, study_id: str) -> None:
        await self._hold(conversations.delete_study(study_id))

    async def overview(self) -> Overview:
        return await self._hold(conversations.overview())

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _hold(self, conversation: Conversation[T]) -> T:
        told: Any = None
        while True:
            said = _next(conversation, told)
            if isinstance(said, _End):
                return said.result
            if isinstance(said, Pause):
                await asyncio.sleep(said.seconds)
                told = None
                continue
            try:
                told = _answer(self._url, await self._http.request(**_request(said)))
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise _unreachable(self._url, error) from None


@dataclass(frozen=True)
class _End(Generic[T]):
    """What a conversation came to."""

    result: T


def _next(conversation: Conversation[T], told: Any) -> Ask | Pause | _End[T]:
    try:
        return conversation.send(told)
    except StopIteration as end:
        return _End(end.value)


_Http = TypeVar("_Http", httpx.Client, httpx.AsyncClient)


def _opened(kind: type[_Http], url: str, key: str | None) -> _Http:
    name, key = ("the key", key) if key else (KEY_VARIABLE, os.environ.get(KEY_VARIABLE))
    if key and not key.isascii():
        raise ToolError(f"{name} is no key of an Emplace service: it has letters that a header can't carry")
    try:
        return kind(base_url=url, headers={"Authorization": f"Bearer {key}"} if key else {})
    except httpx.InvalidURL as error:
        raise _unreachable(url, error) from None


def _request(said: Ask) -> dict[str, Any]:
    return {"method": said.method, "url": said.path, "json": said.body, "headers": said.headers, "timeout": said.timeout_s}


def _budgets(given: Budgets | Mapping[str, Any] | None) -> Budgets:
    return given if isinstance(given, Budgets) else from_data(dict(given or {}), Budgets, source="budgets")


def _answer(url: str, response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer. Raises ToolError for a problem document, and for what no Emplace service answers."""
    if response.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        told = response.json()
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ToolError(f"{url} is no Emplace service: its answer is not a JSON object")
    if response.is_error:
        raise ToolError(f"{url} answered {response.status_code}: {told.get('detail', '')}")
    return told


def _unreachable(url: str, error: Exception) -> ToolError:
    return ToolError(f"{url}: {str(error) or type(error).__name__}")
