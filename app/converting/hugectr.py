"""HugeCTR's JSON: the one that its solver reads, and what `model.graph_to_json` dumps. Scripts are brought into the same form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from emplace.app.converting.converted import MOST_FEATURES, MOST_ROWS, MOST_WIDE, Converted, padding_notes, table, wanted, whole
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.modules import DEFAULT_PATH
from emplace.placement.reading import parse_json

_OPTIMIZERS = {"sgd": "sgd", "adam": "adam", "adagrad": "adagrad"}
_STATES = {"sgd": 0, "adagrad": 1, "momentumsgd": 1, "nesterov": 1, "adam": 2, "ftrl": 2}
"""Copies of the weights that an optimizer of HugeCTR keeps."""
COLLECTION = "EmbeddingCollection"
_SIZES = ("vocabulary_size", "max_vocabulary_size_global", "max_vocabulary_size_per_gpu")
_LAYERS = {"InnerProduct", "FusedInnerProduct", "MLP"}
_NO_COST = {"ReLU", "Dropout", "Reshape", "Concat", "Interaction", "MultiCross", "Sigmoid", "Cast"}


def from_hugectr(text: str, source: str) -> Converted:
    """A JSON document. Raises InvalidDocument."""
    return from_graph(parse_json(text, source), source)


def from_graph(data: Any, source: str) -> Converted:
    """The document's data. Raises InvalidDocument."""
    layers = data.get("layers") if isinstance(data, dict) else None
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise InvalidDocument(source, [BrokenRule("/layers", "", "must be a list of layers")])
    return _Graph(data, layers, source).converted()


