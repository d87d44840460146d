"""Which two cases to look at apart: what the relaxation mixes most, and no placement does."""

from __future__ import annotations

import numpy as np

from emplace.placement.certificate import HasAtMost, HasWay
from emplace.placement.proof.choices import KERNELS, TYPES
from emplace.solver.budget import BOUND_PRECISION, BOUND_ROUNDING
from emplace.solver.certificate.duals import Relaxed
from emplace.solver.model.problem import Floats
from emplace.solver.relaxation.mixes import heaviest_mix_of_ways


def heaviest_mix(relaxed: Relaxed) -> HasWay | HasAtMost | None:
    """What to say of a table: that it has the way that most of it has; where ways are hardly mixed, that it is in no more pieces than
    in the mean. None where no mix weighs anything to speak of."""
    choices, least_us = relaxed.program.choices, BOUND_PRECISION * float(relaxed.found.makespan.sum())
    time_us = (choices.time_us / relaxed.program.classes.sizes[:, None]).sum(axis=(1, 2))
    names = [table.name for table in relaxed.program.question.model.tables]
    way = (choices.kind * len(KERNELS) + choices.kernel) * 2 + choices.on_server
    mixed = heaviest_mix_of_ways(choices.table, way, relaxed.found.x, time_us)
    if mixed.others_us > least_us:
        kind, kernel, on_servers = np.unravel_index(mixed.way, (len(TYPES), len(KERNELS), 2))
        return HasWay(table=names[mixed.table], sharding_type=TYPES[kind], compute_kernel=KERNELS[kernel], on_servers=bool(on_servers))
    table, most, weight_us = _heaviest_mix_of_pieces(relaxed, time_us)
    return HasAtMost(table=names[table], most_pieces=most) if weight_us > least_us else None


def _heaviest_mix_of_pieces(relaxed: Relaxed, time_us: Floats) -> tuple[int, int, float]:
    """(table, whole pieces in its mean, microseconds of all that has more, or no more if that is less); of tables whose choices are numbers."""
    choices, taken = relaxed.program.choices, relaxed.found.x
    by_number = np.minimum.reduceat(choices.pieces, choices.first(relaxed.program.tables)[:-1]) > 0
    mean = np.floor(np.bincount(choices.table, weights=taken * choices.pieces) * (1 + BOUND_ROUNDING)).astype(np.int64)
    is_few = choices.pieces <= mean[choices.table]
    few_us, more_us = (np.bincount(choices.table, weights=np.where(each, taken * time_us, 0.0)) for each in (is_few, ~is_few))
    weight_us = np.where(by_number, np.minimum(few_us, more_us), 0.0)
    heaviest = int(weight_us.argmax())
    return heaviest, int(mean[heaviest]), float(weight_us[heaviest])
