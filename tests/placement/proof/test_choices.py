"""Mixes and corners of caches stand for every placement and every cache: none weighs less, whatever the weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.every_placement import Choices, every_choice
from benchmarks.small_questions import CLASSES, small_question
from emplace.placement.access import access_distribution
from emplace.placement.certificate import HasAtMost
from emplace.placement.derived_loads import STAGES, derive_loads
from emplace.placement.model import ShardingType, Table
from emplace.placement.plan import Question
from emplace.placement.proof.caches import cache_corners, cache_intervals
from emplace.placement.proof.choices import Choices as ProofChoices
from emplace.placement.proof.classes import Ints, RankClasses
from emplace.placement.proof.program import ProofProgram, program_of, topologies
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.topology import Topology
from emplace.placement.workload import model_loads

PLACED = [STAGES.index(stage) for stage in PLACED_STAGES]


def _every(question: Question, program: ProofProgram) -> Iterator[Choices]:
    topology = program.topology
    loads = model_loads(question.model, topology, question.options.objective)
    return (every_choice(question, *each, topology) for each in zip(question.model.tables, loads, strict=True))


@pytest.mark.parametrize("each_rank", [False, True])
@pytest.mark.parametrize("number", [*range(2 * len(CLASSES)), 13])
def test_no_placement_weighs_less_than_the_lightest_choice(number: int, each_rank: bool) -> None:
    _, question = small_question(6, number, 0.1)
    rng = np.random.default_rng(number)
    for topology in topologies(question):
        if topology is None:
            continue
        program = program_of(question, topology, each_rank=each_rank)
        classes, mine = program.classes, program.choices
        together = {name for group in question.model.together or () for name in group}
        empty = derive_loads(question, (), topology)
        capacity = np.array([rank.hbm_capacity_bytes for rank in topology.ranks]) - empty.rank_hbm
        nodes = np.array(topology.node_ddr_capacity_bytes) - empty.node_ddr
        for table, all_ in enumerate(_every(question, program)):
            fits = (all_.hbm <= capacity).all(axis=1) & (all_.ddr <= nodes).all(axis=1)
            if all_.table.name in together or not fits.any():
                continue
            placed = all_.where(np.flatnonzero(fits))
            choices = mine.where(mine.table == table)
            _assert_none_is_lighter(placed, choices, classes, rng)
            if (choices.pieces > 0).all() and not each_rank:
                pieces = _pieces(placed, topology)
                for most in np.unique(pieces).tolist():
                    few = HasAtMost(table=all_.table.name, most_pieces=most)
                    _assert_none_is_lighter(placed.where(pieces <= most), choices.where(choices.are(few)), classes, rng)
                    if (pieces > most).any():
                        _assert_none_is_lighter(placed.where(pieces > most), choices.where(~choices.are(few)), classes, rng)


def _assert_none_is_lighter(placed: Choices, choices: ProofChoices, classes: RankClasses, rng: np.random.Generator) -> None:
    """By random weights of loads, of the largest shard, and of what every rank has."""
    for _ in range(10):
        time, hbm, ddr, own, everywhere = (
            np.exp(3 * rng.standard_normal(shape)) * (rng.random(shape) < 0.5)
            for shape in ((len(classes.sizes), len(PLACED)), len(classes.sizes), classes.groups, len(PLACED), len(PLACED))
        )
        hbm, ddr = hbm * 1e-6, ddr * 1e-6
        weighs = np.tensordot(choices.time_us, time, axes=2) + choices.hbm @ hbm + choices.ddr @ ddr
        weighs += choices.own_us @ own + choices.everywhere_us @ everywhere
        on_ranks = placed.time_us[:, :, PLACED]
        every = (
            placed.hbm @ hbm[classes.of_rank] + placed.ddr @ ddr[classes.of_node] + np.tensordot(on_ranks, time[classes.of_rank], axes=2)
        )
        every += on_ranks.max(axis=1) @ own + on_ranks.min(axis=1) @ everywhere
        assert weighs.min() <= every.min() * (1 + 1e-9)


def _pieces(placed: Choices, topology: Topology) -> Ints:
    """[C] how many pieces the columns are in."""
    kind = np.array([way.sharding_type for way in placed.ways])[placed.way]
    node = np.array([rank.node for rank in topology.ranks])
    nodes = sum((placed.columns[:, node == number] > 0).any(axis=1).astype(np.int64) for number in np.unique(node))
    on_ranks = np.where(np.isin(kind, [ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE]), (placed.columns > 0).sum(axis=1), 1)
    return np.asarray(np.where(kind == ShardingType.GRID_SHARD, nodes, on_ranks))


accesses = st.one_of(st.just("uniform"), st.floats(0.3, 3.0).map(lambda alpha: {"zipf": alpha}))


@settings(max_examples=200, deadline=None)
@given(access=accesses, rows=st.integers(1, 10**8), factors=st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=8))
def test_every_cache_holds_the_rows_of_a_mix_of_corners_and_of_its_interval(access: object, rows: int, factors: list[float]) -> None:
    table = Table.model_validate(
        {"name": "t", "num_embeddings": rows, "embedding_dim": 4, "features": [{"name": "f", "length": {"fixed": 1}}], "access": access}
    )
    factor = np.array(factors)
    hits = access_distribution(table.access, rows).hit_rate(factor)
    corners = cache_corners(table.access, rows)
    assert (np.interp(hits, corners.hits[:, 0], corners.rows[:, 0]) <= factor * (1 + 1e-6)).all()
    assert (np.abs(corners.hits + corners.misses - 1) < 1e-8).all()
    each = cache_intervals(table.access, rows)
    least = (each.rows <= factor * (1 + 1e-12)) & (each.hits <= hits + 1e-12) & (each.misses <= 1 - hits + 1e-12)
    assert least.any(axis=0).all()
