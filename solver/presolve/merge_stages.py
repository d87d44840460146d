"""An equal problem with fewer stages: stages in proportion to one another are one stage, and an empty one is a constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emplace.solver.budget import SAME_SUM
from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Floats, Problem

SAMPLED = 1_000
"""Units that are compared before all are."""


def merge_stages(problem: Problem) -> Problem:
    """`problem` with the same placements and objective. For c >= 0, max over d of x[d] + max over d of c x[d] is
    (1 + c) max over d of x[d], and what every device has before any table, the base, only adds."""
    time, base = problem.unit_time_us, problem.stage_base_us
    kept: list[int] = []
    scale: list[float] = []
    into = np.zeros((problem.num_stages, problem.num_stages))
    for stage in np.flatnonzero(time.any(axis=(0, 1))):
        for place, earlier in enumerate(kept):
            ratio = _ratio(time[:, :, earlier], time[:, :, stage])
            if ratio is not None:
                scale[place] += ratio
                into[stage, place] = 1.0
                break
        else:
            into[stage, len(kept)] = 1.0
            kept.append(int(stage))
            scale.append(1.0)
    if len(kept) == problem.num_stages or not kept:
        return problem
    left_out = float(base.sum() - base[kept].sum())
    merged = replace(
        problem,
        constant_us=problem.constant_us + left_out,
        stage_base_us=base[kept],
        unit_time_us=np.ascontiguousarray(time[:, :, kept] * np.array(scale)),
    )
    if not isinstance(merged, Cover):
        return merged
    into = into[:, : len(kept)]
    return replace(merged, least_us=merged.least_us @ into, largest_us=merged.largest_us @ into, shortest_us=merged.shortest_us @ into)


def _ratio(one: Floats, other: Floats) -> float | None:
    """c where other = c one, else None."""
    at = np.unravel_index(int(np.argmax(one)), one.shape)
    ratio = float(other[at] / one[at])
    atol = SAME_SUM * float(other.max())
    some = slice(None, None, max(1, len(one) // SAMPLED))  # nearly all that differ do so there
    is_same = all(np.allclose(other[part], ratio * one[part], rtol=SAME_SUM, atol=atol) for part in (some, slice(None)))
    return ratio if is_same else None
