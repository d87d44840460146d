"""Proofs of small random questions, held against every placement that the audit accepts; and altered proofs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.enumeration import beaten_by
from benchmarks.exhaustive import Found, TooLarge
from benchmarks.small_questions import small_question
from emplace.placement.certificate import MOST_US, Cases, HasAtMost, HasWay, Proof, ProofCase, ProofPart, Weights
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Explanation, Plan, PlanStatus
from emplace.placement.proof.program import program_of
from emplace.placement.proof.verify import check, verify
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.workload import Objective
from emplace.planning import answer
from emplace.solver.certificate.prover import prove

QUESTIONS, PARTS = 24, 2


@pytest.fixture(autouse=True)
def _without_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    # They have tests of their own, and take most of the time.
    monkeypatch.setattr("emplace.solver.solve.explain", lambda *_: Explanation(reasons=("it is left out",)))


def _beaten(plan: Plan) -> Found | None:
    """A placement that the plan's proof says there is none of."""
    assert plan.proof is not None
    status = PlanStatus.INFEASIBLE if plan.proof.bound_us is None else PlanStatus.FEASIBLE
    try:
        return beaten_by(plan.model_copy(update={"lower_bound_us": plan.proof.bound_us, "status": status}))
    except TooLarge:
        return None


@pytest.mark.parametrize("part", range(PARTS))
def test_proofs_by_rank_show_all_that_is_claimed_and_no_placement_beats_them(part: int) -> None:
    statuses = set()
    for number in range(part, QUESTIONS, PARTS):
        plan = answer(small_question(3, number, 0.1)[1], proof=True)
        statuses.add(plan.status)
        assert verify(plan).shows(plan), number
        assert _beaten(plan) is None, number
    assert {PlanStatus.OPTIMAL, PlanStatus.INFEASIBLE} <= statuses


