"""A stack's figures moved to where one measured step says they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from emplace.placement.datasheet import follows_datasheet
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Plan
from emplace.placement.price_range import step_under_us
from emplace.placement.stack import Cost, Pace, Share, Stack

SAME = 1e-4
"""Share of a step by which a figure must move it to be one that the step says something of; and how near the fit comes."""
_HALVINGS = 30
SOURCE = "plan"
"""What the errors say they are about."""


@dataclass(frozen=True)
class Calibration:
    """What one measured step says of a stack."""

    stack: Stack
    """Under which the plan lasts as long as was measured. What the step says nothing of is as it was."""
    moved: tuple[str, ...]
    """The figures that were moved."""
    place: float
    """Where in their ranges: -1 at the fast ends, 0 where they were, 1 at the slow ends."""


def calibrated(plan: Plan, measured_us: float) -> Calibration:
    """The stack of a plan's prices, its figures moved together within their ranges until the plan's step is the measured one.

    Each goes as far towards its end as the others, by factors; ranges are then half as wide, on the scale of factors, around the new
    figures. Raises InvalidDocument for a plan that places nothing or whose prices are not a stack's, and for a step outside the range.
    """
    stack = refuse_unpriced(plan)
    moved = tuple(key for key in _figures(stack) if _matters(plan, stack, key))
    fast_us, slow_us = (step_under_us(plan, at_place(stack, moved, place)) for place in (-1.0, 1.0))
    if not fast_us * (1 - SAME) <= measured_us <= slow_us * (1 + SAME):
        rule = (
            f"a measured step of {measured_us:,.1f} us is outside the range of {stack.name}, {fast_us:,.1f} to {slow_us:,.1f} us: "
            "something else takes the time; is it the stack that ran, was its input fast enough, and is the measured step right?"
        )
        raise _refusal("/question/cost_model/stack", rule)
    place = place_where(lambda at: step_under_us(plan, at_place(stack, moved, at)), measured_us) or 0.0
    return Calibration(narrowed(stack, at_place(stack, moved, place), moved), moved, place)


def refuse_unpriced(plan: Plan) -> Stack:
    """The stack of a plan's prices. Raises InvalidDocument for a plan that places nothing or whose prices are not a stack's."""
    stack = plan.question.cost_model.stack
    if stack is None or not follows_datasheet(plan.question.cost_model, plan.question.host):
        raise _refusal("/question/cost_model", "must be datasheet prices of a software stack: plan without a measured cost model")
    if not plan.has_placement:
        raise _refusal("/status", f"is {plan.status}: only a plan with a placement has a step")
    return stack


def _refusal(pointer: str, rule: str) -> InvalidDocument:
    return InvalidDocument(SOURCE, [BrokenRule(pointer, "", rule)])


def _figures(stack: Stack) -> Iterator[str]:
    return (key for key, value in stack if isinstance(value, Share | Cost))


def _matters(plan: Plan, stack: Stack, key: str) -> bool:
    """Whether the step says something of the figure."""
    ends = [step_under_us(plan, at_place(stack, (key,), place)) for place in (-1.0, 1.0)]
    return ends[1] - ends[0] > SAME * ends[0]


def place_where(length_us: Callable[[float], float], wanted_us: float) -> float | None:
    """Where in the ranges, from -1 to 1, a length that rises with the place is as wanted; the end that is closer where none is. None where the
    place makes no difference."""
    low, high = -1.0, 1.0
    if length_us(high) - length_us(low) <= SAME * length_us(low):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if length_us(middle) < wanted_us:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def at_place(stack: Stack, keys: tuple[str, ...], place: float) -> Stack:
    """The stack with these figures at a place of their ranges."""
    return stack.model_copy(update={key: _figure_at(getattr(stack, key), place) for key in keys})


def _figure_at(figure: Share | Cost, place: float) -> Share | Cost:
    end = figure.at(Pace.FAST if place < 0 else Pace.SLOW)
    way = abs(place)
    if figure.typical > 0 and end > 0:
        value = figure.typical * (end / figure.typical) ** way
    else:  # a cost that may be nothing
        value = figure.typical + (end - figure.typical) * way
    return figure.model_copy(update={"typical": value})


def narrowed(stack: Stack, at: Stack, moved: tuple[str, ...]) -> Stack:
    """The stack with these figures as `at` has them, in ranges half as wide, as a document of its own."""
    update: dict[str, object] = {key: _with_half_a_range(getattr(stack, key), getattr(at, key).typical) for key in moved}
    name = stack.name if stack.name.endswith("-calibrated") else f"{stack.name}-calibrated"
    return stack.model_copy(update=update | {"name": name})


def _with_half_a_range(figure: Share | Cost, value: float) -> Share | Cost:
    low, high = (math.sqrt(end * value) if end > 0 and value > 0 else (end + value) / 2 for end in (figure.low, figure.high))
    source = f"a measured step; before: {figure.typical:g}, {figure.source}"
    return figure.model_copy(update={"low": low, "typical": value, "high": high, "source": source})
