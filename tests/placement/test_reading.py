"""Every bad document gets a message that names source, field, value and rule; quickly, and nothing else happens."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Fix
from emplace.placement.reading import MAX_DOCUMENT_BYTES, from_data, parse_yaml, read_file, read_text
from tests.placement.example_models import gpu_host_data, model_data

Change = Callable[[dict[str, Any]], None]


def broken_rules(data: Any, kind: type[ModelSpec] | type[HostSpec] = ModelSpec) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        from_data(data, kind, source="spec.yaml")
    assert all(line.startswith("spec.yaml: ") for line in str(caught.value).splitlines())
    return [str(broken) for broken in caught.value.broken_rules]


def refused(text: str, *, as_json: bool = False) -> str:
    started = time.process_time()
    with pytest.raises(InvalidDocument) as caught:
        read_text(text, ModelSpec, source="spec", as_json=as_json)
    assert time.process_time() - started < 2
    return str(caught.value)


def put(pointer: str, value: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        *parents, last = pointer.strip("/").split("/")
        place: Any = data
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[int(last) if isinstance(place, list) else last] = value

    return change


LENGTH = "/tables/0/features/0/length"


@pytest.mark.parametrize(
    ("pointer", "value", "broken"),
    [
        ("/colour", "red", "/colour: unknown key; remove it or correct its spelling (got 'red')"),
        ("/tables/0/dim", 4, "/tables/0/dim: unknown key; remove it or correct its spelling (got 4)"),
        ("/tables/0/num_embeddings", 0, "/tables/0/num_embeddings: must be greater than 0 (got 0)"),
        ("/tables/0/num_embeddings", -5, "/tables/0/num_embeddings: must be greater than 0 (got -5)"),
        ("/tables/0/num_embeddings", True, "/tables/0/num_embeddings: must be a whole number (got true)"),
        ("/tables/0/num_embeddings", 1.5, "/tables/0/num_embeddings: must be a whole number (got 1.5)"),
        ("/tables/0/num_embeddings", "1000", "/tables/0/num_embeddings: must be a whole number, this is text; write 1000 (got '1000')"),
        ("/tables/0/embedding_dim", 18, "/tables/0/embedding_dim: must be a multiple of 4 (got 18)"),
        ("/tables/0/data_type", "fp8", "/tables/0/data_type: must be 'fp32', 'fp16', 'bf16' or 'int8' (got 'fp8')"),
        ("/tables/2/name", "a", "/tables/2/name: must be unique, /tables/0/name has the same (got 'a')"),
        (
            "/tables/2/features/0/name",
            "fb2",
            "/tables/2/features/0/name: must be unique, /tables/1/features/1/name has the same (got 'fb2')",
        ),
        ("/tables/0/ids", {"measured": [0.5, 2]}, "/tables/0/ids/measured/1: must be less than or equal to 1 (got 2)"),
        ("/tables/0/ids", {"measured": [0.5, 0.2]}, "/tables/0/ids/measured: must sum to 1, they sum to 0.7"),
        ("/tables/0/ids", "sorted", "/tables/0/ids: must be hashed, by_frequency or"),
        (f"{LENGTH}", {"fixed": 1, "poisson": 2}, f"{LENGTH}: must be a mapping with exactly one key of fixed"),
        (f"{LENGTH}", 3, f"{LENGTH}: must be a mapping with exactly one key of fixed"),
        (f"{LENGTH}", {"poisson": float("nan")}, f"{LENGTH}/poisson: must be a finite number (got nan)"),
        (f"{LENGTH}", {"poisson": float("inf")}, f"{LENGTH}/poisson: must be"),
        (f"{LENGTH}", {"poisson": True}, f"{LENGTH}/poisson: must be a number (got true)"),
        (f"{LENGTH}", {"fixed": -1}, f"{LENGTH}/fixed: must be greater than or equal to 0 (got -1)"),
        (f"{LENGTH}", {"fixed": 10**30}, f"{LENGTH}/fixed: must be less than or equal to 1000000 (got 1000000000000000000000000000000)"),
        (
            f"{LENGTH}",
            {"histogram": {"lengths": [0, 1], "weights": [0.5, 0.4]}},
            f"{LENGTH}/histogram/weights: must sum to 1, they sum to 0.9 (got [0.5, 0.4])",
        ),
        (f"{LENGTH}", {"histogram": {"lengths": [0, 1], "weights": [1.0]}}, f"{LENGTH}/histogram/weights: must be one per length"),
        (
            f"{LENGTH}",
            {"histogram": {"lengths": [1, 1], "weights": [0.5, 0.5]}},
            f"{LENGTH}/histogram/lengths: must not name a length twice",
        ),
        (
            f"{LENGTH}",
            {"power_law": {"mean": 500, "alpha": 1, "max": 100}},
            f"{LENGTH}/power_law/mean: must be between 0.0001 and 50, as for every power law with alpha 1 on 0..100 (got 500.0)",
        ),
        (f"{LENGTH}", {"quantiles": {"1.5": 2}}, f"{LENGTH}/quantiles: needs at least one quantile, each above 0 and at most 1"),
        (f"{LENGTH}", {"quantiles": {"half": 2}}, f"{LENGTH}/quantiles: each key must be a number between 0 and 1, such as '0.5'"),
        ("/tables/0/access", {"zipf": -1}, "/tables/0/access/zipf: must be greater than 0 (got -1)"),
        ("/tables/0/access", "often", "/tables/0/access: must be uniform, {zipf: exponent} or"),
        ("/tables/0/access", {"icdf": [[0.5, 0.2]]}, "/tables/0/access/icdf: the hottest rows come first"),
        ("/tables/0/constraints", {"tiers": []}, "/tables/0/constraints/tiers: must have at least 1 item"),
        ("/tables/0/features/0/truncate", 0, "/tables/0/features/0/truncate: must be greater than 0 (got 0)"),
        ("/tables", [], "/tables: must have at least 1 item"),
        ("/local_batch_size", float("nan"), "/local_batch_size: must be"),
        ("/dense_features", 0, "/bottom_mlp: must be empty in a model without dense_features (got [32, 16])"),
        (
            "/interaction",
            "dot",
            "/interaction: dot needs every embedding_dim and the last width of bottom_mlp to be equal, they are 16, 32, 64",
        ),
        ("/dcn", {}, "/dcn: is only for interaction dcn"),
        ("/schema_version", 2, "/schema_version: must be 1 (got 2)"),
        (f"{LENGTH}", {"poisson": 500_001}, f"{LENGTH}/poisson: must be less than or equal to 500000"),
        ("/name", "-a", "/name: must be at most 200 letters, digits"),
        ("/name", ":a", "/name: must be at most 200 letters, digits"),
        ("/name", "a b/c", "/name: must be at most 200 letters, digits"),
    ],
)
def test_models(pointer: str, value: Any, broken: str) -> None:
    data = model_data()
    put(pointer, value)(data)
    found = broken_rules(data)
    assert len(found) == 1
    assert found[0].startswith(broken)


@pytest.mark.parametrize("spelled", ["1e-5", "2.5e-7", "1e1", "3e12"])
def test_what_is_to_be_written_instead_of_a_number_is_one_for_yaml(spelled: str) -> None:
    data = model_data()
    put(LENGTH, {"poisson": spelled})(data)
    (advice,) = re.findall("/poisson: must be a number, this is text; write (.*) \\(got", broken_rules(data)[0])
    assert yaml.safe_load(advice) == float(spelled)
    assert parse_yaml(advice, "spec") == float(spelled)


@pytest.mark.parametrize(
    ("pointer", "value", "broken"),
    [
        ("/node/ddr_capacity", 256, "/node/ddr_capacity: must be a size with a unit"),
        ("/node/ddr_capacity", "256", "/node/ddr_capacity: must be a size with a unit"),
        ("/node/network", "25Gbit", "/node/network: must be a rate with a unit"),
        ("/node/devices/0/fp32_flops", "15TB/s", "/node/devices/0/fp32_flops: must be a compute rate with a unit"),
        ("/node/devices/0/hbm_capacity", None, "/node/devices/0: a cuda device needs hbm_capacity"),
        ("/node/devices/0/type", "cpu", "/node/devices/0: a cpu device has no hbm_capacity and no system_link"),
        ("/node/devices/0/count", 0, "/node/devices/0/count: must be greater than 0"),
        ("/node/devices/0/power_w", True, "/node/devices/0/power_w: must be a number"),
        ("/node/network", "0.5B/s", "/node/network: must be at least 1B/s and at most 1000000TB/s (got '0.5B/s')"),
        ("/node/intra_node_link", "1000001TB/s", "/node/intra_node_link: must be at least 1B/s and at most 1000000TB/s"),
        ("/node/devices/0/memory_bandwidth", "0." + "0" * 300 + "1GB/s", "/node/devices/0/memory_bandwidth: must be at least 1B/s"),
        ("/node/devices/0/fp32_flops", "0GFLOP/s", "/node/devices/0/fp32_flops: must be at least 0.000000001GFLOP/s"),
        ("/node/ddr_capacity", "129TiB", "/node/ddr_capacity: must be at most 128TiB (got '129TiB')"),
        ("/node/devices/0/hbm_capacity", "9" * 30 + "TiB", "/node/devices/0/hbm_capacity: must be at most 128TiB"),
        ("/node/devices/0/count", 16_385, "/node/devices/0/count: must be less than or equal to 16384 (got 16385)"),
        ("/remote_servers/count", 10**12, "/remote_servers/count: must be less than or equal to 16384"),
        ("/node/ddr_reserve", "5GiB", "/node/ddr_reserve: must be less than ddr_capacity"),
        ("/node/devices/0/hbm_reserve", "1GiB", "/node/devices/0/hbm_reserve: must be less than hbm_capacity"),
        ("/remote_servers/ddr_reserve", "9GiB", "/remote_servers/ddr_reserve: must be less than ddr_capacity"),
        ("/remote_servers/kind", "gpu", "/remote_servers/kind: must differ from the kinds of the node's devices (got 'gpu')"),
    ],
)
def test_hosts(pointer: str, value: Any, broken: str) -> None:
    data = gpu_host_data()
    put(pointer, value)(data)
    found = broken_rules(data, HostSpec)
    assert len(found) == 1
    assert found[0].startswith(broken)


@pytest.mark.parametrize("part", ["node", "remote_servers"])
def test_a_server_draws_no_more_when_it_does_nothing(part: str) -> None:
    data = gpu_host_data()
    data[part] |= {"power_w": 400.0, "idle_power_w": 400.0}
    assert from_data(data, HostSpec, source="host").name == "gpus"
    data[part]["idle_power_w"] = 401.0
    with pytest.raises(InvalidDocument, match=f"/{part}/idle_power_w: must be at most power_w, 400"):
        from_data(data, HostSpec, source="host")


def test_a_missing_key_is_named() -> None:
    data = model_data()
    del data["tables"][1]["num_embeddings"]
    assert broken_rules(data) == ["/tables/1/num_embeddings: is required, in tables[b]"]


def test_at_most_ten_thousand_tables() -> None:
    table = {"num_embeddings": 10, "embedding_dim": 4}
    tables = [table | {"name": f"t{i}", "features": [{"name": f"f{i}", "length": {"fixed": 1}}]} for i in range(10_001)]
    assert broken_rules(model_data(tables=tables))[0].startswith("/tables: must have at most 10000 items")
    assert len(ModelSpec.model_validate(model_data(tables=tables[:-1])).tables) == 10_000


def test_many_problems_are_counted() -> None:
    tables = [{"name": f"t{i}"} for i in range(50)]
    found = broken_rules(model_data(tables=tables))
    assert len(found) == 21
    assert found[-1] == "(document): and 130 more problems"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "is empty, must be a mapping"),
        ("hello", "must be a mapping (got 'hello')"),
        ("- 1\n- 2", "must be a mapping (got [1, 2])"),
        ("name: a\nname: b", "line 2, column 1: the key 'name' is repeated"),
        ("a: [1, 2", "is not valid YAML: line 2"),
        ("a: 1\n---\nb: 2", "found another document"),
        ("a: !!python/object/apply:os.system [id]", "the tag '!!python/object/apply:os.system' does not fit here"),
        ("a: \x00", "control characters are not allowed at character 3"),
        ("? [a, b]\n: 1", "a key must be a plain value"),
        ("&a {b: *a}", "contains itself through an alias"),
        ("a: &a [*a]", "contains itself through an alias"),
        ("a: *nobody", "found undefined alias"),
        ("[" * 500_000, "is nested more than 50 levels deep"),
        ("{a: " * 500_000, "is nested more than 50 levels deep"),
        ("- " * 500_000, "is nested more than 50 levels deep"),
        ("\n".join(" " * depth + "a:" for depth in range(1_000)), "is nested more than 50 levels deep"),
        ("local_batch_size: " + "9" * 5_000, "is not valid YAML"),
        ("a: " + "x" * MAX_DOCUMENT_BYTES, f"must be at most {MAX_DOCUMENT_BYTES} bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_that_is_no_document(text: str, rule: str) -> None:
    message = refused(text)
    assert rule in message
    assert len(message) < 500


def test_aliases_that_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    assert "has more than 4000000 values once its aliases are written out" in refused("\n".join(lines))


def test_aliases_that_do_not() -> None:
    text = yaml.safe_dump(model_data(), sort_keys=False).replace("length:\n      fixed: 2", "length: &two\n      fixed: 2")
    assert "&two" in text
    read = read_text(text.replace("length:\n      poisson: 3", "length: *two"), ModelSpec, source="spec", as_json=False)
    assert read.tables[1].features[0].lengths.mean == 2


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('{"local_batch_size": NaN}', "NaN is not a number that JSON allows"),
        ('{"local_batch_size": -Infinity}', "-Infinity is not a number that JSON allows"),
        ('{"a": 1, "a": 2}', "the key 'a' is repeated"),
        ("{", "is not valid JSON"),
        ("[" * 500_000, "is nested too deep"),
        ('{"a":' * 500_000, "is nested too deep"),
        ('{"local_batch_size": ' + "9" * 5_000 + "}", "a number has 5000 digits"),
        ("[" + "1," * 400_000 + "1]", "must be a mapping (got [1, 1, 1, 1, 1, 1, ...])"),
    ],
    ids=lambda value: value[:20],
)
def test_json_that_is_no_document(text: str, rule: str) -> None:
    assert rule in refused(text, as_json=True)


def test_the_deepest_yaml() -> None:
    assert "must be a mapping" in refused("[" * 50 + "]" * 50)
    assert "is nested more than 50 levels deep" in refused("[" * 51 + "]" * 51)


def test_endless_yaml_is_left_early() -> None:
    with pytest.raises(InvalidDocument, match="too many for YAML; write it as JSON"):
        read_text("[" + "1," * 1_100_000 + "1]", ModelSpec, source="spec", as_json=False)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(InvalidDocument, match=r"model\.yaml:1: \(document\): must be UTF-8 text"):
        read_file(path, ModelSpec)
    with pytest.raises(InvalidDocument, match=r"nowhere\.yaml: .*No such file"):
        read_file(tmp_path / "nowhere.yaml", ModelSpec)
    with pytest.raises(InvalidDocument, match="can't be read: Is a directory"):
        read_file(tmp_path, ModelSpec)
    with path.open("wb") as file:
        file.truncate(50 * 10**6)
    with pytest.raises(InvalidDocument, match="50000000 bytes"):
        read_file(path, ModelSpec)


def test_yaml_and_json_are_the_same_document(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(model_data()))
    (tmp_path / "m.json").write_text(json.dumps(model_data()))
    from_yaml, from_json = (read_file(tmp_path / name, ModelSpec) for name in ("m.yaml", "m.json"))
    assert from_yaml == from_json
    assert from_yaml.content_digest() == from_json.content_digest()


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_ANY = st.recursive(_PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3), max_leaves=8)
_PLACES = ["/tables/0", "/tables/0/access", "/tables/0/constraints", LENGTH, "/tables", "/bottom_mlp", "/optimizer", "/tables/1/features"]


@given(place=st.sampled_from(_PLACES), value=_ANY)
@settings(max_examples=300)
def test_anything_anywhere_is_a_document_or_a_problem_there(place: str, value: Any) -> None:
    data = model_data()
    put(place, value)(data)
    assert all(broken.rule and broken.pointer.startswith(place) for broken in _broken_if_any(data))


def _broken_if_any(data: dict[str, Any]) -> list[BrokenRule]:
    try:
        from_data(data, ModelSpec, source="spec")
    except InvalidDocument as error:
        return error.broken_rules
    return []


def test_what_only_python_can_hand_over_is_refused_in_words() -> None:
    for value in (10**5_000, -(10**5_000), float("nan"), "\ud800", object(), {1: 2}):
        for data in (model_data(local_batch_size=value), model_data(name=value), model_data(tables=[value])):
            assert broken_rules(data)
    assert "must be a whole number" in broken_rules(model_data(local_batch_size="9" * 5_000))[0]


def test_a_patch_is_nested_no_deeper_than_it_can_be_written() -> None:
    for depth in (51, 300, 900):
        patch = '{"a":' * depth + "1" + "}" * depth
        with pytest.raises(InvalidDocument, match="spec:1: /patch: must be nested at most 50 levels deep"):
            read_text(f'{{"change": "a", "kind": "b", "verified": true, "patch": {patch}}}', Fix, source="spec", as_json=True)
