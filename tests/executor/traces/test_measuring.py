"""What is measured of a trace is what its examples were drawn from, in every format alike."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.executor.traces.batches import TraceBatches, lay_out
from emplace.executor.traces.measuring import MAX_LENGTHS, measured_model, model_from_trace, spell_accesses, spell_lengths
from emplace.executor.traces.opening import open_trace
from emplace.placement.access import IcdfAccess, access_distribution
from emplace.placement.errors import InvalidDocument
from emplace.placement.lengths import HistogramLength, length_distribution
from emplace.placement.model import ModelSpec
from emplace.runtime.dlrm import Batch
from tests.executor.plans import make_model
from tests.executor.traces.examples import FORMATS, names_of

pytestmark = pytest.mark.torch


def _measured(path: Path, model: ModelSpec, folder: Path, warnings: list[str] | None = None) -> ModelSpec:
    warn = (warnings if warnings is not None else []).append
    return measured_model(open_trace(path, folder), model, lambda _: None, warn)


def test_every_format_is_measured_alike(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    found = [_measured(files[suffix], make_model(), tmp_path / "a") for suffix in FORMATS]
    assert found[0].tables == found[1].tables == found[2].tables


def test_what_is_measured_is_what_was_drawn(files: dict[str, Path], drawn: Batch, tmp_path: Path) -> None:
    model = make_model()
    found = _measured(files["pt"], model, tmp_path)
    assert found.tables[0].features[0].lengths.longest == 1
    for before, after in zip(model.tables, found.tables, strict=True):
        assert (after.name, after.num_embeddings, after.constraints) == (before.name, before.num_embeddings, before.constraints)
        lookups = 0
        for feature in after.features:
            seen = drawn.sparse[feature.name].lengths().double()
            assert feature.lengths.mean == pytest.approx(float(seen.mean()), rel=1e-9)
            assert feature.lengths.longest == int(seen.max())
            assert feature.lengths.variance == pytest.approx(float(seen.var(correction=0)), rel=0.02)
            lookups += int(seen.sum())
        # The rows that other numbers of lookups would touch are those of the distribution they were drawn from.
        for share in (0.01, 0.1, 1.0, 4.0):
            expected = before.accesses.unique_rows(lookups * share)
            assert float(after.accesses.unique_rows(lookups * share)) == pytest.approx(float(expected), rel=0.12), (before.name, share)


def test_ids_beyond_a_table_are_taken_modulo_and_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,friends,clicks,pages,country,tags\n1,2;3,,4|5,37,1999\n1,2,9,4,38,7\n")
    warnings: list[str] = []
    model = make_model()
    _measured(tmp_path / "t.csv", model, tmp_path, warnings)
    assert warnings == [
        "table country: 2 ids are beyond its 37 rows; taken modulo",
        "table tag: 1 ids are beyond its 1,000 rows; taken modulo",
    ]
    (tmp_path / "laid").mkdir()
    (tmp_path / "again").mkdir()
    lay_out(open_trace(tmp_path / "t.csv", tmp_path / "again"), model, 1, tmp_path / "laid", warnings.append)
    batch = TraceBatches(model, tmp_path / "laid").batch(0, 2, np.random.default_rng(0))
    assert batch.sparse["country"].values().tolist() == [0, 1]
    assert batch.sparse["tags"].values().tolist() == [999, 7]
    assert batch.sparse["clicks"].lengths().tolist() == [0, 1]
    assert len(warnings) == 4


def test_a_model_is_made_where_there_is_none(files: dict[str, Path], drawn: Batch, tmp_path: Path) -> None:
    trace = open_trace(files["pt"], tmp_path)
    model = model_from_trace(trace, 64, 512)
    assert [table.name for table in model.tables] == [f"feature_{number}" for number in range(6)]
    assert [table.num_embeddings for table in model.tables] == [int(drawn.sparse[key].values().max()) + 1 for key in names_of(drawn)]
    assert {table.embedding_dim for table in model.tables} == {64}
    assert [table.name for table in model_from_trace(open_trace(files["parquet"], tmp_path), 64, 512).tables] == names_of(drawn)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A file of 64 MiB of ids is measured with a few MiB, and the counters of its tables."""
    examples, length = 2**18, 16
    ids = torch.randint(0, 1000, (2 * examples * length,))
    lengths = torch.full((2, examples), length)
    torch.save((ids, torch.arange(2 * examples + 1) * length, lengths), tmp_path / "large.pt")
    assert (tmp_path / "large.pt").stat().st_size > 64 * 2**20
    del ids, lengths
    table = make_model().tables[4]
    tables = [table.model_copy(update={"name": name, "features": (table.features[0].model_copy(update={"name": name}),)}) for name in "ab"]
    model = make_model().model_copy(update={"tables": tuple(tables)})
    tracemalloc.start()
    _measured(tmp_path / "large.pt", model, tmp_path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 16 * 2**20


@given(st.dictionaries(st.integers(0, 100_000), st.integers(1, 10**6), min_size=1, max_size=400))
@settings(max_examples=60, deadline=None)
def test_lengths_keep_their_mean_and_the_longest(seen: dict[int, int]) -> None:
    spelled = spell_lengths(Counter(seen))
    if len(seen) == 1:
        assert spelled == {"fixed": next(iter(seen))}
        return
    assert len(spelled["histogram"]["lengths"]) <= 2 * MAX_LENGTHS + 1
    distribution = length_distribution(HistogramLength.model_validate(spelled))
    mean = sum(length * times for length, times in seen.items()) / sum(seen.values())
    assert distribution.mean == pytest.approx(mean, rel=1e-6, abs=1e-6)
    assert distribution.longest == max(seen)


@given(
    counts=st.lists(st.integers(0, 50) | st.integers(0, 2**31), min_size=1, max_size=300),
    unseen=st.integers(0, 10**9),
)
@settings(max_examples=80, deadline=None)
def test_accesses_are_always_a_valid_distribution(counts: list[int], unseen: int) -> None:
    rows = len(counts) + unseen
    spelled = spell_accesses(np.array(counts, dtype=np.uint32), rows)
    access = spelled if spelled == "uniform" else IcdfAccess.model_validate(spelled)
    often = sorted((count for count in counts if count > 1), reverse=True)
    if often:
        top = access_distribution(access, rows).hit_rate(1 / rows)
        assert top == pytest.approx(often[0] / sum(counts), rel=0.01) or spelled == "uniform"


def test_missing_features_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    model = make_model()
    (tmp_path / "t.csv").write_text("user,friends,clicks,pages,country\n1,2,3,4,5\n")
    with pytest.raises(InvalidDocument, match="no column for the model's feature tags"):
        _measured(tmp_path / "t.csv", model, tmp_path)
    fewer = model.model_copy(update={"tables": model.tables[:2]})
    with pytest.raises(InvalidDocument, match="has 6 features without names, the model has 3"):
        _measured(files["pt"], fewer, tmp_path)
