"""A document takes of YAML what JSON knows: anything else is refused with its line, in bounded time and memory."""

from __future__ import annotations

import json
import time

import pytest
from pydantic import ValidationError

from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.reading import parse_yaml, read_text


def refused(text: str) -> str:
    with pytest.raises(InvalidDocument) as caught:
        parse_yaml(text, "spec")
    (broken,) = caught.value.broken_rules
    assert broken.line is not None
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp x", "!!bool maybe", "!!int x", "!!int ''", "!!float x", "!!float ''", "!!null x", "!!binary x", "!!set {a}", "!!omap [a: 1]",
        "!!pairs [a: 1]", "!!python/name:os.system", "!own x", "!!map []", "!!seq {}", "!!str []", "0b_", "0x_", "!<tag:yaml.org,2002:int> x",
    ],
)  # fmt: skip
def test_a_value_that_is_not_what_its_tag_says(value: str) -> None:
    assert refused(f"a: 1\nb:\n  - {value}\n").startswith("spec:3: /b/0: is not valid YAML: line 3, column 5: ")


@pytest.mark.parametrize("value", ["2020-01-01", "2020-13-45", "!!timestamp 2020-01-01", "2020-01-01 10:00:00"])
def test_a_date_is_no_value(value: str) -> None:
    assert refused(f"a: {value}").startswith("spec:1: /a: is a date; put it in quotes to make it text (got 2020-")


def test_plain_data() -> None:
    text = "{a: 1, b: 1.5, c: true, d: null, e: x, f: '1', g: 2.0, h: 0x10, i: !!str 5, j: !!int '5', k: !!float 1e5, l: =, m: <<}"
    expected = {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "x",
        "f": "1",
        "g": 2,
        "h": 16,
        "i": "5",
        "j": 5,
        "k": 100_000,
        "l": "=",
        "m": "<<",
    }
    assert parse_yaml(text, "spec") == expected


def test_keys_are_text_as_they_are_written() -> None:
    assert parse_yaml("{1: a, 0.50: b, yes: c, null: d, 2020-01-01: e, '<<': f}", "spec") == {
        "1": "a", "0.50": "b", "yes": "c", "null": "d", "2020-01-01": "e", "<<": "f",
    }  # fmt: skip
    for key in ("[a]", "{a: 1}", "!!int 1", "!!binary a"):
        assert refused(f"? {key}\n: 1").startswith("spec:1: (document): is not valid YAML: line 1, column 3")


def test_merge_keys() -> None:
    text = "base: &base {x: 1, y: 2}\nmore: &more {y: 3, z: 4}\none: {<<: *base, x: 5}\ntwo: {<<: [*base, *more]}"
    data = parse_yaml(text, "spec")
    assert (data["one"], data["two"]) == ({"x": 5, "y": 2}, {"x": 1, "y": 2, "z": 4})
    for merged in ("1", "[1]", "x", "[[{a: 1}]]"):
        assert "<< must be followed by a mapping" in refused(f"a: {{<<: {merged}}}")
    assert "the key '<<' is repeated" in refused("{<<: {a: 1}, <<: {b: 1}}")


WIDE = {
    "directives": "".join(f"%TAG !a{i}! x\n" for i in range(200_000)) + "--- a",
    "after another line break": "".join(f"\r%TAG !a{i}! x" for i in range(200_000)) + "\r--- a",
    "anchors": f"[{','.join(f'&a{i} x' for i in range(100_000))}]",
    "merges": "a: &a {" + ",".join(f"k{i}: 1" for i in range(900)) + "}\nb: [" + "{<<: *a}," * 5_000 + "]",
    "merges of merges": "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 30)),
    "keys": "\n".join(f"k{i}: 1" for i in range(100_002)),
    "items": "bottom_mlp: [" + "x," * 100_000 + "]",
    "items by an alias": "bottom_mlp: [&x x," + "*x," * 100_000 + "]",
    "broken tables": "tables: [" + "{}," * 100_000 + "]",
    "broken features": "tables: [{features: [" + "{}," * 100_000 + "]}]",
    "unknown keys of tables": "tables: [" + ("{" + ",".join(f"k{i}: 1" for i in range(100)) + "},") * 1_000 + "]",
    "one key": "? " + "k" * 5_000_000 + "\n: 1",
    "open quote": "a: '" + "x\n" * 500_000,
}


@pytest.mark.parametrize("case", WIDE)
def test_hostile_text_is_refused_soon(case: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidDocument) as caught:
        read_text(WIDE[case], ModelSpec, source="spec", as_json=False)
    assert time.process_time() - started < 3
    assert len(str(caught.value)) < 5_000


@pytest.mark.parametrize(
    "data",
    [
        {"bottom_mlp": ["x"] * 1_000_000},
        {"bottom_mlp": [[]] * 1_000_000},
        {"tables": [{"features": [{}] * 500_000}]},
        {"tables": [{}] * 500_000},
    ],
)
def test_a_million_broken_values_are_not_a_million_errors(data: dict[str, list[object]]) -> None:
    with pytest.raises(ValidationError) as of_pydantic:
        ModelSpec.model_validate(data)
    assert of_pydantic.value.error_count() < 20
    with pytest.raises(InvalidDocument) as caught:
        read_text(json.dumps(data), ModelSpec, source="spec", as_json=True)
    assert len(caught.value.broken_rules) <= 21