class _Graph:
    def __init__(self, data: dict[str, Any], layers: list[dict[str, Any]], source: str) -> None:
        self._solver, self._optimizer = _mapping(data, "solver"), _mapping(data, "optimizer")
        self._layers, self._source, self._name = layers, source, str(data.get("model_name") or "hugectr")
        self._notes: list[str] = []
        self._inputs: dict[str, dict[str, Any]] = {}
        self._dense = 0
        for layer in layers:
            if layer.get("type") == "Data":
                self._inputs |= {str(each.get("top")): each for each in _listed(layer.get("sparse")) if isinstance(each, dict)}
                dense = _mapping(layer, "dense")
                self._dense = whole(dense, "dense_dim", None, MOST_WIDE, source, "/layers") if dense.get("dense_dim") else 0

    def converted(self) -> Converted:
        tables = [each for number, layer in zip(count(), self._embeddings()) for each in self._tables(layer, number)]
        if not tables:
            rule = "must have a layer of embeddings; HugeCTR dumps none of an embedding collection: convert the script that builds it"
            raise InvalidDocument(self._source, [BrokenRule("/layers", "", rule)])
        bottom, top = self._perceptrons()
        kinds = {str(layer.get("type")) for layer in self._layers}
        data = {
            "schema_version": 1,
            "name": re.sub(r"[^A-Za-z0-9_:-]", "-", self._name),
            "dense_features": self._dense,
            "bottom_mlp": bottom if self._dense else [],
            "top_mlp": top or [1],
            "interaction": "dot" if "Interaction" in kinds else "cat",
            "optimizer": self._optimizer_name(),
            "tables": tables,
        } | self._crossed()
        if isinstance(whole := self._solver.get("batchsize"), int):
            data["local_batch_size"] = max(1, whole // self._gpus())
            self._notes.append(f"batchsize {whole} over {self._gpus()} GPUs")
        if self._solver.get("mixed_precision"):
            # Vectors leave the embedding in half precision then, and are exchanged so (TypeEmbeddingComp in HugeCTR's sources).
            data |= {"dense_precision": "fp16", "modules": [{"path": DEFAULT_PATH, "output_data_type": "fp16"}]}
        left_out = sorted(
            kind for kind in kinds if kind not in _LAYERS | _NO_COST | {"Data"} and "Embedding" not in kind and "Loss" not in kind
        )
        if "MultiCross" in kinds and "dcn" not in data:
            left_out.append("MultiCross")
        if left_out:
            self._notes.append(f"layers that are left out: {', '.join(left_out)}")
        return Converted(data, tuple(self._notes))

    def _embeddings(self) -> Iterator[dict[str, Any]]:
        yield from (layer for layer in self._layers if "Embedding" in str(layer.get("type")))

    def _crossed(self) -> dict[str, Any]:
        """The low-rank cross layers, where their widths are said: a dump leaves them out."""
        given = next((_mapping(layer, "mc_param") for layer in self._layers if layer.get("type") == "MultiCross"), {})
        if not given.get("projection_dim"):
            return {}
        layers, rank = (whole(given, key, None, MOST_WIDE, self._source, "/layers") for key in ("num_layers", "projection_dim"))
        return {"interaction": "dcn", "dcn": {"num_layers": layers, "low_rank_dim": rank}}

    def _tables(self, layer: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
        name, pointer = str(layer.get("name") or layer.get("top") or f"embedding{number}"), f"/layers/{self._layers.index(layer)}"
        given = wanted(layer, "sparse_embedding_hparam", dict, self._source, pointer)
        at = f"{pointer}/sparse_embedding_hparam"
        columns = whole(given, "embedding_vec_size", None, MOST_WIDE, self._source, at)
        lengths = [length for bottom in _listed(layer.get("bottom")) or [None] for length in self._lengths(str(bottom), name)]
        self._notes += padding_notes({name: columns})
        if given.get("combiner") == "concat":
            self._notes.append(f"{name}: combiner concat is priced as sum")
        if isinstance(sizes := given.get("slot_size_array"), list) and sizes:
            if len(sizes) != len(lengths):
                rule = f"must have one size for each of the {len(lengths)} slots, has {len(sizes)}"
                raise InvalidDocument(self._source, [BrokenRule(f"{at}/slot_size_array", "", rule)])
            for slot, (rows, length) in enumerate(zip(sizes, lengths, strict=True)):
                yield table(f"{name}_{slot}", rows, columns, {f"{name}_{slot}": length})
            return
        rows = self._rows(given, layer, name, at)
        if len(lengths) > 1 and layer.get("type") != COLLECTION:
            self._notes.append(f"{name}: one table that its {len(lengths)} slots share, as slot sizes are not given")
        yield table(name, rows, columns, {f"{name}_{slot}": length for slot, length in enumerate(lengths)})

    def _rows(self, given: dict[str, Any], layer: dict[str, Any], name: str, at: str) -> int:
        """As many as are said, else as many as the workspace holds with the optimizer's state."""
        if key := next((key for key in _SIZES if given.get(key)), None):
            return whole(given, key, None, MOST_ROWS, self._source, at) * (self._gpus() if key.endswith("per_gpu") else 1)
        if not given.get("workspace_size_per_gpu_in_mb"):
            rule = f"needs slot_size_array, workspace_size_per_gpu_in_mb or one of {', '.join(_SIZES)}: how many rows there are"
            raise InvalidDocument(self._source, [BrokenRule(at, "", rule)])
        room = whole(given, "workspace_size_per_gpu_in_mb", None, MOST_ROWS, self._source, at) * 2**20
        kind = str((_mapping(layer, "optimizer") or self._optimizer).get("type", "Adam")).lower()
        columns = whole(given, "embedding_vec_size", None, MOST_WIDE, self._source, at)
        self._notes.append(f"{name}: its rows are not given; as many as its workspace holds on {self._gpus()} GPUs")
        return max(1, room // (4 * columns * (1 + _STATES.get(kind, 2)))) * self._gpus()

    def _lengths(self, bottom: str, name: str) -> list[dict[str, Any]]:
        """How many ids each slot has."""
        found = self._inputs.get(bottom)
        if found is None:
            raise InvalidDocument(self._source, [BrokenRule("/layers", bottom, f"{name}: no sparse input of a Data layer has this name")])
        slots = whole(found, "slot_num", 1, MOST_FEATURES, self._source, "/layers")
        if isinstance(each := found.get("nnz_per_slot"), list) and len(each) == slots:
            return [{"fixed": whole({"nnz_per_slot": ids}, "nnz_per_slot", None, MOST_ROWS, self._source, "/layers")} for ids in each]
        for key in ("max_nnz", "nnz_per_slot"):
            if isinstance(found.get(key), int):
                return [{"fixed": whole(found, key, None, MOST_ROWS, self._source, "/layers")}] * slots
        most = whole(found, "max_feature_num_per_sample", slots, MOST_ROWS, self._source, "/layers")
        self._notes.append(f"{name}: ids of a slot are not given; {max(1, most // slots)} each, of at most {most} in all")
        return [{"fixed": max(1, most // slots)}] * slots

    def _perceptrons(self) -> tuple[list[int], list[int]]:
        """Widths of the layers that no embedding reaches, and of those that one does."""
        reached = {str(top) for layer in self._embeddings() for top in _listed(layer.get("top"))}
        widths: tuple[list[int], list[int]] = ([], [])
        for layer in self._layers:
            below = {str(each) for each in _listed(layer.get("bottom"))}
            if "Embedding" in str(layer.get("type")):
                continue
            if is_reached := bool(below & reached):
                reached |= {str(each) for each in _listed(layer.get("top"))}
            if str(layer.get("type")) in _LAYERS:
                given = _mapping(layer, "fc_param") or _mapping(layer, "mlp_param")
                found = _listed(given.get("num_outputs") or given.get("num_output"))
                widths[is_reached].extend(each for each in found if isinstance(each, int))
        return widths

    def _gpus(self) -> int:
        """How many GPUs all nodes have together: the document has a list for each node, or one list."""
        listed = _listed(self._solver.get("gpu") or self._solver.get("vvgpu"))
        return max(1, sum(len(each) if isinstance(each, list) else 1 for each in listed))

    def _optimizer_name(self) -> str:
        of_tables = (_mapping(layer, "optimizer") for layer in self._embeddings())
        kind = str((self._optimizer or next((each for each in of_tables if each), {})).get("type", "Adam"))
        if kind.lower() not in _OPTIMIZERS:
            self._notes.append(f"optimizer {kind} is priced as adagrad, which keeps as much state")
        return _OPTIMIZERS.get(kind.lower(), "adagrad")


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _listed(value: Any) -> list[Any]:
    """A list; of one thing, where it stands alone."""
    return value if isinstance(value, list) else [] if value is None else [value]
