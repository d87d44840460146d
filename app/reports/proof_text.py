"""What a proof shows, beside what its plan claims."""

from __future__ import annotations

from typing import Any

from emplace.placement.plan import Plan, PlanStatus
from emplace.placement.proof.verify import Proven


def proof_lines(plan: Plan, proven: Proven) -> list[str]:
    """What a proof that holds shows, and what the plan claims where that is more."""
    lines = [f"proof: holds, {_said(proven.bound_us)}"]
    if not proven.shows(plan):
        claimed = _said(None if plan.status is PlanStatus.INFEASIBLE else plan.lower_bound_us)
        lines.append(f"claimed: {claimed}, of which the proof shows: {_said(proven.bound_us)}")
    return lines


def proof_data(plan: Plan, proven: Proven) -> dict[str, Any]:
    """The same for programs. What a proof that does not hold says is not shown."""
    shown = {"shows_no_placement": proven.bound_us is None, "shows_us": proven.bound_us} if proven.holds else {}
    return {
        "holds": proven.holds,
        **shown,
        "claims_no_placement": plan.status is PlanStatus.INFEASIBLE,
        "claims_us": plan.lower_bound_us,
        "shows_all_claims": proven.shows(plan),
    }


def _said(bound_us: float | None) -> str:
    return "there is no placement" if bound_us is None else f"no step is shorter than {bound_us:,.3f} us"
