"""Proofs that count whole tables on the fullest rank: none proves more than there is."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.exhaustive import best_below
from emplace.placement.certificate import FullestRank, Proof, ProofPart, Weights
from emplace.placement.plan import Plan
from emplace.placement.proof.program import ProofProgram, program_of
from emplace.placement.proof.verify import check, verify
from emplace.placement.stages import PLACED_STAGES
from emplace.planning import answer
from emplace.solver.certificate.prover import prove
from tests.solver.relaxation.test_packing_cuts import more_tables_than_ranks

STAGES = len(PLACED_STAGES)


@pytest.fixture(autouse=True)
def _by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.certificate.prover.may_be_by_rank", lambda *_: False)


@pytest.mark.parametrize("part", range(3))
def test_no_placement_beats_them(part: int) -> None:
    counted = 0
    for number in range(part, 21, 3):
        plan = answer(more_tables_than_ranks(number), proof=True)
        assert plan.proof is not None
        assert plan.proof.bound_us is not None
        assert verify(plan).holds
        assert best_below(plan.question, plan.topology(), plan.proof.bound_us * (1 - 1e-9)) is None
        counted += any(weights.fullest for weights in plan.proof.trainers.weights)
    assert counted >= 2


@pytest.mark.parametrize("number", range(30))
def test_whatever_tables_they_count_and_however_much(number: int) -> None:
    """Groups of any tables, each counted up to any time, for all of a stage."""
    plan = answer(more_tables_than_ranks(number))
    assert plan.step_time_us is not None
    best = best_below(plan.question, plan.topology(), plan.step_time_us * (1 + 1e-6))
    assert best is not None
    program, rng = program_of(plan.question, plan.topology(), each_rank=False), np.random.default_rng(number)
    proof = Proof(bound_us=best.step_time_us * (1 + 1e-5), trainers=ProofPart(weights=tuple(_drawn(plan, program, rng) for _ in range(40))))
    assert not check(plan.question, proof).holds


def _drawn(plan: Plan, program: ProofProgram, rng: np.random.Generator) -> Weights:
    names = [table.name for table in plan.question.model.tables]
    whole = program.choices.whole_on == 0
    fullest = []
    for stage in range(STAGES):
        of_stage = np.unique(program.choices.time_us[whole, 0, stage])
        some = of_stage[of_stage > 0]
        if len(some):
            size = int(rng.integers(1, len(names) + 1))
            most_us = float(rng.choice(some) * rng.choice([1.0, 1.0, 0.7, 1.3]))
            tables = tuple(rng.choice(names, size, replace=False).tolist())
            fullest.append(FullestRank(of_class=0, stage=PLACED_STAGES[stage], tables=tables, most_us=most_us, share=1.0))
    classes, groups = len(program.hbm_capacity), len(program.ddr_capacity)
    return Weights(stages=((0.0,) * STAGES,) * classes, hbm=(0.0,) * classes, ddr=(0.0,) * groups, fullest=tuple(fullest))


def test_they_show_what_a_mean_of_ranks_does_not() -> None:
    raised = 0
    for number in range(10):
        plan = answer(more_tables_than_ranks(number))
        whole = prove(plan)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("emplace.solver.certificate.duals.PACKING_ROUNDS", 0)
            without = prove(plan)
        assert whole.bound_us is not None
        assert without.bound_us is not None
        raised += whole.bound_us > without.bound_us * 1.001
    assert raised >= 2
