"""Emplace: where the embedding tables of a recommendation model live, how good that is, and what it takes.

    import emplace

    plan = emplace.plan("criteo-terabyte", "dgx-a100-80g")
    print(plan.status, plan.step_time_us, plan.gap)

Everything here is imported when it is first used, so `import emplace` takes no time; only what trains needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emplace.client import AsyncClient as AsyncClient
    from emplace.client import Client as Client
    from emplace.conversations import StoredPlan as StoredPlan
    from emplace.face import audit as audit
    from emplace.face import check as check
    from emplace.face import explain as explain
    from emplace.face import plan as plan
    from emplace.face import read_host as read_host
    from emplace.face import read_model as read_model
    from emplace.face import read_plan as read_plan
    from emplace.gate import Budgets as Budgets
    from emplace.gate import CheckResult as CheckResult
    from emplace.placement.audit import Violation as Violation
    from emplace.placement.cost_model import CostModel as CostModel
    from emplace.placement.errors import EmplaceError as EmplaceError
    from emplace.placement.errors import InvalidDocument as InvalidDocument
    from emplace.placement.errors import ToolError as ToolError
    from emplace.placement.errors import UnknownName as UnknownName
    from emplace.placement.host import HostSpec as HostSpec
    from emplace.placement.measurement import Measurement as Measurement
    from emplace.placement.model import ModelSpec as ModelSpec
    from emplace.placement.plan import Plan as Plan
    from emplace.placement.plan import PlanOptions as PlanOptions
    from emplace.placement.plan import PlanStatus as PlanStatus
    from emplace.placement.plan import Question as Question
    from emplace.solver.progress import Monitor as Monitor
    from emplace.solver.progress import Progress as Progress
    from emplace.studies.face import asynchronous as asynchronous
    from emplace.studies.face import batch as batch
    from emplace.studies.face import overview as overview
    from emplace.studies.face import recommend as recommend
    from emplace.studies.face import size as size
    from emplace.studies.face import size_fleet as size_fleet
    from emplace.studies.face import sweep as sweep
    from emplace.studies.gradient_noise import NoiseScale as NoiseScale
    from emplace.studies.gradient_noise import noise_scale as noise_scale

    __version__: str

_WHERE = {
    **dict.fromkeys(("audit", "check", "explain", "plan", "read_host", "read_model", "read_plan"), "emplace.face"),
    **dict.fromkeys(("AsyncClient", "Client"), "emplace.client"),
    "StoredPlan": "emplace.conversations",
    **dict.fromkeys(("Budgets", "CheckResult"), "emplace.gate"),
    "Violation": "emplace.placement.audit",
    "CostModel": "emplace.placement.cost_model",
    **dict.fromkeys(("EmplaceError", "InvalidDocument", "ToolError", "UnknownName"), "emplace.placement.errors"),
    "HostSpec": "emplace.placement.host",
    "Measurement": "emplace.placement.measurement",
    "ModelSpec": "emplace.placement.model",
    **dict.fromkeys(("Plan", "PlanOptions", "PlanStatus", "Question"), "emplace.placement.plan"),
    **dict.fromkeys(("Monitor", "Progress"), "emplace.solver.progress"),
    **dict.fromkeys(("asynchronous", "batch", "overview", "recommend", "size", "size_fleet", "sweep"), "emplace.studies.face"),
    **dict.fromkeys(("NoiseScale", "noise_scale"), "emplace.studies.gradient_noise"),
}
"""The module that each name comes from."""

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("emplace")
    if name not in _WHERE:
        raise AttributeError(f"module 'emplace' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, "__version__"})
