"""What colours mean: each one thing, on every page.

good    proven within 1% of the best, or measured within 10% of what was predicted
open    a plan that may be far from the best, a prediction that was far off, or no answer within the limit
no      a proven no: it does not fit, or a check failed
broken  the program failed or was ended: it says nothing about the model
busy    waiting or at work
"""

from __future__ import annotations

from enum import StrEnum

from emplace.app.database.states import State
from emplace.placement.plan import PlanStatus

GOOD_GAP, GOOD_ERROR = 0.01, 0.1


class Tone(StrEnum):
    GOOD = "good"
    OPEN = "open"
    NO = "no"
    BROKEN = "broken"
    BUSY = "busy"
    CALM = "calm"


def of_job(state: State) -> Tone:
    """A job whose answer has no tone of its own."""
    if not state.is_final:
        return Tone.BUSY
    return Tone.CALM if state is State.DONE else Tone.BROKEN


def of_plan(state: str, status: str | None, gap: float | None) -> Tone:
    """A stored plan: how its question is answered, or where the job is."""
    if state != State.DONE or status is None:
        return of_job(State(state))
    if status == PlanStatus.INFEASIBLE:
        return Tone.NO
    return of_gap(status, gap)


def of_gap(status: str, gap: float | None) -> Tone:
    """A placement: how far the best one may be."""
    proven = status == PlanStatus.OPTIMAL or (status == PlanStatus.FEASIBLE and gap is not None and gap <= GOOD_GAP)
    return Tone.GOOD if proven else Tone.OPEN


def of_measured(verified: bool | None, error: float | None) -> Tone:
    """A run: whether it did what the plan says, and how far its step was from the predicted one."""
    if not verified:
        return Tone.NO
    return Tone.GOOD if error is not None and abs(error) <= GOOD_ERROR else Tone.OPEN


def of_verdict(passed: bool | None) -> Tone:
    if passed is None:
        return Tone.CALM
    return Tone.GOOD if passed else Tone.NO
