"""Every message about a document that was text names the line, and the table by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from emplace.placement.errors import InvalidDocument
from emplace.placement.lines import lines_of
from emplace.placement.model import ModelSpec
from emplace.placement.reading import in_file, lines_in, read_file, read_text
from tests.placement.example_models import model_data

SPEC = """\
# A model
schema_version: 1
name: small
local_batch_size: 512
dense_features: 13
bottom_mlp: [64]
top_mlp: [64, 1]
interaction: cat
tables:
  - name: users
    num_embeddings: 100000
    embedding_dim: 64
    features: [{name: user, length: &one {fixed: 1}}]
  - name: pages
    num_embeddings: 100000
    embedding_dim: 64
    features:
      - name: page
        length:
          poisson: 20
"""


def refused(text: str, *, as_json: bool = False) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        read_text(text, ModelSpec, source="spec", as_json=as_json)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ("poisson: 20", "poisson: x", "spec:20: /tables/1/features/0/length/poisson: must be a number (got 'x'), in tables[pages].features[page]"),
        ("    num_embeddings: 100000\n", "", "spec:10: /tables/0/num_embeddings: is required, in tables[users]"),
        ("local_batch_size: 512\n", "", "spec:2: /local_batch_size: is required"),
        ("interaction: cat", "interaction: sum", "spec:8: /interaction: must be 'cat', 'dot' or 'dcn' (got 'sum')"),
        ("[64, 1]", "[64,\n  x]", "spec:8: /top_mlp/1: must be a whole number (got 'x')"),
        ("name: pages", "name: users", "spec:14: /tables/1/name: must be unique, /tables/0/name has the same (got 'users'), in tables[users]"),
        ("name: pages", "name: a b", "spec:14: /tables/1/name: must be at most 200 letters, digits, '_', ':' and '-', the first a letter"),
        ("name: small", "name: small\nname: b", "spec:4: (document): is not valid YAML: line 4, column 1: the key 'name' is repeated"),
        ("name: page\n", "name: page\n        name: b\n", "spec:19: /tables/1/features/0: is not valid YAML: line 19, column 9: the key 'name'"),
        ("name: small", "name: [a", "spec:4: (document): is not valid YAML: line 4"),
        ("name: small", "name: \x00", "spec:3: (document): is not valid YAML: control characters"),
        ("name: small", "name: 2020-01-01", "spec:3: /name: is a date; put it in quotes to make it text (got 2020-01-01)"),
        ("poisson: 20", "poisson: !!bool maybe", "spec:20: /tables/1/features/0/length/poisson: is not valid YAML: line 20, column 20: the tag"),
    ],
)  # fmt: skip
def test_yaml(text: str, instead: str, message: str) -> None:
    assert text in SPEC
    (found,) = refused(SPEC.replace(text, instead, 1))
    assert found.startswith(message)


def test_what_an_alias_or_a_merge_brings_in_is_where_it_is_used() -> None:
    aliased = SPEC.replace("{fixed: 1}", "{fixed: -1}").replace("length:\n          poisson: 20", "length: *one")
    assert [line.partition(": ")[0] for line in refused(aliased)] == ["spec:13", "spec:19"]
    merged = SPEC.replace("name: users", "<<: {embedding_dim: 3, name: users}").replace("embedding_dim: 64\n    features: [", "features: [")
    assert refused(merged)[0].startswith("spec:10: /tables/0/embedding_dim: must be a multiple of 4 (got 3), in tables[users]")


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ('"poisson": 3', '"poisson": "x"', "/tables/1/features/0/length/poisson: must be a number (got 'x'), in tables[b].features[fb1]"),
        ('"num_embeddings": ', '"rows": ', "/tables/0/num_embeddings: is required, in tables[a]"),
        ('"name": "b"', '"name": "b", "name": "c"', "(document): is not valid JSON: the key 'name' is repeated"),
        ('"poisson": 3', '"poisson": NaN', "(document): is not valid JSON: NaN is not a number that JSON allows"),
        ('"poisson": 3', f'"poisson": {"9" * 500}', "(document): is not valid JSON: a number has 500 digits"),
        ('"poisson": 3', '"poisson": }', "(document): is not valid JSON: Expecting value"),
        ('"name": "b"', '"name": "\\ud800"', "/tables/1/name: holds half of a surrogate pair"),
    ],
)
def test_json(text: str, instead: str, message: str) -> None:
    spelled = json.dumps(model_data(description='NaN "quoted" \\" {'), indent=2)
    assert text in spelled
    line = spelled[: spelled.index(text)].count("\n") + 1
    expected = line - 2 if "is required" in message else line  # the table's own
    assert refused(spelled.replace(text, instead, 1), as_json=True)[0].startswith(f"spec:{expected}: {message}")


def test_both_spellings_agree_with_a_search_for_each_value() -> None:
    data: dict[str, Any] = {"a": [["p", "q"], {"b/c": {"~": "r"}}], "s": {"t": [], "u": {}}, "é": "v"}
    pointers = {"/a/0/0": "p", "/a/0/1": "q", "/a/1/b~1c/~0": "r", "/é": "v"}
    for text, as_json in ((json.dumps(data, indent=1), True), (yaml.safe_dump(data, allow_unicode=True), False)):
        lines = lines_of(text, [*pointers, "", "/a/1/none", "/s/t/0"], as_json=as_json)
        for pointer, value in pointers.items():
            (line,) = (number for number, line in enumerate(text.splitlines(), 1) if line.strip(' -",').split(" ")[-1].strip('"') == value)
            assert lines[pointer] == line
        assert lines[""] == 1
        assert lines["/a/1/none"] == lines_of(text, ["/a/1"], as_json=as_json)["/a/1"]


def test_a_rule_that_shows_later_is_found_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(SPEC)
    assert lines_in(path, ["/tables/1", "/tables/1/features/0"]) == {"/tables/1": 14, "/tables/1/features/0": 18}
    with pytest.raises(InvalidDocument) as caught:
        read_text("{}", ModelSpec, source="model", as_json=True)
    assert str(in_file(caught.value, path)).startswith(f"{path}:2: /schema_version: is required")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"name: a\nb: \xff", ":2: (document): must be UTF-8 text"),
        ("name: a".encode("utf-16"), ":1: (document): must be UTF-8 text; this looks like UTF-16, save it as UTF-8"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_bytes(data)
    with pytest.raises(InvalidDocument) as caught:
        read_file(path, ModelSpec)
    assert str(caught.value) == f"{path}{message}"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name, text in (("model.yaml", SPEC), ("model.json", json.dumps(model_data()))):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert read_file(tmp_path / name, ModelSpec).local_batch_size > 0


def test_a_message_is_one_short_line_whatever_a_key_holds() -> None:
    for key in ("x" * 10_000, "a\nb", "\x1b[31m"):
        (line,) = (each for each in refused(json.dumps(model_data() | {key: 1}), as_json=True))
        assert len(line) < 400
        assert line.isprintable()


def test_json_that_is_too_deep_is_so_somewhere() -> None:
    assert refused('{"a": "[[",\n"b": [[\n' + "[" * 100_000, as_json=True) == ["spec:3: (document): is nested too deep"]
