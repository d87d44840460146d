"""Synthetic batches follow the spec's distributions and repeat with the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.placement.catalog import builtin_model
from emplace.placement.hashing import spread_rows
from emplace.placement.model import Table
from emplace.placement.workload import Objective, table_load
from emplace.runtime.batches import draw_batch, draw_rows, prepared_count
from tests.executor.plans import make_model

pytestmark = pytest.mark.torch


def _table(rows: int) -> Table:
    return Table.model_validate(
        {"name": "t", "num_embeddings": rows, "embedding_dim": 4, "features": [{"name": "f", "length": {"fixed": 1}}]}
    )


@given(rows=st.integers(1, 5000))
@settings(max_examples=60, deadline=None)
def test_spreading_is_a_bijection(rows: int) -> None:
    assert sorted(spread_rows(rows, np.arange(rows)).tolist()) == list(range(rows))


@given(rows=st.integers(2**31, 10**12), start=st.integers(0, 10**9))
@settings(max_examples=30, deadline=None)
def test_spreading_a_huge_table_neither_overflows_nor_collides(rows: int, start: int) -> None:
    ids = spread_rows(rows, np.arange(start, start + 200))
    assert len(set(ids.tolist())) == 200
    assert ids.min() >= 0
    assert ids.max() < rows


def test_hot_rows_fall_evenly_on_blocks_of_rows() -> None:
    """The hottest tenth of a table is spread over eight row blocks to within a percent of the table's share."""
    blocks = spread_rows(80_000, np.arange(8_000)) // 10_000
    assert np.bincount(blocks, minlength=8).tolist() == [1000] * 8 or abs(np.bincount(blocks, minlength=8) - 1000).max() <= 10


@pytest.mark.parametrize("ids", ["by_frequency", {"measured": [0.1, 0.6, 0.0, 0.3]}])
def test_ids_lie_as_the_table_says(ids: Any) -> None:
    table = Table.model_validate(_table(1003).to_data() | {"access": {"zipf": 1.1}, "ids": ids})
    drawn = draw_rows(table, 20_000, np.random.default_rng(1))
    load = table_load(table, 20_000, 1, Objective.MEAN)
    first = np.arange(4) * 251
    share = load.row_share(first, np.minimum(251, 1003 - first), 1003)
    assert (drawn >= 0).all()
    assert (drawn < 1003).all()
    np.testing.assert_allclose(np.bincount(drawn // 251, minlength=4) / 20_000, share.lookups, atol=0.015)
    different = np.bincount(np.unique(drawn) // 251, minlength=4) / len(np.unique(drawn))
    np.testing.assert_allclose(different, share.unique_rows, atol=0.05)


def test_same_seed_rank_and_number_same_batch() -> None:
    spec = make_model()
    first, again = draw_batch(spec, 64, 3, 1, 5), draw_batch(spec, 64, 3, 1, 5)
    assert torch.equal(first.sparse.values(), again.sparse.values())
    assert torch.equal(first.dense, again.dense)
    for other in ((64, 4, 1, 5), (64, 3, 0, 5), (64, 3, 1, 6)):
        assert not torch.equal(first.dense, draw_batch(spec, *other).dense)


def test_lengths_and_ids_follow_the_spec() -> None:
    spec = make_model()
    sparse = draw_batch(spec, 4000, 0, 0, 0).sparse
    for table in spec.tables:
        for feature in table.features:
            jagged = sparse[feature.name]
            spread = (feature.lengths.variance / 4000) ** 0.5
            assert abs(float(jagged.lengths().double().mean()) - feature.lengths.mean) <= 5 * spread
            assert int(jagged.lengths().max()) <= feature.lengths.longest
            assert int(jagged.values().max()) < table.num_embeddings
            unique = float(table.accesses.unique_rows(len(jagged.values())))
            assert abs(len(jagged.values().unique()) - unique) <= 5 * unique**0.5


def test_batches_are_rotated_within_a_memory_limit() -> None:
    small = make_model()
    assert prepared_count(small, 10) == 10
    assert prepared_count(small, 10_000) == 64
    assert 1 <= prepared_count(builtin_model("rm2").model_copy(update={"local_batch_size": 10_000_000}), 100) < 64
