"""A proof for a plan: weights and cases for each set of ranks, and the most that they prove."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from emplace.placement.certificate import Proof, ProofPart
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.proof.lagrangian import at_most
from emplace.placement.proof.program import may_be_by_rank, program_of, topologies
from emplace.placement.proof.verify import SAME
from emplace.placement.topology import Topology
from emplace.solver.certificate.growing import GrowingCase

AIMED_BELOW = Fraction(SAME) / 2
"""The share by which the value that is to be refuted is below the plan's own: the best plan itself must not be in the way."""
MOST_CASES, MOST_CHOICES = 16, 500_000
"""Cases that a value is proven in, and the choices that all of them may have together."""


def prove(plan: Plan) -> Proof:
    """The strongest proof that is found up to what the plan claims. Raises InvalidDocument for a question that no job can have."""
    claimed = None if plan.status is PlanStatus.INFEASIBLE else Fraction(plan.lower_bound_us or 0.0) * (1 - AIMED_BELOW)
    floor_us = plan.question.cost_model.floor(plan.question.model).time_us
    if claimed is not None and claimed <= floor_us:  # which needs no weights
        return Proof(bound_us=floor_us, trainers=ProofPart(), with_servers=_no_weights(plan.question))
    found = [_part(plan.question, topology, claimed) for topology in topologies(plan.question) if topology is not None]
    finite = [value for _, value in found if value is not None]
    parts = [part for part, _ in found]
    return Proof(bound_us=at_most(min(finite)) if finite else None, trainers=parts[0], with_servers=parts[1] if len(parts) > 1 else None)


def _no_weights(question: Question) -> ProofPart | None:
    """The part of a job with servers; None where there is no such job."""
    return None if topologies(question)[1] is None else ProofPart()


def _part(question: Question, topology: Topology, claimed: Fraction | None) -> tuple[ProofPart, Fraction | None]:
    """The proof on one set of ranks, and what it proves: None, that there is no placement."""
    each_rank = may_be_by_rank(question, topology)
    whole = GrowingCase(program_of(question, topology, each_rank=each_rank), [])
    whole.weigh(claimed)
    leaves = [whole] if each_rank else _leaves(whole, claimed)
    for case in leaves:
        if claimed is not None and not case.reaches(claimed):
            case.weigh_less(claimed)
    values = [case.proven for case in leaves if case.proven is not None]
    return ProofPart(each_rank=each_rank, weights=whole.weights, cases=whole.cases), min(values, default=None)


def _leaves(whole: GrowingCase, claimed: Fraction | None) -> list[GrowingCase]:
    """The cases that are not split: whichever proves least is, until all prove what is claimed, it mixes nothing, or there are enough."""
    most = min(MOST_CASES, MOST_CHOICES // max(len(whole.program.choices), 1))
    leaves = [whole]
    while len(leaves) < most:
        lowest = min(leaves, key=lambda case: inf if case.proven is None else case.proven)
        if lowest.reaches(claimed) or (halves := lowest.split(claimed)) is None:
            break
        for half in halves:
            half.weigh(claimed)
        leaves = [*(case for case in leaves if case is not lowest), *halves]
    return leaves