@pytest.mark.parametrize("part", range(PARTS))
def test_no_placement_beats_proofs_by_class(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.certificate.prover.may_be_by_rank", lambda *_: False)
    shown = []
    for number in range(part, QUESTIONS, PARTS):
        plan = answer(small_question(4, number, 0.1)[1], proof=True)
        shown.append(verify(plan).shows(plan))
        assert _beaten(plan) is None, number
    assert sum(shown) > len(shown) / 3


@pytest.mark.parametrize("number", range(2, 26, 2))
def test_nothing_is_refuted_that_a_plan_reaches(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.certificate.prover.may_be_by_rank", lambda *_: False)
    plan = answer(small_question(5, number, 0.1)[1])
    if plan.step_time_us is not None:
        for beyond in (1.0001, 1.02):
            proof = prove(plan.model_copy(update={"lower_bound_us": plan.step_time_us * beyond}))
            assert proof.bound_us is not None
            assert proof.bound_us <= plan.step_time_us * (1 + 1e-9)


@cache
def _proven(number: int, each_rank: bool) -> Plan:
    """A plan with its proof; a class of ranks weighs alike unless `each_rank`."""
    plan = answer(small_question(5, number, 0.1)[1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("emplace.solver.certificate.prover.may_be_by_rank", lambda *_: each_rank)
        return plan.model_copy(update={"proof": prove(plan)})


FEASIBLE = (6, 7, 10, 15, 19, 24)
"""Questions of some classes, without servers, that have a plan."""


@settings(max_examples=25, deadline=None)
@given(number=st.sampled_from(FEASIBLE), each_rank=st.booleans(), seed=st.integers(0, 2**32), spread=st.sampled_from([0.02, 0.3, 2.0]))
def test_no_weights_prove_more_than_there_is(number: int, each_rank: bool, seed: int, spread: float) -> None:
    plan = _proven(number, each_rank)
    assert plan.proof is not None
    assert plan.step_time_us is not None
    rng = np.random.default_rng(seed)
    weights = tuple(_altered(each, plan, each_rank, rng, spread) for each in plan.proof.trainers.weights * 3)
    part = ProofPart(each_rank=each_rank, weights=weights)
    for bound_us in (None, plan.step_time_us * (1 + 1e-5), plan.step_time_us * 1.2):
        found = check(plan.question, Proof(bound_us=bound_us, trainers=part))
        assert ["is to prove" in violation.what for violation in found.violations] == [True]


def _altered(weights: Weights, plan: Plan, each_rank: bool, rng: np.random.Generator, spread: float) -> Weights:
    """Each weight by another factor, as far as stages allow."""
    sizes = program_of(plan.question, plan.topology(), each_rank=each_rank).classes.sizes
    stages, hbm, ddr = (np.array(each) for each in (weights.stages, weights.hbm, weights.ddr))
    stages, hbm, ddr = (each * np.exp(spread * rng.standard_normal(each.shape)) for each in (stages, hbm, ddr))
    stages += rng.random(stages.shape) * spread / 10
    stages /= np.maximum((stages * sizes[:, None]).sum(axis=0) * (1 + 1e-12), rng.choice([1.0, 0.0]) + 1e-9)
    largest = [
        each.model_copy(update={"share": min(each.share * float(np.exp(spread * rng.standard_normal())), 0.3)})
        for each in weights.largest[:3]
    ]
    for each in largest:
        stages[:, PLACED_STAGES.index(each.stage)] *= 0.7 - 1e-12
    return Weights(stages=stages.tolist(), hbm=hbm.tolist(), ddr=ddr.tolist(), largest=tuple(largest))


@settings(max_examples=40, deadline=None)
@given(number=st.sampled_from(FEASIBLE), seed=st.integers(0, 2**32), spread=st.sampled_from([0.0, 0.02, 0.3]))
def test_no_cases_prove_more_than_there_is(number: int, seed: int, spread: float) -> None:
    plan = _proven(number, False)
    assert plan.proof is not None
    assert plan.step_time_us is not None
    rng = np.random.default_rng(seed)
    proofs = _every_weights(plan.proof.trainers)
    weights = tuple(_altered(each, plan, False, rng, spread) if spread else each for each in proofs)
    part = ProofPart(weights=weights, cases=_drawn_cases(plan, weights, rng, 3))
    for bound_us in (None, plan.step_time_us * (1 + 1e-5), plan.step_time_us * 1.05):
        assert not check(plan.question, Proof(bound_us=bound_us, trainers=part)).holds


def _every_weights(case: ProofCase) -> tuple[Weights, ...]:
    halves = () if case.cases is None else (case.cases.so, case.cases.otherwise)
    return case.weights + tuple(each for half in halves for each in _every_weights(half))


def _drawn_cases(plan: Plan, weights: tuple[Weights, ...], rng: np.random.Generator, depth: int) -> Cases | None:
    free = [table.name for table in plan.question.model.tables if table.constraints.pin is None]
    if not depth or not free:
        return None
    so, otherwise = (ProofCase(weights=weights, cases=_drawn_cases(plan, weights, rng, depth - 1)) for _ in range(2))
    return Cases(says=_drawn_case(plan, str(rng.choice(free)), rng), so=so, otherwise=otherwise)


def _drawn_case(plan: Plan, table: str, rng: np.random.Generator) -> HasWay | HasAtMost:
    """What the plan itself does, or something else."""
    placed = next(each for each in plan.tables if each.name == table)
    if rng.random() < 0.5:
        return HasAtMost(table=table, most_pieces=max(len(placed.shards) + int(rng.integers(-1, 2)), 1))
    way = HasWay(table=table, sharding_type=placed.sharding_type, compute_kernel=placed.compute_kernel)
    return way if rng.random() < 0.5 else way.model_copy(update={"on_servers": True})


@pytest.mark.parametrize(("number", "where"), [(21, "trainers"), (13, "with_servers")])
def test_cases_show_more_than_weights_for_all_and_each_half_is_needed(number: int, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, whole = _proven(number, False), "emplace.solver.certificate.prover.MOST_CASES"
    monkeypatch.setattr(whole, 1)
    monkeypatch.setattr("emplace.solver.certificate.prover.may_be_by_rank", lambda *_: False)
    weights_alone = prove(plan)
    assert plan.proof is not None
    assert plan.proof.bound_us is not None
    assert weights_alone.bound_us is not None
    assert plan.proof.bound_us > weights_alone.bound_us * 1.01
    assert verify(plan).holds
    assert _beaten(plan) is None
    for half in ("so", "otherwise"):
        data = plan.proof.to_data()
        data[where]["cases"][half] = {}
        found = check(plan.question, Proof.model_validate(data))
        assert [violation.where for violation in found.violations] == [f"/proof/{where}/cases/{half}"]


def test_a_case_has_what_is_said_and_the_other_has_the_rest() -> None:
    plan = _proven(21, False)
    program = program_of(plan.question, plan.topology(), each_rank=False)
    way = HasWay(table="t1", sharding_type=ShardingType.TABLE_WISE, compute_kernel=ComputeKernel.FUSED)
    for says in (way, HasAtMost(table="t1", most_pieces=1)):
        of_table = [each.choices.where(each.choices.table == 1) for each in (program.case(says, so=True), program.case(says, so=False))]
        assert [each.are(says).all() for each in of_table] == [True, False]
        assert sum(len(each) for each in of_table) == (program.choices.table == 1).sum()


def test_mixes_of_widths_have_no_number_of_pieces() -> None:
    refused = 0
    for number in FEASIBLE:
        plan = _proven(number, False)
        choices = program_of(plan.question, plan.topology(), each_rank=False).choices
        for place, table in enumerate(plan.question.model.tables):
            case = Cases(says=HasAtMost(table=table.name, most_pieces=1), so=ProofCase(), otherwise=ProofCase())
            said = [each.what for each in check(plan.question, Proof(bound_us=1e9, trainers=ProofPart(cases=case))).violations]
            is_mixed = bool((choices.pieces[choices.table == place] == 0).any())
            assert any("by the widths of pieces" in what for what in said) == (is_mixed and table.constraints.pin is None), table.name
            refused += is_mixed
    assert refused > 0


FULLEST = {"of_class": 0, "stage": "input_dist", "tables": ["t0"], "most_us": 1.0, "share": 0.1}
ALTERED: dict[str, tuple[dict[str, Any], str]] = {
    "a bound that is raised": ({"bound_us": 1e9}, "is to prove that none is shorter than 1e+09"),
    "the highest bound that one can say": ({"bound_us": MOST_US}, "is to prove that none is shorter than 1e+15"),
    "a stage that hardly has more than another": (
        {"bound_us": MOST_US, "weights": {"stages": [[0.5] * 6, [1e-300] + [0.0] * 5], "largest": [], "fullest": []}},
        "is to prove that none is shorter than 1e+15",
    ),
    "no placement": ({"bound_us": None}, "is to prove that there is no placement"),
    "ranks by class": ({"trainers": {"each_rank": False}}, "is to prove"),
    "too few ranks": ({"weights": {"stages": [[0.0] * 6]}}, "has 1 entries, must have 2"),
    "more than a stage": ({"weights": {"stages": [[0.6] * 6] * 2}}, "the shares of input_dist come to 1.2"),
    "more than a stage with a largest shard": (
        {"weights": {"stages": [[0.5] * 6] * 2, "largest": [{"table": "t0", "stage": "input_dist", "share": 0.1}]}},
        "the shares of input_dist come to 1.1",
    ),
    "another model's table": ({"weights": {"largest": [{"table": "t9", "stage": "input_dist", "share": 0.1}]}}, "there is no table t9"),
    "the dense layers": ({"weights": {"largest": [{"table": "t0", "stage": "dense", "share": 0.1}]}}, "with a stage dense"),
    "fullest of another model's table": ({"weights": {"fullest": [FULLEST | {"tables": ["t9"]}]}}, "must name a class of ranks"),
    "fullest of a table twice": ({"weights": {"fullest": [FULLEST | {"tables": ["t0", "t0"]}]}}, "must name a class of ranks"),
    "fullest of a class that there is not": ({"weights": {"fullest": [FULLEST | {"of_class": 2}]}}, "must name a class of ranks"),
    "fullest in the dense layers": ({"weights": {"fullest": [FULLEST | {"stage": "dense"}]}}, "must name a class of ranks"),
    "more than a stage with a fullest rank": (
        {"weights": {"stages": [[0.5] * 6] * 2, "fullest": [FULLEST]}},
        "the shares of input_dist come to 1.1",
    ),
    "cases of each rank": (
        {"trainers": {"each_rank": True, "cases": {"says": {"table": "t0", "most_pieces": 1}, "so": {}, "otherwise": {}}}},
        "are of classes of ranks",
    ),
    "cases of another model's table": (
        {"trainers": {"cases": {"says": {"table": "t9", "most_pieces": 1}, "so": {}, "otherwise": {}}}},
        "there is no table t9 that is not pinned",
    ),
    "servers that there are none of": ({"with_servers": {}}, "exactly where the question allows remote servers"),
}


@pytest.mark.parametrize("case", ALTERED)
def test_what_does_not_prove_what_it_says_is_refused(case: str) -> None:
    plan = _proven(10, True)
    assert plan.proof is not None
    assert verify(plan).holds
    changes, said = ALTERED[case]
    data = plan.proof.to_data()
    of_weights = changes.get("weights", {})
    data["trainers"]["weights"] = [each | of_weights for each in data["trainers"]["weights"]]
    data |= {key: value for key, value in changes.items() if key != "weights"}
    altered = Proof.model_validate(data)
    found = check(plan.question, altered)
    assert any(said in violation.what for violation in found.violations), found


def test_each_of_the_weights_is_needed_or_not_there() -> None:
    needed = 0
    for number in FEASIBLE:
        plan = _proven(number, False)
        assert plan.proof is not None
        weights = plan.proof.trainers.weights
        for left_out in range(len(weights)):
            part = plan.proof.trainers.model_copy(update={"weights": weights[:left_out] + weights[left_out + 1 :]})
            needed += not check(plan.question, plan.proof.model_copy(update={"trainers": part})).holds
    assert needed > 3


def test_a_proof_that_shows_less_than_is_claimed_says_so() -> None:
    plan = _proven(10, True)
    assert plan.lower_bound_us is not None
    assert verify(plan).shows(plan)
    assert not verify(plan).shows(plan.model_copy(update={"lower_bound_us": plan.lower_bound_us * (1 + 1e-5)}))
    assert not verify(plan).shows(plan.model_copy(update={"status": PlanStatus.INFEASIBLE, "lower_bound_us": None}))


def test_a_plan_without_a_proof_has_nothing_to_verify() -> None:
    with pytest.raises(InvalidDocument, match="plan again with 'emplace plan --proof"):
        verify(_proven(10, True).model_copy(update={"proof": None}))


def test_the_fewest_devices_are_not_proven() -> None:
    question = small_question(5, 10, 0.1)[1]
    options = question.options.model_copy(update={"objective": Objective.DEVICES})
    question = question.model_copy(update={"options": options})
    with pytest.raises(InvalidDocument, match="a proof is of one job"):
        answer(question, proof=True)
