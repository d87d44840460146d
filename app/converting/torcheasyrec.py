"""TorchEasyRec's pipeline configs: protocol buffers in text format (tzrec/protos/pipeline.proto)."""

from __future__ import annotations

import re
from typing import Any

from emplace.app.converting.converted import (
    MOST_ROWS,
    MOST_WIDE,
    Converted,
    in_modules,
    listed_briefly,
    padding_notes,
    table,
    whole,
)
from emplace.app.converting.easyrec_features import EasyRecFeature, features_of, first, mapping, values
from emplace.app.converting.text_format import Message, parse_text_format
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.modules import SEQUENCE_TYPES

_OPTIMIZERS = {
    "sgd_optimizer": "sgd",
    "adagrad_optimizer": "adagrad",
    "rowwise_adagrad_optimizer": "rowwise_adagrad",
    "adam_optimizer": "adam",
    "lars_sgd_optimizer": "adagrad",
    "rmsprop_optimizer": "adagrad",
    "lamb_optimizer": "adam",
    "adadelta_optimizer": "adam",
    "partial_rowwise_adam_optimizer": "adam",
    "partial_rowwise_lamb_optimizer": "adam",
}
"""By the state that they keep for each weight: as much, or more."""
_EXACT = {"sgd_optimizer", "adagrad_optimizer", "rowwise_adagrad_optimizer", "adam_optimizer"}
_NO_MODEL = {"feature_groups", "losses", "metrics", "train_metrics", "variational_dropout"}
_PERCEPTRONS = ("dense_mlp", "deep", "final")
_TYPES = {"FP32": "fp32", "FP16": "fp16", "BF16": "bf16", "INT8": "int8"}
_DEFAULT_BATCH, _WIDE_COLUMNS = 1024, {"xdeepfm": 16}


def from_torcheasyrec(text: str, source: str) -> Converted:
    """A pipeline config. Raises InvalidDocument."""
    return _Pipeline(parse_text_format(text, source), source).converted()


