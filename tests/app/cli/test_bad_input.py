"""Whatever is wrong, stderr names the file, the field and the rule, the exit code is 2, and nothing is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.app.cli.command import Emplace, small_model


def _with_table(**changes: Any) -> dict[str, Any]:
    model = small_model()
    model["tables"][0] |= changes
    return model


def _with_length(length: Any) -> dict[str, Any]:
    return _with_table(features=[{"name": "user", "length": length}])


BAD_MODELS: dict[str, tuple[Any, str, str]] = {
    "unknown key": (_with_table(dimension=64), "/tables/0/dimension", "unknown key"),
    "zero": (_with_table(num_embeddings=0), "/tables/0/num_embeddings", "greater than 0"),
    "negative": (_with_table(embedding_dim=-4), "/tables/0/embedding_dim", "greater than 0"),
    "repeated name": (_with_table(name="pages"), "", "must be unique"),
    "half a histogram": (
        _with_length({"histogram": {"lengths": [0, 1], "weights": [0.2, 0.3]}}),
        "/tables/0/features/0/length",
        "sum to 1",
    ),
    "no such length": (_with_length({"gaussian": 3}), "/tables/0/features/0/length", "exactly one key"),
    "missing": ({key: value for key, value in small_model().items() if key != "tables"}, "/tables", "is required"),
    "a list": ([1, 2], "", "must be a mapping"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_bad_model_is_named_with_field_and_rule(emplace_here: Emplace, tmp_path: Path, case: str) -> None:
    data, pointer, rule = BAD_MODELS[case]
    (tmp_path / "bad.json").write_text(json.dumps(data))
    _refused(emplace_here("check", "bad.json", "--host", "dgx-h100"), "bad.json", pointer, rule)


def test_too_many_tables(emplace_here: Emplace, tmp_path: Path) -> None:
    table = small_model()["tables"][0]
    tables = [table | {"name": f"t{i}", "features": [{"name": f"f{i}", "length": {"fixed": 1}}]} for i in range(10_001)]
    (tmp_path / "many.json").write_text(json.dumps(small_model(tables=tables)))
    _refused(emplace_here("plan", "many.json", "--host", "dgx-h100"), "many.json", "/tables", "10000")


def _spelled_as(text: str, instead: str) -> str:
    """The small model in YAML, with one thing spelled otherwise."""
    spelled = yaml.safe_dump(small_model(), default_flow_style=True, width=10_000)
    assert text in spelled
    return spelled.replace(text, instead)


BAD_TEXTS = {
    "nan.json": (json.dumps(small_model()).replace("512", "NaN"), "NaN"),
    "nan.yaml": ("schema_version: .nan\n", "/schema_version"),
    "torn.json": ('{"name": ', "not valid JSON"),
    "torn.yaml": ("name: [", "not valid YAML"),
    "scalar.yaml": ("just words", "must be a mapping"),
    "empty.yaml": ("", "is empty, must be a mapping"),
    "exponent.yaml": (
        _spelled_as("local_batch_size: 512", "local_batch_size: 1e3"),
        "must be a whole number, this is text; write 1000 (got '1e3')",
    ),
    "short float.yaml": (_spelled_as("poisson: 20", "poisson: 1e1"), "/poisson: must be a number, this is text; write 10.0 (got '1e1')"),
    "truth.yaml": (_spelled_as("local_batch_size: 512", "local_batch_size: yes"), "must be a whole number (got true)"),
    "date.yaml": (
        _spelled_as("name: small", "name: 2020-01-01"),
        "date.yaml:1: /name: is a date; put it in quotes to make it text (got 2020-01-01)",
    ),
    "spaced.yaml": (_spelled_as("name: small", "name: a small one"), "/name: must be at most 200 letters, digits"),
    "none.yaml": (_spelled_as("bottom_mlp: [64]", "bottom_mlp: null"), "/bottom_mlp: must be a list (got null)"),
    "no width.yaml": (_spelled_as("top_mlp: [64, 1]", "top_mlp: []"), "/top_mlp: must have at least 1 item, has 0"),
    "pairs.yaml": (_spelled_as("name: users", "name: users, access: {icdf: [[0.5, 0.6], [0.4, 0.9]]}"), "(got [[0.5, 0.6], [0.4, 0.9]])"),
    "text tables.yaml": (_spelled_as("tables: [", "tables: [x, "), "/tables/0: must be a mapping (got 'x')"),
    "repeated.yaml": ("name: a\nname: b\n", "repeated"),
    "bomb.yaml": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)),
        "aliases",
    ),
    "tagged.yaml": ("name: !!python/object/apply:os.getcwd []\n", "tagged.yaml:1: /name: is not valid YAML"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_text_that_is_no_document(emplace_here: Emplace, tmp_path: Path, name: str) -> None:
    text, rule = BAD_TEXTS[name]
    (tmp_path / name).write_text(text)
    _refused(emplace_here("check", name, "--host", "dgx-h100"), name, rule)


def test_a_file_of_50_megabytes(emplace_here: Emplace, tmp_path: Path) -> None:
    with (tmp_path / "huge.yaml").open("w") as file:
        file.truncate(50 * 2**20)
    _refused(emplace_here("check", "huge.yaml", "--host", "dgx-h100"), "huge.yaml", "at most")


def test_a_host_with_a_bare_number(emplace_here: Emplace, tmp_path: Path) -> None:
    host = json.loads(emplace_here("hosts", "dgx-h100", "--format", "json").stdout)
    host["node"]["ddr_capacity"] = 16
    (tmp_path / "host.json").write_text(json.dumps(host))
    _refused(emplace_here("check", "ncf", "--host", "host.json"), "host.json", "/node/ddr_capacity", "unit")


@pytest.mark.parametrize(("key", "value", "limit"), [("ddr_capacity", "99999999TiB", "128TiB"), ("network", "0.5B/s", "1B/s")])
def test_a_host_beyond_the_limits(emplace_here: Emplace, tmp_path: Path, key: str, value: str, limit: str) -> None:
    host = json.loads(emplace_here("hosts", "dgx-h100", "--format", "json").stdout)
    host["node"][key] = value
    (tmp_path / "host.json").write_text(json.dumps(host))
    _refused(emplace_here("check", "ncf", "--host", "host.json"), "host.json", f"/node/{key}", value, limit)


def test_a_host_with_too_many_devices(emplace_here: Emplace, tmp_path: Path) -> None:
    host = json.loads(emplace_here("hosts", "dgx-h100", "--format", "json").stdout)
    host["node"]["devices"][0]["count"] = 16_384
    (tmp_path / "host.json").write_text(json.dumps(host))
    _refused(emplace_here("check", "ncf", "--host", "host.json", "--nodes", "2"), "at most 16384", "32768 devices of 2 node(s) of dgx-h100")


def test_every_wrong_model_is_named(emplace_here: Emplace, tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(json.dumps(_with_table(num_embeddings=0)))
    _refused(emplace_here("check", "one.json", "two.json", "three.json", "--host", "dgx-h100"), "one.json", "two.json", "three.json")


USAGE = {
    "no such command": (["plann"], "plann"),
    "no such option": (["plan", "ncf", "--hosts", "dgx-h100"], "--hosts"),
    "no host": (["plan", "ncf"], "--host"),
    "no such host": (["plan", "ncf", "--host", "dgx"], "dgx-h100"),
    "no such tier": (["plan", "ncf", "--host", "dgx-h100", "--tiers", "hbm,ssd"], "ssd"),
    "no such format": (["check", "ncf", "--host", "dgx-h100", "--format", "xml"], "'--format': 'xml' is not one of 'text', 'json'"),
    "no number": (["plan", "ncf", "--host", "dgx-h100", "--ranks", "two"], "two"),
    "no ranks": (["plan", "ncf", "--host", "dgx-h100", "--ranks", "0"], "/ranks"),
    "too many ranks": (["plan", "ncf", "--host", "dgx-h100", "--ranks", "9"], "devices"),
    "uneven ranks": (["plan", "ncf", "--host", "dgx-h100", "--nodes", "2", "--ranks", "3"], "multiple"),
    "no time": (["plan", "ncf", "--host", "dgx-h100", "--work-limit", "0"], "/work_limit"),
    "not a number": (["plan", "ncf", "--host", "dgx-h100", "--gap", "nan"], "/gap"),
    "a reserve beyond every memory": (["plan", "ncf", "--host", "dgx-h100", "--hbm-reserve", "9" * 400 + "GiB"], "128TiB"),
    "negative budget": (["check", "ncf", "--host", "dgx-h100", "--max-step-time-us", "-1"], "/max_step_time_us"),
    "half a baseline": (["check", "ncf", "--host", "dgx-h100", "--max-regression", "5"], "--baseline"),
    "no plan": (["audit", "nowhere.json"], "nowhere.json"),
    "not a plan": (["audit", "."], "can't be read"),
    "a time that is not a number": (
        ["calibrate", "plan.json", "--measured-step-ms", "nan"],
        "'--measured-step-ms': must be a finite number",
    ),
    "an endless time": (["calibrate", "plan.json", "--measured-step-ms", "inf"], "'--measured-step-ms': must be a finite number"),
    "a margin that is not a number": (["check", "--init", "--margin", "nan"], "'--margin': must be a finite number"),
    "half a node": (["size", "ncf", "--max-nodes", "1.5"], "'--max-nodes': must be a whole number (got '1.5')"),
    "no nodes": (["size", "ncf", "--max-nodes", "0"], "'--max-nodes': must be greater than or equal to 1 (got '0')"),
    "a seed below all": (["run", "plan.json", "--seed", "-1"], "'--seed': must be greater than or equal to 0"),
    "a seed above all": (["profile", "--quick", "--seed", str(2**31)], "'--seed': must be less than or equal to 2147483647"),
    "part of a byte": (["plan", "ncf", "--host", "dgx-h100", "--hbm-reserve", "1.1GiB"], "/hbm_reserve: must be a whole number of bytes"),
    "no service": (["check", "ncf", "--host", "dgx-h100", "--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_wrong_command_line(emplace_here: Emplace, case: str) -> None:
    arguments, named = USAGE[case]
    _refused(emplace_here(*arguments), named)


def test_a_key_that_no_header_carries_is_refused(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_API_KEY", "schlüssel")
    asked = ("check", "ncf", "--host", "dgx-h100", "--server", "http://127.0.0.1:9")
    _refused(emplace_here(*asked), "EMPLACE_API_KEY is no key of an Emplace service: it has letters that a header can't carry")


def test_without_a_command_there_is_help(emplace_here: Emplace) -> None:
    done = emplace_here()
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("Usage: emplace")


def test_the_process_ends_alike(emplace: Emplace) -> None:
    _refused(emplace("check", "ncf", "--host", "dgx-h100", "--gap", "1"), "--gap")


def test_a_result_that_cannot_be_written(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = emplace_here("check", "ncf", "--host", "dgx-h100", "--out", "file/report.txt")
    assert done.returncode == 2
    assert "file/report.txt" in done.stderr
    assert "Traceback" not in done.stderr


def _refused(done: Any, *named: str) -> None:
    assert done.returncode == 2, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.startswith(("fits", "does not fit", "over budget", "undecided"))]
    assert "Traceback" not in done.stderr
    for text in named:
        assert text in done.stderr
