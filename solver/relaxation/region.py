"""Placements that are left where some are ruled out, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.solver.relaxation.program import Relaxation
from emplace.solver.relaxation.reduced_program import ReducedProgram


@dataclass(frozen=True)
class Region:
    """Placements with an objective up to some value: options that one of them may have, and their relaxation."""

    part: ReducedProgram
    relaxation: Relaxation
    """The solution of `part.program`."""
