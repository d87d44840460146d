"""Files that are no trace are refused, with the file and the rule."""

from __future__ import annotations

from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import torch

from emplace.executor.traces.opening import open_trace
from emplace.placement.errors import InvalidDocument

pytestmark = pytest.mark.torch

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
    "words.csv": ("a,b\n1,2\n1,2 x\n", "/b: line 3: ids must be whole numbers from 0 to 2^63 - 1 (got 'x')"),
    "negative.csv": ("a,b\n5,2\n3,4 -7\n", "/b: line 3: ids must be whole numbers from 0 to 2^63 - 1 (got '-7')"),
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
    ("text", "lengths"),
    [
        ("a,b\n1 2,3\n4,5\n", [2, 1]),
        ("\ufeffa,b\n1 2,3\n", [2]),
        ("a\n1 2\n\n3\n", [2, 0, 1]),
        ("a\n1 2\n\n", [2]),
        ("a,b\r\n1,2\r\n\r\n", [1]),
        ('a\n1\n""\n', [1, 0]),
    ],
)
def test_lines_of_a_csv(text: str, lengths: list[int], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    trace = open_trace(tmp_path / "t.csv", tmp_path)
    assert trace.features is not None
    assert trace.features[0] == "a"
    assert [each.tolist() for each, _ in trace.chunks(0)] == [lengths]


def test_a_parquet_file_that_is_damaged_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"a": list(range(20_000))}), path, use_dictionary=False)
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(byte ^ 0x5A for byte in data[100:5000]) + data[5000:])
    trace = open_trace(path, tmp_path)
    with pytest.raises(InvalidDocument, match=r"t\.parquet: .*can't be read as Parquet"):
        list(trace.chunks(0))


def test_ids_beyond_63_bits_are_refused_as_they_are(tmp_path: Path) -> None:
    parquet.write_table(arrow.table({"a": arrow.array([1, 2**63 + 5], arrow.uint64())}), tmp_path / "t.parquet")
    with pytest.raises(InvalidDocument, match=r"/a: ids must be whole numbers from 0 to 2\^63 - 1 \(got 9223372036854775813\)"):
        list(open_trace(tmp_path / "t.parquet", tmp_path).chunks(0))


@pytest.mark.parametrize(
    ("tensors", "rule"),
    [
        (torch.arange(3), "three tensors"),
        ((torch.arange(3), torch.arange(3), torch.arange(3)), "lengths [T, B]"),
        ((torch.arange(3), torch.arange(3), torch.ones(1, 3).long()), "one offset more"),
        ((torch.arange(0), torch.arange(1), torch.ones(2, 0).long()), "has no examples"),
        ((torch.arange(0), torch.arange(1), torch.ones(0, 2).long()), "has no features"),
        ((torch.arange(3), torch.tensor([0, 1, 2, 2]), torch.ones(1, 3).long()), "offsets and lengths of feature 0 disagree"),
        ((torch.arange(2), torch.arange(4), torch.ones(1, 3).long()), "offsets and lengths of feature 0 disagree"),
        ((torch.arange(3) - 1, torch.arange(4), torch.ones(1, 3).long()), "/0: ids must be whole numbers from 0 to 2^63 - 1 (got -1)"),
    ],
)
def test_tensors_that_are_no_batch_are_refused(tensors: object, rule: str, tmp_path: Path) -> None:
    torch.save(tensors, tmp_path / "bad.pt")
    with pytest.raises(InvalidDocument) as refusal:
        list(open_trace(tmp_path / "bad.pt", tmp_path).chunks(0))
    assert rule in str(refusal.value)


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
    with pytest.raises(InvalidDocument, match=r"/d: ids must be whole numbers from 0 to 2\^63 - 1 \(got -9\)"):
        list(trace.chunks(3))
