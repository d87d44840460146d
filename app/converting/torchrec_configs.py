"""Lists of TorchRec's EmbeddingBagConfig or EmbeddingConfig as JSON, by the names of their fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emplace.app.converting.converted import MOST_ROWS, MOST_WIDE, Converted, in_modules, padding_notes, table, wanted, whole
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import parse_json

_CARRIED = {"name", "num_embeddings", "embedding_dim", "feature_names", "data_type", "pooling"}
_TYPES = {"fp32": "fp32", "float32": "fp32", "fp16": "fp16", "float16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "int8": "int8"}


def from_embedding_configs(text: str, source: str) -> Converted:
    """A list, or a mapping with it as `tables`. Raises InvalidDocument."""
    data = parse_json(text, source)
    listed: Any = data.get("tables") if isinstance(data, dict) else data
    found = from_config_list(listed, source, "/tables" if isinstance(data, dict) else "")
    if sequences := [config["name"] for config in listed if "pooling" not in config]:
        note = f"without pooling, so sequences of vectors: {', '.join(sequences)}; write pooling: SUM in those that are EmbeddingBagConfigs"
        return replace(found, notes=(*found.notes, note))
    return found


def from_config_list(listed: Any, source: str, prefix: str) -> Converted:
    """A list of configs, each as a mapping. Raises InvalidDocument."""
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise InvalidDocument(source, [BrokenRule("", "", "must be a list of embedding configs, or a mapping with it as tables")])
    tables = [_table(config, source, f"{prefix}/{index}") for index, config in enumerate(listed)]
    model = {
        "schema_version": 1,
        "name": "torchrec",
        "dense_features": 0,
        "bottom_mlp": [],
        "top_mlp": [1],
        "interaction": "cat",
        "tables": tables,
    }
    notes = [
        "lengths are not in these configs: each feature has one id an example; emplace trace measures them",
        "the optimizer is not in these configs: rowwise_adagrad",
        "dense layers are not in these configs; emplace describe sees those of a module",
        *padding_notes({config["name"]: config["embedding_dim"] for config in listed}),
    ]
    if modules := in_modules(tables, ["pooling" not in config or _word(config["pooling"]) == "none" for config in listed]):
        model["modules"] = modules
        notes.append(f"where modules are is not in these configs; assumed {', '.join(module['path'] for module in modules)}")
    if left_out := sorted({key for config in listed for key, value in config.items() if key not in _CARRIED and value is not None}):
        notes.append(f"not carried over: {', '.join(left_out)}")
    return Converted(model, tuple(notes))


def _table(config: dict[str, Any], source: str, pointer: str) -> dict[str, Any]:
    name = wanted(config, "name", str, source, pointer)
    rows = whole(config, "num_embeddings", None, MOST_ROWS, source, pointer)
    columns = whole(config, "embedding_dim", None, MOST_WIDE, source, pointer)
    features = wanted(config, "feature_names", list, source, pointer)
    kind = _word(config.get("data_type", "fp32"))
    if kind not in _TYPES:
        raise InvalidDocument(source, [BrokenRule(f"{pointer}/data_type", repr(kind), f"must be one of {', '.join(_TYPES)}")])
    return table(name, rows, columns, {str(feature): {"fixed": 1} for feature in features}) | {"data_type": _TYPES[kind]}


def _word(value: object) -> str:
    """`DataType.FP32` and `FP32` are `fp32`."""
    return str(value).rpartition(".")[2].lower()
