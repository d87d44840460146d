"""docs/reference/spec.md: its examples are valid, and it names every key and every value that a document may have."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from emplace.placement.access import ACCESS_SPELLINGS, Access
from emplace.placement.catalog import LOCAL_HOST, host_names, model_names
from emplace.placement.document import Document
from emplace.placement.host import MAX_RANKS, DeviceType, HostSpec
from emplace.placement.id_order import ID_ORDERS, IdOrder
from emplace.placement.lengths import LENGTH_SPELLINGS, MAX_LENGTH, FeatureLength
from emplace.placement.model import ComputeKernel, DataType, Interaction, ModelSpec, Optimizer, ShardingType, Tier
from emplace.placement.reading import read_text
from emplace.placement.units import MAX_SIZE_BYTES, format_size

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n# (\w+)\n(.*?)```", TEXT, flags=re.DOTALL)
KINDS: dict[str, type[ModelSpec] | type[HostSpec]] = {"model": ModelSpec, "host": HostSpec}
WORDS = ("uniform", "hashed", "by_frequency")
SPELLINGS = [line.split("`")[1] for line in TEXT.splitlines() if line.startswith(("| `{", *(f"| `{word}`" for word in WORDS)))]


def test_there_are_examples_of_both() -> None:
    assert [kind for kind, _ in BLOCKS] == ["model", "host"]
    assert TEXT.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize(("kind", "text"), BLOCKS, ids=[kind for kind, _ in BLOCKS])
def test_examples_are_valid(kind: str, text: str) -> None:
    spec = read_text(text, KINDS[kind], source="docs/reference/spec.md", as_json=False)
    assert read_text(yaml.safe_dump(spec.to_data()), KINDS[kind], source="again", as_json=False) == spec


def test_every_spelling_is_shown_and_valid() -> None:
    shown = set()
    for text in SPELLINGS:
        value = yaml.safe_load(text)
        spelling = value if isinstance(value, str) else next(iter(value))
        kinds: list[tuple[Any, tuple[str, ...]]] = [(FeatureLength, LENGTH_SPELLINGS), (Access, ACCESS_SPELLINGS), (IdOrder, ID_ORDERS)]
        [kind] = [kind for kind, spellings in kinds if spelling in spellings]
        TypeAdapter(kind).validate_python(value)
        shown.add(spelling)
    assert shown == {*LENGTH_SPELLINGS, *ACCESS_SPELLINGS, *ID_ORDERS}


def documents_in(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return keys_of(annotation)
    return set().union(*(documents_in(part) for part in get_args(annotation)))


def keys_of(document: type[BaseModel]) -> set[type[BaseModel]]:
    return {document}.union(*(documents_in(field.annotation) for field in document.model_fields.values()))


@pytest.mark.parametrize("document", [ModelSpec, HostSpec])
def test_every_key_is_explained(document: type[BaseModel]) -> None:
    keys = {key for part in keys_of(document) for key in part.model_fields}
    assert [key for key in sorted(keys) if not re.search(rf"[`{{ ]{key}[`:]", TEXT)] == []
    assert len(keys) > 15


@pytest.mark.parametrize("values", [DataType, Optimizer, Interaction, Tier, ShardingType, ComputeKernel, DeviceType])
def test_every_value_is_listed(values: type[Enum]) -> None:
    assert [value.value for value in values if f"`{value.value}`" not in TEXT] == []


def test_the_limits_are_stated() -> None:
    for limit in (
        f"{MAX_LENGTH:,}",
        f"above {MAX_LENGTH // 2:,}",
        f"at most {format_size(MAX_SIZE_BYTES)}",
        f"1 .. {MAX_RANKS:,}",
        "the first is none of `-` and `:`",
    ):
        assert limit in TEXT


@pytest.mark.parametrize("name", [*model_names(), *host_names(), LOCAL_HOST])
def test_every_built_in_document_is_listed(name: str) -> None:
    assert re.search(rf"^\| .*`{name}`", TEXT, re.MULTILINE)
