"""The dual prices of a plan's bound, and what they prove of the same question with other hardware.

The Lagrangian of the class relaxation is a bound for any prices (docs/explanation/bounds.md). Prices that are best for one question
are taken for another with the same stages and kinds of device: its own loads and capacities are put in, and what comes out is a
bound on its plans. The difference to the first bound is an estimate of what the change brings, and no more than the relaxation gains:
with prices of its own the other question's bound is no lower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.plan import Question
from emplace.placement.sums import add_up
from emplace.placement.topology import SERVED
from emplace.solver.model.build import price
from emplace.solver.model.cover import Cover
from emplace.solver.model.indexing import first_option, or_all
from emplace.solver.model.priced import type_cost_us
from emplace.solver.model.problem import Floats, Problem
from emplace.solver.relaxation.aggregate import aggregate, pool_groups, usable_options
from emplace.solver.relaxation.column_generation import even_dual, lagrangian, relax
from emplace.solver.relaxation.program import Program

Types = frozenset[ShardingType]


@dataclass(frozen=True)
class DualPrices:
    """The dual prices of the class relaxation of a question, with the sharding types and the servers that its plan uses."""

    types: Types
    with_servers: bool
    bound_us: float
    """What they prove of the question itself."""
    per_unit: Floats
    """[R] of the makespans' rows in microseconds each; of the memories' in microseconds a byte."""

    @classmethod
    def of(cls, question: Question, types: Types, *, with_servers: bool) -> DualPrices | None:
        """None where the relaxation says nothing: it has no solution, so the plan is none of its own."""
        relaxed = _Relaxed.of(question, types, with_servers)
        solution = None if relaxed is None else relax(relaxed.program)
        if relaxed is None or solution is None or not solution.feasible:
            return None
        return cls(types, with_servers, relaxed.fixed_us + solution.bound, solution.dual[:-1] / relaxed.unit)

    def bound_of(self, question: Question) -> float | None:
        """What they prove of the question with other hardware: no plan with these types takes less. None where that is nothing.

        Raises InvalidDocument for hardware that the question can't have.
        """
        relaxed = _Relaxed.of(question, self.types, self.with_servers)
        if relaxed is None or len(relaxed.unit) != len(self.per_unit):
            return None
        # Beside them those that charge nothing for memory: much more of it is worth no more than all of it.
        duals = np.append(self.per_unit * relaxed.unit, 0.0), even_dual(relaxed.program)
        bound_us = relaxed.fixed_us + max(lagrangian(relaxed.program, dual).bound for dual in duals)
        return bound_us if math.isfinite(bound_us) else None


@dataclass(frozen=True)
class _Relaxed:
    """The class relaxation of a question."""

    program: Program
    unit: Floats
    """[R] in which a row counts: bytes of a memory, which is one there; 1 of a makespan."""
    fixed_us: float
    """What a step takes whatever is placed where: without tables, and for its sharding types."""

    @classmethod
    def of(cls, question: Question, types: Types, with_servers: bool) -> _Relaxed | None:
        topology = question.topology(with_servers=with_servers)
        tiers = question.allowed_tiers - (frozenset() if with_servers else SERVED)
        # Not every placement of a small question as an option: each rank is a kind of its own there, and rows would not be the same.
        priced = price(question, topology, tiers, may_be_concrete=False)
        if priced.cover is None or not priced.may_have_a_plan:
            return None
        problem = _with_types(priced.cover, types)
        stages = problem.num_stages
        program = Program(aggregate(problem), first_option(problem), usable_options(problem), np.zeros(stages), np.ones(stages))
        of_types = add_up(float(type_cost_us(priced, each).sum()) for each in sorted(types))
        return cls(program, _units(problem, program), problem.constant_us + float(problem.stage_base_us.sum()) + of_types)


def _with_types(cover: Cover, types: Types) -> Cover:
    """What bounds the plans with these sharding types only. A table that has none of them keeps all that it has."""
    places = [place for place, each in enumerate(ShardingType) if each in types]
    of_types, every = np.isin(cover.sharding_type, [-1, *places]), np.ones(cover.num_options, dtype=bool)
    return cover.with_cover_options(or_all(first_option(cover), of_types, every))


def _units(problem: Problem, program: Program) -> Floats:
    hbm = np.bincount(problem.device_kind, weights=problem.hbm_capacity, minlength=problem.num_kinds)
    bytes_there = np.maximum(np.concatenate([hbm, pool_groups(problem)[1]]), 1.0)
    unit = np.ones(len(program.rows.stage))
    unit[program.rows.memory] = bytes_there
    return unit
