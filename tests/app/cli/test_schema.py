"""The published JSON Schemas say what the readers do."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from emplace.app.cli.config import Config
from emplace.placement.catalog import builtin_host, builtin_model, host_names, model_names
from emplace.placement.document import Document
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data
from tests.app.cli.command import Emplace, small_model

ROOT = Path(__file__).parents[3]
KINDS: dict[str, type[Document]] = {"model": ModelSpec, "host": HostSpec, "config": Config}
OTHERS: tuple[Any, ...] = (None, True, -1, 0, 3, 0.5, "x", "16GiB", [], ["x"], {}, {"x": 1})


def validator(kind: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs/reference/schemas" / f"{kind}.schema.json").read_text()))


def documents(kind: str) -> list[dict[str, Any]]:
    """Some that use most keys."""
    if kind == "host":
        dense = {"count": 2, "every": 16, "memory_bandwidth": "256GB/s", "network": "25Gbit/s", "cores": 40, "power_w": 500.0}
        found = [builtin_host(name).to_data() for name in ("dgx-h100", "zion", "cpu-dual-socket")]
        return [*found[:2], found[2] | {"dense_servers": dense}]
    if kind == "config":
        text = (ROOT / "examples" / "gate" / "emplace.toml").read_text()
        known = {"rule": "capacity", "reason": "a ticket", "until": "2999-01-01", "models": ["m1"]}
        return [tomllib.loads(text) | {"acknowledged": [known], "seed": 1, "sure": True, "nodes": 2}]
    model = small_model(together=[["users", "pages"]], dcn={"num_layers": 2}, interaction="dcn")
    model["tables"][0] |= {"access": {"zipf": 1.1}, "constraints": {"tiers": ["hbm"], "ranks": [0, 1]}}
    lengths = [{"lognormal": {"mean": 3.0, "sigma": 1.0}}, {"histogram": {"lengths": [1, 2], "weights": [0.5, 0.5]}}]
    lengths += [{"power_law": {"mean": 3.0, "alpha": 2.0, "max": 100}}, {"fixed": 3}]
    model["tables"][1]["features"] = [{"name": f"f{index}", "length": length} for index, length in enumerate(lengths)]
    pin = {"sharding_type": "table_wise", "ranks": [0]}
    return [model, small_model(tables=[small_model()["tables"][0] | {"constraints": {"pin": pin}}])]


def changed(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value left out, replaced by others, or with a key that nobody knows."""
    for path in list(_paths(document)):
        for other in OTHERS if path != ("schema_version",) else OTHERS[2:]:  # True equals 1
            yield f"{path} = {other!r}", _with(document, path, other)
        yield f"{path} left out", _with(document, path, ...)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def _with(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made: Any = copy.deepcopy(document)
    at = made
    for part in path[:-1]:
        at = at[part]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return dict(made)


def is_read(kind: str, document: dict[str, Any]) -> bool:
    try:
        from_data(document, KINDS[kind], source=kind)
    except InvalidDocument:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_what_the_command_prints(emplace_here: Emplace, kind: str) -> None:
    """Written anew by python -m tests.app.cli.stored_docs."""
    assert emplace_here("schema", kind).stdout == (ROOT / "docs/reference/schemas" / f"{kind}.schema.json").read_text()


def test_all_that_is_built_in_is_valid() -> None:
    for name in model_names():
        validator("model").validate(builtin_model(name).to_data())
    for name in host_names():
        validator("host").validate(builtin_host(name).to_data())


@pytest.mark.parametrize("kind", KINDS)
def test_an_editor_marks_nothing_that_the_reader_takes_and_nearly_all_that_it_refuses(kind: str) -> None:
    schema = validator(kind)
    refused, missed = 0, []
    for document in documents(kind):
        assert is_read(kind, document), kind
        for what, other in changed(document):
            valid, read = schema.is_valid(other), is_read(kind, other)
            assert valid or not read, f"{what}: read, but not valid"
            refused += not read
            missed += [what] if valid and not read else []
    assert refused > 300
    assert len(missed) < 0.1 * refused, missed
