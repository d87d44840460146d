"""The fewest devices that a model fits: every smaller job is proven impossible, or named as undecided.

Whether a job fits need not follow from a smaller one: the batch of all trainers grows with their number, and with it the
buffers of every table. So sizes are tried one after the other from the smallest, and none is inferred from another,
except where the weights alone are more than all memory of a job: then so they are for every smaller one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emplace.placement.plan import FewestDevices, JobSize, Question, job_sizes, sized
from emplace.solver.budget import ANY_PLAN_GAP, MOST_SIZE_SECONDS, SIZE_SHARE
from emplace.solver.driver.all_memory import weights_exceed_memory
from emplace.solver.driver.at_once import packed_at_once
from emplace.solver.driver.solve_variants import solve_variants
from emplace.solver.model.extract import Placement
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result


@dataclass(frozen=True)
class Smallest:
    """`question` is that of the smallest size that fits, with a first plan; or of the largest size, where none fits."""

    question: Question
    record: FewestDevices
    first: Result[Placement]


def smallest_size(question: Question, monitor: Monitor) -> Smallest:
    """Try sizes from the smallest. Raises InvalidDocument for ranks that the host can't have."""
    impossible: list[JobSize] = []
    undecided: list[JobSize] = []
    for size in job_sizes(question):
        here = sized(question, size)
        first = _tried(here, monitor)
        if first.solution is not None:
            return Smallest(here, FewestDevices(size=size, impossible=tuple(impossible), undecided=tuple(undecided)), first)
        (impossible if first.is_infeasible else undecided).append(size)
    nothing = _unknown(monitor.limit) if undecided else NOTHING_FITS
    return Smallest(here, FewestDevices(size=None, impossible=tuple(impossible), undecided=tuple(undecided)), nothing)


def _tried(question: Question, monitor: Monitor) -> Result[Placement]:
    """A plan of any quality, a proof that there is none, or neither."""
    if monitor.stopped():
        return _unknown(monitor.limit)
    if weights_exceed_memory(question):
        return NOTHING_FITS
    if (packed := packed_at_once(question, monitor.wanting(math.inf))) is not None:
        return packed
    options, here = question.options, monitor.silent()
    if options.work_limit is not None:
        options = options.model_copy(update={"work_limit": min(options.work_limit * SIZE_SHARE, MOST_SIZE_SECONDS)})
    if monitor.clock.is_set:
        here = here.within(min(here.clock.left_s * SIZE_SHARE, MOST_SIZE_SECONDS))
    any_plan = options.model_copy(update={"gap": ANY_PLAN_GAP})
    return solve_variants(question.model_copy(update={"options": any_plan}), here)


NOTHING_FITS = Result[Placement].infeasible("each size")
"""A proof for every size that was tried."""


def _unknown(limit: Limit) -> Result[Placement]:
    return Result(None, math.inf, 0.0, "each size", limit)
