"""Emplace's errors and answers as TorchRec's PlannerError."""

from __future__ import annotations

from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

from emplace.placement.errors import EmplaceError, InvalidDocument
from emplace.placement.plan import Explanation, Plan, PlanStatus
from emplace.torchrec.committed import AnotherModel, CommittedPlanRefused
from emplace.torchrec.hosts import NothingLeft
from emplace.torchrec.limits import ContradictingConstraints

_TYPES: tuple[tuple[type[EmplaceError], PlannerErrorType], ...] = (
    (AnotherModel, PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH),
    (CommittedPlanRefused, PlannerErrorType.PLAN_LOADING_FAILED),
    (ContradictingConstraints, PlannerErrorType.STRICT_CONSTRAINTS),
    (NothingLeft, PlannerErrorType.INSUFFICIENT_STORAGE),
    (InvalidDocument, PlannerErrorType.INPUT_VALIDATION),
)
"""The first that fits; OTHER for the rest."""


def planner_error(error: EmplaceError) -> PlannerError:
    """The same text, with TorchRec's type."""
    return PlannerError(str(error), next((found for kind, found in _TYPES if isinstance(error, kind)), PlannerErrorType.OTHER))


def no_placement(plan: Plan) -> PlannerError:
    """Why a plan has none, and what would help.

    Strict constraints where a fix is to allow more of them, else insufficient storage; OTHER where neither a plan nor a proof was found.
    """
    where = f"{plan.model.name} on {plan.host.name}"
    if plan.status is not PlanStatus.INFEASIBLE:
        limit = f"{plan.solver.limit:g} s of {plan.solver.limit_kind}"
        text = f"{where}: neither a plan nor a proof that there is none was found within {limit}; raise timeout_seconds"
        return PlannerError(text, PlannerErrorType.OTHER)
    explanation = plan.explanation or Explanation(reasons=())
    lines = [f"{where} does not fit, that is proven:", *(f"  - {reason}" for reason in explanation.reasons)]
    if explanation.fixes:
        lines += ["What makes it fit:", *(f"  {number}) {fix.change}" for number, fix in enumerate(explanation.fixes, 1))]
    too_strict = any(fix.kind == "constraints" for fix in explanation.fixes)
    return PlannerError("\n".join(lines), PlannerErrorType.STRICT_CONSTRAINTS if too_strict else PlannerErrorType.INSUFFICIENT_STORAGE)
