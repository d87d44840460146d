"""Documents as nobody should write them: small changes of a good text, and texts that grow without end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

GOOD_MODEL = """\
schema_version: 1
name: small
description: every spelling that a model knows
local_batch_size: 512
dense_features: 13
bottom_mlp: [64, 16]
top_mlp: [64, 1]
interaction: cat
optimizer: adam
tables:
  - &first
    name: users
    num_embeddings: 100000
    embedding_dim: 64
    data_type: fp16
    features: [{name: user, length: {fixed: 1}}, {name: friends, length: {lognormal: {mean: 30, sigma: 1.1}}, truncate: 100}]
    access: {zipf: 1.05}
  - name: pages
    num_embeddings: 5000
    embedding_dim: 16
    features:
      - name: page
        length: {poisson: 20}
      - name: link
        length: {power_law: {mean: 28, alpha: 1.2, max: 1000}}
    access: {icdf: [[0.1, 0.7], [0.5, 0.9]]}
    constraints: {tiers: [hbm, ddr], sharding_types: [table_wise, row_wise], compute_kernels: [fused], ranks: [0, 1]}
  - name: words
    num_embeddings: 300
    embedding_dim: 8
    features: [{name: word, length: {quantiles: {"0.5": 2, "0.99": 40}}}]
    constraints: {pin: {sharding_type: table_wise, ranks: [1]}}
  - <<: *first
    name: groups
    data_type: int8
    features: [{name: group, length: {histogram: {lengths: [0, 1, 2], weights: [0.5, 0.3, 0.2]}}}]
apart: [[users, words]]
"""
_SCALARS = (
    "!!timestamp x", "!!bool maybe", "!!int x", "!!int ''", "!!float ''", "!!float x", "!!float 1e5", "!!binary x", "!!set {a}", "!!omap [a: 1]",
    "!!timestamp 2020-01-01", "!!null x", "!!python/name:os.system", "!own x", "!<x> y", "! 5", "!!str", "!!map {}", "!!seq []", "&a", "*a", "&a x", "*b",
    "&c [*c]", "2020-01-01", "2020-13-45", "2020-01-01 99:99:99", "1e999", "-1e999", ".inf", "-.inf", ".nan", "NaN", "Infinity", "1e-320", "1e308",
    "0", "-0", "-0.0", "-1", "1", "4", "2", "0.1", "1.5", "1e3", "9" * 20, "9" * 300, "9" * 500, "0x_", "0b_", "0o7", "017", "1_000", "1:30", "1:30:00.5", "190:20:30.15",
    "9:" * 190 + "1", "null", "~", "", "true", "no", "yes", "on", "=", "<<", "''", '""', "'", '"', '"\\ud800"', '"\\x00"', '"\\U0010FFFF"', "\ufeff", "\u2028", "\x85",
    "\x00", "\x1b[31m", "\U0001f600", "é", "[]", "{}", "[[]]", "[1, 2]", "{a: 1}", "[", "{", "]", "}", ",", ":", "-", "- ", "? ", "? a", ": ", "|", ">-", "%", "%TAG ! x",
    "%YAML 9.9", "---", "...", "--- a", "#", "@", "`", "\t", "\r", "{<<: *a}", "<<: {a: 1}", "<<: 1", "{fixed: 1}", "{fixed: -1}", "{poisson: 1e-300}", "{poisson: 500000}",
    "{lognormal: {mean: 1e-300, sigma: 5}}", "{lognormal: {mean: 500000, sigma: 1e-300}}", "{power_law: {mean: 28, alpha: 20, max: 1000000}}",
    "{power_law: {mean: 0.001, alpha: 1e-9, max: 1}}", "{quantiles: {0.5: 2}}", "{quantiles: {'1e-320': 1, '1': 1000000}}", "{quantiles: {nan: 1}}", "{quantiles: {}}",
    "{histogram: {lengths: [0], weights: [1.0]}}", "{histogram: {lengths: [0, 1], weights: [1e-320, 1.0]}}", "{histogram: {lengths: [], weights: []}}",
    "{zipf: 10}", "{zipf: 1e-320}", "{zipf: 1.0000000001}", "{icdf: [[1e-320, 1]]}", "{icdf: [[0, 0], [1, 1]]}", "{icdf: [[1e-320, 1e-320], [1, 1]]}", "{icdf: [[0.5, 0.5, 0.5]]}",
    "uniform", "int8", "fp16", "adam", "1000000000000", "65536", "40GiB", "0B", "1B/s", "999999TB/s", "5%", "99.999%", "x" * 300, "a b", "-a", "row_wise", "{tiers: [ddr]}",
    "{pin: {sharding_type: table_wise, ranks: [0]}}", "{pin: {sharding_type: row_wise}}", "{ranks: [99999999999]}", "[a, b]", "[[a, b]]",
)  # fmt: skip
_WORD = re.compile(r"[^\s\[\]{},:\"]+")
_BYTES = (b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\xed\xa0\x80", b"\xc3", b"\x80", b"\xf4\x90\x80\x80", b"\x0b", b"\x7f")


def mutated(rng: random.Random, text: str) -> bytes:
    """The text after one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 2, 2, 3, 4))):
        text = rng.choice(_CHANGES)(rng, text)
    data = text.encode(rng.choice(("utf-8",) * 200 + ("utf-16", "utf-8-sig", "latin-1")), "replace")
    if rng.random() < 0.02:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(_BYTES) + data[at + rng.randrange(3) :]
    return data


