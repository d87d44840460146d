"""Linear programs that grow, in HiGHS: what the master programs share."""

from __future__ import annotations

import highspy
import numpy as np

from emplace.solver.model.problem import Floats


def new_program() -> highspy.Highs:
    """An empty program, to be minimised."""
    program = highspy.Highs()
    program.silent()
    program.setOptionValue("threads", 1)  # by default it would start some for half the cores, and the simplex uses one
    return program


def use_primal_simplex(program: highspy.Highs) -> None:
    """For a program to which columns come: its last solution stays one."""
    program.setOptionValue("simplex_strategy", int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyPrimal))


def add_rows(program: highspy.Highs, lower: Floats, upper: Floats) -> None:
    """Rows from `lower` to `upper`, of no columns so far."""
    none = np.empty(0, dtype=np.int32)
    program.addRows(len(lower), lower, upper, 0, none, none, np.empty(0))
