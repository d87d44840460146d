"""Why a model does not fit, and what would help, as text."""

from __future__ import annotations

from rich.text import Text

from emplace.placement.plan import Explanation, Fix


def explanation_lines(explanation: Explanation) -> list[str]:
    """Reasons first, then fixes."""
    lines = ["why:", *(f"  - {reason}" for reason in explanation.reasons)]
    if explanation.fixes:
        lines += ["what would make it fit:", *(f"  - {describe_fix(fix)}" for fix in explanation.fixes)]
    return lines


def describe_fix(fix: Fix) -> str:
    return f"{fix.change} ({'verified by solving with it' if fix.verified else 'not verified'})"


def explanation_view(explanation: Explanation) -> Text:
    return Text("\n".join(explanation_lines(explanation)))