def _another_value(rng: random.Random, text: str) -> str:
    words = list(_WORD.finditer(text))
    if not words:
        return text + rng.choice(_SCALARS)
    word = rng.choice(words)
    return text[: word.start()] + rng.choice(_SCALARS) + text[word.end() :]


def _another_word(rng: random.Random, text: str) -> str:
    """Another word of the text itself: keys and values in wrong places."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    one, other = rng.choice(words), rng.choice(words)
    return text[: one.start()] + other[0] + text[one.end() :]


def _before_a_word(rng: random.Random, text: str) -> str:
    words = list(_WORD.finditer(text))
    at = rng.choice(words).start() if words else 0
    return text[:at] + rng.choice(_SCALARS) + " " + text[at:]


def _a_character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("\t\n\r :,-[]{}'\"#&*!|>%@\\\x00\x85\u2028é\U0001f600") + text[at + rng.randrange(2) :]


def _lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            lines[at] = " " * rng.randrange(1, 4) + lines[at]
        case 3:
            lines[at] = lines[at].replace(" ", "", 1)
        case _:
            lines.insert(at, rng.choice(_SCALARS) + "\n")
    return "".join(lines)


def _cut(rng: random.Random, text: str) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.randrange(1, 40) :] if rng.random() < 0.7 else text[:start]


def _deeper(rng: random.Random, text: str) -> str:
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word, depth = rng.choice(words), rng.choice((1, 3, 49, 60, 2000))
    opening, closing = rng.choice((("[", "]"), ("{a: ", "}"), ('{"a": ', "}")))
    return text[: word.start()] + opening * depth + word[0] + closing * depth + text[word.end() :]


_CHANGES = (_another_value,) * 6 + (_another_word,) * 2 + (_before_a_word, _a_character, _a_character, _lines, _lines, _cut, _deeper)


ENDLESS: dict[str, Callable[[int], str]] = {
    "yaml: list": lambda size: f"[{'1,' * (size // 2)}1]",
    "yaml: text list": lambda size: f"bottom_mlp: [{'x,' * (size // 2)}]",
    "yaml: block list": lambda size: "a:\n" + "- x\n" * (size // 4),
    "yaml: keys": lambda size: "".join(f"a{number}: 1\n" for number in range(size // 10)),
    "yaml: deep flow": lambda size: "[" * size,
    "yaml: deep block": lambda size: "- " * (size // 2),
    "yaml: deep keys": lambda size: "? " * (size // 2),
    "yaml: flow pairs": lambda size: "[" + "a: b," * (size // 5) + "]",
    "yaml: anchors": lambda size: "[" + ",".join(f"&a{number} x" for number in range(size // 10)) + "]",
    "yaml: aliases": lambda size: "[&a x," + "*a ," * (size // 4) + "]",
    "yaml: bomb": lambda _: "a0: &a0 [x]\n" + "".join(f"a{number}: &a{number} [{','.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 60)),
    "yaml: merges": lambda size: "a: &a {" + ",".join(f"k{number}: 1" for number in range(5000)) + "}\nb: [" + "{<<: *a}," * (size // 9) + "]",
    "yaml: tags": lambda size: "[" + "!!int x," * (size // 8) + "]",
    "yaml: directives": lambda size: "".join(f"%TAG !a{number}! x\n" for number in range(size // 16)) + "--- a",
    "yaml: directives after carriage returns": lambda size: "".join(f"%TAG !a{number}! x\r" for number in range(size // 16)) + "--- a",
    "yaml: documents": lambda size: "--- a\n" * (size // 6),
    "yaml: comments": lambda size: "# x\n" * (size // 4) + "a: 1",
    "yaml: blank lines": lambda size: "\n" * size,
    "yaml: spaces": lambda size: "a:" + " " * size,
    "yaml: tabs": lambda size: "a:\n" + "\t" * size,
    "yaml: open quote": lambda size: "a: '" + "x\n" * (size // 2),
    "yaml: quoted breaks": lambda size: 'a: "' + "\n" * size + '"',
    "yaml: escapes": lambda size: 'a: "' + "\\u00e9" * (size // 6) + '"',
    "yaml: literal": lambda size: "a: |\n" + "  x\n" * (size // 4),
    "yaml: folded": lambda size: "a: >\n" + "  x\n\n" * (size // 5),
    "yaml: plain over lines": lambda size: "a: x\n" + "  x\n" * (size // 4),
    "yaml: long key": lambda size: "? " + "k" * size + "\n: 1",
    "yaml: long number": lambda size: "local_batch_size: " + "9" * size,
    "yaml: long sexagesimal": lambda size: "local_batch_size: " + "1:" * (size // 2) + "1",
    "yaml: long hexadecimal": lambda size: "local_batch_size: 0x" + "f" * size,
    "yaml: long name": lambda size: "name: " + "x" * size,
    "yaml: wide text": lambda size: 'description: "' + "\U0001f600" * (size // 4) + '"',
    "yaml: empty tables": lambda size: "tables: [" + "{}," * (size // 3) + "]",
    "json: list": lambda size: f"[{'1,' * (size // 2)}1]",
    "json: bad widths": lambda size: '{"bottom_mlp": [' + '"x",' * (size // 4) + "1]}",
    "json: lists": lambda size: '{"bottom_mlp": [' + "[]," * (size // 3) + "1]}",
    "json: empty tables": lambda size: '{"tables": [' + "{}," * (size // 3) + "{}]}",
    "json: empty features": lambda size: '{"tables": [{"features": [' + "{}," * (size // 3) + "{}]}]}",
    "json: four million values": lambda size: '{"tables": [{"features": [' + "{}," * min(size // 3, 1_900_000) + "{}]}]}",
    "json: four million numbers": lambda size: '{"bottom_mlp": [' + "1," * min(size // 2, 3_900_000) + '"x"]}',
    "json: four million texts": lambda size: '{"bottom_mlp": [' + '"é",' * min(size // 5, 3_900_000) + '"x"]}',
    "json: keys": lambda size: "{" + ",".join(f'"a{number}":1' for number in range(size // 13)) + "}",
    "json: keys of tables": lambda size: '{"tables": [' + ",".join(['{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}'] * (size // 38)) + "]}",
    "json: keys of few tables": lambda _: '{"tables": [' + ",".join(["{" + ",".join(f'"a{key}":1' for key in range(380)) + "}"] * 9_900) + "]}",
    "json: repeated key": lambda size: '{"x": [' + '{"a": 1},' * (size // 9) + '{"a": 1, "a": 2}]}',
    "json: deep lists": lambda size: "[" * size,
    "json: deep mappings": lambda size: '{"a":' * (size // 5),
    "json: long number": lambda size: '{"local_batch_size": ' + "9" * size + "}",
    "json: long key": lambda size: '{"' + "k" * size + '": 1}',
    "json: open text": lambda size: '{"a": "' + "x" * size,
    "json: escapes": lambda size: '{"a": "' + "\\u00e9" * (size // 6) + '"}',
    "json: half characters": lambda size: "[" + '"\\ud800",' * (size // 9) + "1]",
    "json: blanks": lambda size: " " * size + "{}",
}  # fmt: skip
"""Texts of about so many bytes; the first word says of which kind."""
