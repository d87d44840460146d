"""What a plan's proof proves, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from emplace.placement.audit import Violation
from emplace.placement.certificate import Proof, ProofCase, ProofPart
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.proof.choices import TYPES
from emplace.placement.proof.classes import Bools
from emplace.placement.proof.lagrangian import Scale, WeighedChoices, flaws
from emplace.placement.proof.program import ProofProgram, may_be_by_rank, program_of, topologies
from emplace.placement.proof.refute import left_below, room_us
from emplace.placement.proof.search import TooMany, is_refuted
from emplace.placement.topology import Topology
from emplace.placement.workload import Objective

SAME = 1e-6
"""What is claimed is shown by a proof of at most this share less: as far as times are compared in audits."""


@dataclass(frozen=True)
class Proven:
    """What a proof comes to."""

    violations: tuple[Violation, ...]
    """Why it does not prove what it says; none where it does."""
    bound_us: float | None
    """No placement that the audit accepts has a shorter step; None where there is none at all. Without meaning where there are violations."""

    @property
    def holds(self) -> bool:
        """Whether it proves what it says."""
        return not self.violations

    def shows(self, plan: Plan) -> bool:
        """Whether it proves all that the plan claims of other plans: its lower bound, or that there is none."""
        if not self.holds or (plan.status is PlanStatus.INFEASIBLE and self.bound_us is not None):
            return False
        return self.bound_us is None or self.bound_us >= (plan.lower_bound_us or 0.0) * (1 - SAME)


def verify(plan: Plan) -> Proven:
    """Checks the proof of a plan. Raises InvalidDocument for a plan without one, and for a question that no job can have."""
    if plan.proof is None:
        rule = "is missing, so there is nothing to verify: plan again with 'emplace plan --proof --out PLAN.json'"
        raise InvalidDocument("plan", [BrokenRule("/proof", "", rule)])
    if plan.question.options.objective is Objective.DEVICES:
        return Proven((Violation(where="/proof", what="is of one job, the question asks for the fewest devices"),), 0.0)
    return check(plan.question, plan.proof)


def check(question: Question, proof: Proof) -> Proven:
    """Checks a proof of what no plan of the question can beat. Raises InvalidDocument for a question that no job can have."""
    trainers, with_servers = topologies(question)
    if (with_servers is None) != (proof.with_servers is None):
        return Proven((Violation(where="/proof/with_servers", what="must be there exactly where the question allows remote servers"),), 0.0)
    value_us = None if proof.bound_us is None else Fraction(proof.bound_us)
    if value_us is not None and value_us <= question.cost_model.floor(question.model).time_us:
        return Proven((), proof.bound_us)  # no step is shorter than its launches and its input, whatever is placed
    parts = [("/proof/trainers", trainers, proof.trainers), ("/proof/with_servers", with_servers, proof.with_servers)]
    found = [v for where, topology, part in parts if topology and part for v in _unproven(question, topology, part, value_us, where)]
    return Proven(tuple(found), 0.0 if found else proof.bound_us)


def _unproven(question: Question, topology: Topology, part: ProofPart, value_us: Fraction | None, where: str) -> Iterator[Violation]:
    """What is wrong with one part of a proof of the value."""
    if part.each_rank and not may_be_by_rank(question, topology):
        yield Violation(where=f"{where}/each_rank", what="there are too many placements to look at each")
        return
    if part.each_rank and part.cases is not None:
        yield Violation(where=f"{where}/cases", what="are of classes of ranks, not of each rank")
        return
    yield from _unproven_case(program_of(question, topology, each_rank=part.each_rank), part, [], value_us, where)


def _unproven_case(
    program: ProofProgram, case: ProofCase, inherited: list[Scale], value_us: Fraction | None, where: str
) -> Iterator[Violation]:
    """What is wrong with the proof of some placements. What weights prove of more of them holds here too."""
    wrong = [(f"{where}/weights/{n}{pointer}", what) for n, each in enumerate(case.weights) for pointer, what in flaws(program, each)]
    if wrong:
        yield from (Violation(where=pointer, what=what) for pointer, what in wrong)
        return
    scales = [*(replace(each, program=program) for each in inherited), *(Scale(program, each) for each in case.weights)]
    if proves(program, scales, value_us):
        return
    if (cases := case.cases) is None:
        yield Violation(where=where, what=f"{_short_of(program, scales)}, it is to prove {_said(value_us)}")
    elif flaw := program.flaw_of(cases.says):
        yield Violation(where=f"{where}/cases/says", what=flaw)
    else:
        yield from _unproven_case(program.case(cases.says, so=True), cases.so, scales, value_us, f"{where}/cases/so")
        yield from _unproven_case(program.case(cases.says, so=False), cases.otherwise, scales, value_us, f"{where}/cases/otherwise")


def _short_of(program: ProofProgram, scales: list[Scale]) -> str:
    bounds = WeighedChoices.of(program, scales)
    least = [bound for types in bounds.some_types if (bound := bounds.least_us(types)) is not None]
    return f"its weights alone prove that no step is shorter than {float(min(least)):.9g} us" if least else "proves nothing"


def _said(value_us: Fraction | None) -> str:
    return "that there is no placement" if value_us is None else f"that none is shorter than {float(value_us):.9g} us"


def proves(program: ProofProgram, scales: list[Scale], value_us: Fraction | None) -> bool:
    """Whether no placement is below the value, or fits at all where it is None."""
    left = open_sets(program, scales, value_us)
    if not left:
        return True
    if program.each_rank:
        return _is_gone_through(program, scales, value_us)
    if value_us is None:
        return False
    return all(left_below(program, scales, types, room_us(program, types, value_us)) is None for types in left)


def open_sets(program: ProofProgram, scales: list[Scale], value_us: Fraction | None) -> list[Bools]:
    """The sets of sharding types for which weights alone don't show that."""
    bounds = WeighedChoices.of(program, scales)
    each = ((types, bounds.least_us(types)) for types in bounds.some_types)
    return [types for types, least in each if least is not None and (value_us is None or least < value_us)]


def _is_gone_through(program: ProofProgram, scales: list[Scale], value_us: Fraction | None) -> bool:
    """Whether going through all placements finds none."""
    choices = program.choices
    if value_us is not None:
        every = np.ones(len(TYPES), dtype=bool)
        left = left_below(program, scales, every, room_us(program, ~every, value_us))
        if left is None:
            return True
        choices = left.choices
    try:
        return is_refuted(program, scales, choices, value_us)
    except TooMany:
        return False
