"""Trace files of every format hold the same examples; what is measured of them is what they were drawn from."""

from __future__ import annotations

import csv
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.executor.traces.batches import TraceBatches, lay_out, prepared_batches
from emplace.executor.traces.measuring import MAX_LENGTHS, measured_model, model_of, spell_accesses, spell_lengths
from emplace.executor.traces.opening import open_trace
from emplace.executor.traces.trace import CHUNK_EXAMPLES
from emplace.placement.access import IcdfAccess, access_distribution
from emplace.placement.errors import InvalidDocument
from emplace.placement.lengths import HistogramLength, length_distribution
from emplace.placement.model import ModelSpec
from emplace.runtime.batches import draw_batch
from emplace.runtime.dlrm import Batch
from tests.executor.plans import make_model

pytestmark = pytest.mark.torch

EXAMPLES = 2 * CHUNK_EXAMPLES + 5
FORMATS = ["pt", "parquet", "csv"]


@pytest.fixture(scope="module")
def drawn() -> Batch:
    return draw_batch(make_model(), EXAMPLES, 1, 0, 0)


@pytest.fixture(scope="module")
def files(drawn: Batch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same examples in each format."""
    folder = tmp_path_factory.mktemp("traces")
    sparse, names = drawn.sparse, drawn.sparse.keys()
    lists = {name: [ids.tolist() for ids in sparse[name].to_dense()] for name in names}
    torch.save((sparse.values(), sparse.offsets(), sparse.lengths().view(len(names), EXAMPLES)), folder / "trace.pt")
    parquet.write_table(arrow.table({"note": ["x"] * EXAMPLES} | lists), folder / "trace.parquet")
    with (folder / "trace.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([" ".join(map(str, lists[name][example])) for name in names] for example in range(EXAMPLES))
    return {suffix: folder / f"trace.{suffix}" for suffix in FORMATS}


def names_of(batch: Batch) -> list[str]:
    return list(batch.sparse.keys())


def _measured(path: Path, model: ModelSpec, folder: Path, warnings: list[str] | None = None) -> ModelSpec:
    warn = (warnings if warnings is not None else []).append
    return measured_model(open_trace(path, folder), model, lambda _: None, warn)


@pytest.mark.parametrize("suffix", FORMATS)
def test_batches_are_the_examples_of_the_file(suffix: str, files: dict[str, Path], drawn: Batch, tmp_path: Path) -> None:
    """`clicks` is cut to 5 ids by the model; after the last example comes the first one."""
    spec = make_model()
    user, item, *others = spec.tables
    clicks = item.features[0].model_copy(update={"truncate": 5})
    spec = spec.model_copy(update={"tables": (user, item.model_copy(update={"features": (clicks,)}), *others)})
    (tmp_path / "laid").mkdir()
    lay_out(open_trace(files[suffix], tmp_path), spec, 10**6, tmp_path / "laid", lambda _: None)
    batches = TraceBatches(spec, tmp_path / "laid")
    for start, examples in ((0, 64), (CHUNK_EXAMPLES - 3, 10), (EXAMPLES - 7, 12), (3, 2 * EXAMPLES)):
        batch = batches.batch(start, examples, np.random.default_rng(0))
        which = [number % EXAMPLES for number in range(start, start + examples)]
        for feature in names_of(drawn):
            lists = drawn.sparse[feature].to_dense()
            expected = [lists[number][:5] if feature == "clicks" else lists[number] for number in which]
            assert batch.sparse[feature].lengths().tolist() == [len(ids) for ids in expected]
            assert torch.equal(batch.sparse[feature].values(), torch.cat(expected))
        assert (batch.dense.shape, batch.labels.shape) == ((examples, 8), (examples,))


def test_ranks_take_the_examples_in_turns(files: dict[str, Path], drawn: Batch, tmp_path: Path) -> None:
    spec = make_model()
    lay_out(open_trace(files["pt"], tmp_path), spec, 6, tmp_path, lambda _: None)
    ranks = [prepared_batches(spec, 3, 0, rank, 2, tmp_path) for rank in (0, 1)]
    users = [batch.sparse["user"].values() for turn in zip(*ranks, strict=True) for batch in turn]
    assert torch.equal(torch.cat(users), drawn.sparse["user"].values()[: 6 * 64])
    assert not torch.equal(ranks[0][0].dense, ranks[1][0].dense)


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
    model = model_of(trace, 64, 512)
    assert [table.name for table in model.tables] == [f"feature_{number}" for number in range(6)]
    assert [table.num_embeddings for table in model.tables] == [int(drawn.sparse[key].values().max()) + 1 for key in names_of(drawn)]
    assert {table.embedding_dim for table in model.tables} == {64}
    assert [table.name for table in model_of(open_trace(files["parquet"], tmp_path), 64, 512).tables] == names_of(drawn)


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


BAD_FILES = {
    "no.pt": (None, "no such file"),
    "a.txt": ("", "must end in .pt, .parquet or .csv"),
    "a.pt.gz": ("", "unpack it first"),
    "old.pt": ("not a zip", "not in the zip format"),
    "text.parquet": ("PAR?", "can't be read as Parquet"),
    "empty.csv": ("", "must begin with a line of feature names"),
    "twice.csv": ("a,a\n1,2\n", "each once"),
    "nothing.csv": ("a,b\n", "has no examples"),
    "ragged.csv": ("a,b\n1,2\n1\n", "line 3 has 1 cells, the first line has 2"),
    "words.csv": ("a,b\n1,2\n1,2 x\n", "/b: line 3: ids must be whole numbers from 0 on (got 'x')"),
    "negative.csv": ("a,b\n5,2\n3,4 -7\n", "/b: line 3: ids must be whole numbers from 0 on (got '-7')"),
    "huge.csv": ("a,b\n1,99999999999999999999\n", "must be whole numbers"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_no_trace_is_refused(name: str, tmp_path: Path) -> None:
    text, rule = BAD_FILES[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidDocument) as refusal:
        open_trace(tmp_path / name, tmp_path)
    assert name in str(refusal.value)
    assert rule in str(refusal.value)


@pytest.mark.parametrize(
    ("tensors", "rule"),
    [
        (torch.arange(3), "three tensors"),
        ((torch.arange(3), torch.arange(3), torch.arange(3)), "lengths [T, B]"),
        ((torch.arange(3), torch.arange(3), torch.ones(1, 3).long()), "one offset more"),
        ((torch.arange(3), torch.tensor([0, 1, 2, 2]), torch.ones(1, 3).long()), "offsets and lengths of feature 0 disagree"),
        ((torch.arange(2), torch.arange(4), torch.ones(1, 3).long()), "offsets and lengths of feature 0 disagree"),
        ((torch.arange(3) - 1, torch.arange(4), torch.ones(1, 3).long()), "/0: ids must be whole numbers from 0 on (got -1)"),
    ],
)
def test_tensors_that_are_no_batch_are_refused(tensors: object, rule: str, tmp_path: Path) -> None:
    torch.save(tensors, tmp_path / "bad.pt")
    with pytest.raises(InvalidDocument) as refusal:
        list(open_trace(tmp_path / "bad.pt", tmp_path).chunks(0))
    assert rule in str(refusal.value)


def test_missing_features_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    model = make_model()
    (tmp_path / "t.csv").write_text("user,friends,clicks,pages,country\n1,2,3,4,5\n")
    with pytest.raises(InvalidDocument, match="no column for the model's feature tags"):
        _measured(tmp_path / "t.csv", model, tmp_path)
    fewer = model.model_copy(update={"tables": model.tables[:2]})
    with pytest.raises(InvalidDocument, match="has 6 features without names, the model has 3"):
        _measured(files["pt"], fewer, tmp_path)


def test_lists_with_missing_ids_are_refused_and_missing_lists_are_empty(tmp_path: Path) -> None:
    parquet.write_table(
        arrow.table({"a": [[1], None, [2, 3]], "b": [[1], [None], []], "c": [4, None, 5], "d": [4, -9, 5]}), tmp_path / "t.parquet"
    )
    trace = open_trace(tmp_path / "t.parquet", tmp_path)
    [(lengths, ids)] = trace.chunks(0)
    assert (lengths.tolist(), ids.tolist()) == ([1, 0, 2], [1, 2, 3])
    [(lengths, ids)] = trace.chunks(2)
    assert (lengths.tolist(), ids.tolist()) == ([1, 0, 1], [4, 5])
    with pytest.raises(InvalidDocument, match="/b: has a list with a missing id"):
        list(trace.chunks(1))
    with pytest.raises(InvalidDocument, match=r"/d: ids must be whole numbers from 0 on \(got -9\)"):
        list(trace.chunks(3))
