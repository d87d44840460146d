"""A stack's figures moved to where a trace says that each stage is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from emplace.placement.calibration import at_place, narrowed, place_where, refuse_unpriced
from emplace.placement.plan import Plan
from emplace.placement.price_range import stages_under_us, step_under_us
from emplace.placement.stack import Stack
from emplace.placement.stages import Stage

EXCHANGES = (Stage.INPUT_DIST, Stage.OUTPUT_DIST, Stage.GRADIENT_DIST)
FIGURES: tuple[tuple[tuple[Stage, ...], tuple[str, ...]], ...] = (
    ((Stage.LOOKUP_FORWARD,), ("memory_share", "cache_rate", "lookup_bytes", "shard_us", "link_share", "read_again")),
    ((Stage.LOOKUP_BACKWARD,), ("update_share", "sort_bytes")),
    (EXCHANGES, ("intra_node_share", "network_share", "collective_us", "peer_us")),
    ((Stage.DENSE,), ("flops_share", "matrix_flops_share", "feature_us")),
)
"""The figures that stages are fitted with, one group after the other; the all-reduce follows from those of memory and links."""
LAUNCHES = ("step_us", "step_feature_us", "step_layer_us", "step_value_us")


@dataclass(frozen=True)
class StageFit:
    """What a trace says of some stages together, or of the step."""

    name: str
    predicted_us: float
    measured_us: float
    explained_us: float
    """With the figures where the trace has moved them: as measured, where their ranges reach so far."""


@dataclass(frozen=True)
class StageCalibration:
    """What a trace says of a stack."""

    stack: Stack
    fits: tuple[StageFit, ...]


def calibrated_by_stages(plan: Plan, measured_us: float, stages_us: dict[Stage, float]) -> StageCalibration:
    """The stack of a plan's prices, each group of figures moved within its ranges until its stages last as long as in the trace, and last
    those of launches until the step does.

    Where ranges don't reach, figures stop at their ends, and the fit says what is left. Raises InvalidDocument as `calibrated` does.
    """
    before = stack = refuse_unpriced(plan)
    fits, moved = [], set[str]()
    for stages, keys in FIGURES:
        wanted_us = sum(stages_us[stage] for stage in stages)
        place = place_where(partial(_stages_at, plan, stack, keys, stages), wanted_us)
        if place is not None:
            stack, moved = at_place(stack, keys, place), moved | set(keys)
        fits.append(StageFit(" + ".join(stages), _length(plan, before, stages), wanted_us, _length(plan, stack, stages)))
    step_at = partial(_step_at, plan, stack)
    place = place_where(step_at, measured_us)
    if place is not None:
        stack, moved = at_place(stack, LAUNCHES, place), moved | set(LAUNCHES)
    fits.append(StageFit("step", step_under_us(plan, before), measured_us, step_under_us(plan, stack)))
    return StageCalibration(narrowed(before, stack, tuple(key for key, _ in before if key in moved)), tuple(fits))


def _stages_at(plan: Plan, stack: Stack, keys: tuple[str, ...], stages: tuple[Stage, ...], place: float) -> float:
    return _length(plan, at_place(stack, keys, place), stages)


def _step_at(plan: Plan, stack: Stack, place: float) -> float:
    return step_under_us(plan, at_place(stack, LAUNCHES, place))


def _length(plan: Plan, stack: Stack, stages: tuple[Stage, ...]) -> float:
    found = stages_under_us(plan, stack)
    return sum(found[stage] for stage in stages)
