"""What the optimizers' steps over replicated parameters take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emplace.placement.cost_model import Residual
from emplace.placement.model import Optimizer
from emplace.placement.workload import OUTPUT_BYTES
from emplace.profiler.design.point_models import REPLICA_COLUMNS, replica_rows
from emplace.profiler.design.points import Design, Kind
from emplace.profiler.fit.equations import Equation, fit_equations, held_out_residuals
from emplace.profiler.fit.samples import Timed

_FEWEST_SIZES = 2
"""An optimizer is fitted where replicated parameters of so many sizes were measured."""


def fit_updates(design: Design, timed: Mapping[tuple[Kind, int], Timed], ranks: int) -> tuple[dict[Optimizer, float], list[Residual]]:
    """(microseconds per updated byte of every optimizer that was measured, their errors).

    What an optimizer takes however small the parameter is in a step's overhead. With a rank alone nothing is exchanged, so that what the
    gradient takes until it is there is counted here.
    """
    measured: dict[Optimizer, list[tuple[float, float]]] = {}
    for index, point in enumerate(design.collectives):
        if point.optimizer is not None and (Kind.COLLECTIVE, index) in timed:
            parameter_bytes = replica_rows(point.sent_bytes, ranks) * REPLICA_COLUMNS * OUTPUT_BYTES
            one = timed[Kind.COLLECTIVE, index]
            time_us = one.backward_us if ranks > 1 else one.forward_us + one.backward_us
            measured.setdefault(point.optimizer, []).append((parameter_bytes, time_us))
    per_byte_us, errors = {}, []
    for optimizer, found in measured.items():
        if len(found) < _FEWEST_SIZES:
            continue
        equations = [Equation(f"{optimizer} of replicated parameters", np.array([1.0, size]), time_us) for size, time_us in found]
        per_byte_us[optimizer] = float(fit_equations(equations)[1])
        errors += held_out_residuals(equations, design.seed, np.array([True, False]))
    return per_byte_us, errors