class _Pipeline:
    def __init__(self, config: Message, source: str) -> None:
        self._source = source
        self._train, self._data, self._model = (mapping(config, key) for key in ("train_config", "data_config", "model_config"))
        self._features = {feature.name: feature for feature in features_of(config, source)}
        self._of_rtp = {name.replace("__", "_"): feature for name, feature in self._features.items()}
        """With one underline, as groups name the features of a sequence where USE_RTP is set."""
        self._notes: list[str] = []
        self._tables: dict[tuple[bool, str], dict[str, Any]] = {}
        self._names: set[str] = set()
        self._placed: set[tuple[str, str]] = set()
        self._columns: dict[str, int] = {}
        self._dense: dict[str, int] = {}
        self._used: set[str] = set()
        kinds = [key for key in self._model if key not in _NO_MODEL and isinstance(first(self._model, key), dict)]
        self._kind = kinds[0] if kinds else ""

    def converted(self) -> Converted:
        for group in values(self._model, "feature_groups") or [self._all_features()]:
            if isinstance(group, dict):
                self._group(group)
        if not self._tables:
            raise InvalidDocument(self._source, [BrokenRule("/feature_configs", "", "must have a feature with a table of known size")])
        tables = list(self._tables.values())
        data = {"schema_version": 1, "name": self._kind or "torcheasyrec", **self._training(), **self._dense_layers(), "tables": tables}
        if modules := in_modules(tables, [is_sequence for is_sequence, _ in self._tables]):
            data["modules"] = modules
        self._say_what_is_left_out()
        return Converted(data, tuple(self._notes))

    def _all_features(self) -> Message:
        """One group of all, where the model names none."""
        return {"group_type": ["DEEP"], "feature_names": list(self._features)}

    def _group(self, group: Message) -> None:
        kind, suffix = first(group, "group_type") or "DEEP", first(group, "embedding_name_suffix")
        self._look_up(group, suffix, is_sequence=kind in ("SEQUENCE", "JAGGED_SEQUENCE"), is_wide=kind == "WIDE")
        for nested in values(group, "sequence_groups"):
            if isinstance(nested, dict):
                self._look_up(nested, first(nested, "embedding_name_suffix") or suffix, is_sequence=True, is_wide=False)

    def _look_up(self, group: Message, suffix: Any, *, is_sequence: bool, is_wide: bool) -> None:
        for name in values(group, "feature_names"):
            feature = self._features.get(str(name)) or self._of_rtp.get(str(name))
            if feature is None:
                raise InvalidDocument(
                    self._source, [BrokenRule("/model_config/feature_groups", str(name), "is no feature of feature_configs")]
                )
            self._used.add(feature.name)
            if feature.is_dense:
                self._dense |= {} if is_sequence or feature.dense_embedding else {feature.name: feature.value_dim}
            elif feature.rows is not None:
                parts = [feature.table, *(["wide"] if is_wide else []), *([str(suffix)] if suffix else [])]
                self._place(feature, "_".join(parts), is_sequence=is_sequence, is_wide=is_wide)

    def _place(self, feature: EasyRecFeature, name: str, *, is_sequence: bool, is_wide: bool) -> None:
        """A feature of a table, which is there or is made."""
        rows, columns = feature.rows, feature.columns
        if is_wide:
            wide = {"wide_embedding_dim": first(mapping(self._model, self._kind), "wide_embedding_dim")}
            columns = whole(wide, "wide_embedding_dim", _WIDE_COLUMNS.get(self._kind, 4), MOST_WIDE, self._source, "/model_config")
        found = self._tables.get((is_sequence, name))
        if found is None:
            spelled = self._unique(name, "sequence")
            found = table(spelled, rows or 0, columns, {}) | {"data_type": self._data_type(feature)}
            if limits := self._limits(feature, is_sequence=is_sequence):
                found["constraints"] = limits
            self._columns[spelled] = columns
            self._tables[is_sequence, name] = found
        elif found["num_embeddings"] != rows or self._columns[found["name"]] != columns:
            rule = f"has another size than the feature that it shares {name} with"
            raise InvalidDocument(self._source, [BrokenRule("/feature_configs", feature.name, rule)])
        if (found["name"], feature.name) not in self._placed:
            self._placed.add((found["name"], feature.name))
            length = {"fixed": feature.ids}
            found["features"].append({"name": self._unique(feature.name, found["name"]), "length": length})

    def _unique(self, name: str, more: str) -> str:
        """The name, with more where something has it already."""
        spelled = _spelled(name)
        spelled = f"{spelled}:{_spelled(more)}" if spelled in self._names else spelled
        self._names.add(spelled)
        return spelled

    def _data_type(self, feature: EasyRecFeature) -> str:
        kind = str(first(feature.given, "data_type") or "FP32").upper()
        if kind not in _TYPES:
            raise InvalidDocument(self._source, [BrokenRule("/feature_configs", kind, f"data_type must be one of {', '.join(_TYPES)}")])
        return _TYPES[kind]

    def _limits(self, feature: EasyRecFeature, *, is_sequence: bool) -> dict[str, list[str]]:
        """The feature's constraints, else those of all tables, as far as they are known here."""
        said = mapping(feature.given, "embedding_constraints") or mapping(self._train, "global_embedding_constraints")
        known = {"sharding_types": SEQUENCE_TYPES if is_sequence else tuple(ShardingType), "compute_kernels": tuple(ComputeKernel)}
        limits: dict[str, list[str]] = {}
        for key, allowed in known.items():
            given = [str(each) for each in values(said, key)]
            kept = [each for each in given if each in allowed]
            limits |= {key: kept} if kept else {}
            if left_out := [each for each in given if each not in kept]:
                self._notes.append(f"{feature.name}: {key} that are not carried over: {', '.join(left_out)}")
        return limits

    def _training(self) -> dict[str, Any]:
        sparse = mapping(self._train, "sparse_optimizer")
        named = next((key for key in sparse if key in _OPTIMIZERS), "adagrad_optimizer")
        if named not in _EXACT:
            self._notes.append(f"{named} is priced as {_OPTIMIZERS[named]}")
        elif named not in sparse:
            self._notes.append("no sparse_optimizer is given: adagrad")
        batch = whole(
            {"batch_size": first(self._data, "batch_size")}, "batch_size", _DEFAULT_BATCH, MOST_ROWS, self._source, "/data_config"
        )
        if not first(self._data, "batch_size"):
            self._notes.append(f"batch_size is not given: {_DEFAULT_BATCH}, TorchEasyRec's own")
        precision = str(first(self._train, "mixed_precision") or "").lower()
        dense = {"dense_precision": precision} if precision in ("fp16", "bf16") else {}
        return {"local_batch_size": batch, "optimizer": _OPTIMIZERS[named], **dense}

    def _dense_layers(self) -> dict[str, Any]:
        model, dense = mapping(self._model, self._kind), sum(self._dense.values())
        bottom, deep, final = (
            [each for each in values(mapping(model, key), "hidden_units") if isinstance(each, int)] for key in _PERCEPTRONS
        )
        bottom = bottom if dense else []
        widths = {each["embedding_dim"] for each in self._tables.values()} | ({bottom[-1] if bottom else dense} if dense else set())
        is_dot = self._kind == "dlrm" and len(widths) == 1
        if self._kind == "dlrm" and not is_dot:
            self._notes.append("interaction dot takes one width of all tables and dense_mlp; cat is priced instead")
        if left_out := sorted(set(model) - {*_PERCEPTRONS, "wide_embedding_dim"}):
            self._notes.append(f"left out of {self._kind}: {', '.join(left_out)}")
        outputs = whole({"num_class": first(self._model, "num_class")}, "num_class", 1, MOST_WIDE, self._source, "/model_config")
        interaction = "dot" if is_dot else "cat"
        return {"dense_features": dense, "bottom_mlp": bottom, "top_mlp": [*deep, *final, outputs], "interaction": interaction}

    def _say_what_is_left_out(self) -> None:
        used = [feature for feature in self._features.values() if feature.name in self._used]
        said = {
            "ids of a feature are its value_dim, else 1; emplace trace measures them": [],
            "a sequence is as long as it may be: ": [each.name for each in used if each.is_looked_up and each.is_sequence],
            "no known number of rows, table left out (add it): ": [each.name for each in used if not each.is_dense and each.rows is None],
            "embeddings of numbers (autodis, mlp) are left out: ": [each.name for each in used if each.is_dense and each.dense_embedding],
            "pooling mean is priced as sum: ": [each.name for each in used if each.is_looked_up and first(each.given, "pooling") == "mean"],
            "weights of ids are left out: ": [each.name for each in used if each.is_looked_up and first(each.given, "weighted") is True],
            "zch and dynamicemb are priced as plain tables of their full size: ": [
                each.name for each in used if each.given.keys() & {"zch", "dynamicemb"}
            ],
            "features that no group uses are left out: ": sorted(set(self._features) - self._used),
            "not carried over: ": sorted(
                [key for key in self._data if "sampler" in key or key == "batch_cost_size"]
                + [key for key in self._train if key == "gradient_accumulation_steps"]
            ),
        }
        self._notes += [words + listed_briefly(names) for words, names in said.items() if names or not words.endswith(": ")]
        self._notes += padding_notes(self._columns)


def _spelled(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)
