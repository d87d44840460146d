"""Scripts that build a model with HugeCTR's Python API, read and never run, as the graph that HugeCTR would dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emplace.app.converting.converted import Converted, listed_briefly
from emplace.app.converting.hugectr import COLLECTION, from_graph
from emplace.app.converting.script import Script
from emplace.app.converting.script_values import Call, Made, Symbol, is_known
from emplace.placement.errors import BrokenRule, InvalidDocument

_ORDER = {
    "CreateOptimizer": ("optimizer_type",),
    "Model": ("solver", "reader_params", "opt_params"),
    "Input": ("label_dim", "label_name", "dense_dim", "dense_name", "data_reader_sparse_param_array"),
    "DataReaderSparseParam": ("top_name", "nnz_per_slot", "is_fixed_length", "slot_num"),
    "SparseEmbedding": (
        "embedding_type",
        "workspace_size_per_gpu_in_mb",
        "embedding_vec_size",
        "combiner",
        "sparse_embedding_name",
        "bottom_name",
        "slot_size_array",
        "optimizer",
    ),
    "DenseLayer": ("layer_type", "bottom_names", "top_names"),
    "EmbeddingTableConfig": ("name", "max_vocabulary_size", "ev_size"),
    "embedding_lookup": ("table_config", "bottom_name", "top_name", "combiner"),
}
"""The arguments that scripts give without names."""


def from_hugectr_script(text: str, source: str) -> Converted:
    """Raises InvalidDocument."""
    script = Script(text, source)
    model = next((made for made in script.made if made.call.name == "Model" and made.calls), None)
    if model is None:
        raise InvalidDocument(source, [BrokenRule("", "", "has no hugectr.Model that layers are added to")])
    built = _Built(model, source)
    converted = from_graph(built.graph(), source)
    taken = listed_briefly(list(script.defaults))
    defaults = [f"options of its command line are as by default: {taken}"] if taken else []
    return Converted(converted.data, (*defaults, *script.notes, *built.notes, *converted.notes))


class _Built:
    """A model as its script builds it."""

    def __init__(self, model: Made, source: str) -> None:
        self._source, self._model = source, model
        self._solver, self._reader, self._optimizer = (_made(model.call, key) for key in _ORDER["Model"])
        self.notes: list[str] = []
        self._slots_before = 0
        self._slots: dict[str, tuple[int, int]] = {}
        """Where the slots of each sparse input are among those of the reader."""

    def graph(self) -> dict[str, Any]:
        added = [next(iter((*call.arguments, *call.keywords.values())), None) for call in self._model.calls if call.name == "add"]
        layers = [layer for each in added if isinstance(each, Made) for layer in self._layers(each)]
        if unknown := sum(not isinstance(each, Made) for each in added):
            self.notes.append(f"{unknown} of the things that are added are not known without running the script")
        return {"solver": self._solver_data(), "optimizer": self._optimizer_data(self._optimizer), "layers": layers} | self._named()

    def _named(self) -> dict[str, Any]:
        name = _given(self._solver, "model_name") if self._solver else None
        return {"model_name": name} if isinstance(name, str) else {}

    def _solver_data(self) -> dict[str, Any]:
        if self._solver is None:
            return {}
        batch, gpus = self._optional(self._solver, "batchsize"), self._optional(self._solver, "vvgpu")
        mixed = _given(self._solver, "use_mixed_precision") is True
        if "vvgpu" in self._solver.keywords and gpus is None:
            return {"mixed_precision": mixed}
        return {"batchsize": batch if batch is not None else 2048, "gpu": gpus or [[0]], "mixed_precision": mixed}

    def _layers(self, added: Made) -> Iterator[dict[str, Any]]:
        call = added.call
        match call.name:
            case "Input":
                yield self._input(call)
            case "SparseEmbedding":
                yield self._embedding(call)
            case "EmbeddingCollectionConfig":
                yield from self._collection(added)
            case "DenseLayer":
                yield self._dense(call)
            case other:
                self.notes.append(f"line {call.line}: {other} is not carried over")

    def _input(self, call: Call) -> dict[str, Any]:
        params = _given(call, "data_reader_sparse_param_array")
        if not isinstance(params, (list, tuple)):
            raise self._unknown(call, "data_reader_sparse_param_array")
        inputs = []
        for each in params:
            if not isinstance(each, Made) or each.call.name != "DataReaderSparseParam":
                raise self._unknown(call, "data_reader_sparse_param_array")
            name, slots = self._needed(each.call, "top_name", str), self._needed(each.call, "slot_num", int)
            self._slots[name] = (self._slots_before, slots)
            self._slots_before += slots
            inputs.append({"top": name, "slot_num": slots, "nnz_per_slot": self._needed(each.call, "nnz_per_slot", (int, list))})
        dense = {"top": self._optional(call, "dense_name"), "dense_dim": self._needed(call, "dense_dim", int)}
        return {"type": "Data", "dense": dense, "sparse": inputs}

    def _embedding(self, call: Call) -> dict[str, Any]:
        name, bottom = self._needed(call, "sparse_embedding_name", str), self._needed(call, "bottom_name", str)
        given = {"embedding_vec_size": self._needed(call, "embedding_vec_size", int), "combiner": self._optional(call, "combiner")}
        for key in ("workspace_size_per_gpu_in_mb", "slot_size_array"):
            given[key] = self._optional(call, key)
        given["slot_size_array"] = given["slot_size_array"] or self._sizes_of_the_reader(bottom)
        kind = _given(call, "embedding_type")
        optimizer = self._optimizer_data(_made(call, "optimizer"))
        shown = {"type": kind.word if isinstance(kind, Symbol) else "SparseEmbedding", "optimizer": optimizer}
        return shown | {"name": name, "top": name, "bottom": bottom, "sparse_embedding_hparam": given}

    def _sizes_of_the_reader(self, bottom: str) -> list[Any] | None:
        """The reader knows the sizes of all slots, in the order of the inputs; 0 is of one that shares another's ids."""
        sizes = self._optional(self._reader, "slot_size_array") if self._reader else None
        first, slots = self._slots.get(bottom, (0, 0))
        if not isinstance(sizes, list) or len(sizes) != self._slots_before or not all(isinstance(each, int) and each > 0 for each in sizes):
            return None
        return sizes[first : first + slots]

    def _collection(self, added: Made) -> Iterator[dict[str, Any]]:
        """One layer for each table, with all that is looked up in it."""
        tables: dict[str, dict[str, Any]] = {}
        for call in added.calls:
            if call.name != "embedding_lookup":
                continue
            bottoms, combiners = (_as_list(self._needed(call, key, (str, list))) for key in ("bottom_name", "combiner"))
            configs, top = _as_list(_given(call, "table_config")), self._needed(call, "top_name", str)
            if not len(configs) == len(bottoms) == len(combiners):
                raise self._unknown(call, "table_config")
            for config, bottom, combiner in zip(configs, bottoms, combiners, strict=True):
                if not isinstance(config, Made):
                    raise self._unknown(call, "table_config")
                name, size = self._needed(config.call, "name", str), self._needed(config.call, "max_vocabulary_size", int)
                given = {"vocabulary_size": size, "embedding_vec_size": self._needed(config.call, "ev_size", int), "combiner": combiner}
                empty = {"type": COLLECTION, "name": name, "top": [], "bottom": [], "sparse_embedding_hparam": given}
                layer = tables.setdefault(name, empty)
                layer["top"].append(top)
                layer["bottom"].append(bottom)
        yield from tables.values()

    def _dense(self, call: Call) -> dict[str, Any]:
        kind = _given(call, "layer_type")
        layer = {
            "type": kind.word if isinstance(kind, Symbol) else "unknown",
            "bottom": self._optional(call, "bottom_names"),
            "top": self._optional(call, "top_names"),
        }
        match layer["type"]:
            case "InnerProduct" | "FusedInnerProduct":
                layer["fc_param"] = {"num_output": self._optional(call, "num_output")}
            case "MLP":
                layer["mlp_param"] = {key: self._optional(call, key) for key in ("num_outputs", "num_output")}
            case "MultiCross":
                layer["mc_param"] = {key: self._optional(call, key) for key in ("num_layers", "projection_dim")}
        return layer

    def _optimizer_data(self, optimizer: Call | None) -> dict[str, Any]:
        if optimizer is None:
            return {}
        kind = _given(optimizer, "optimizer_type")
        return {"type": kind.word if isinstance(kind, Symbol) else "Adam"}

    def _needed(self, call: Call, key: str, kind: type | tuple[type, ...]) -> Any:
        found = _given(call, key)
        if not is_known(found) or not isinstance(found, kind) or isinstance(found, bool):
            raise self._unknown(call, key)
        return found

    def _optional(self, call: Call, key: str) -> Any:
        """None where it is not given, or, with a note, not known."""
        found = _given(call, key)
        if not is_known(found):
            self.notes.append(f"line {call.line}: {key} is not known without running the script")
            return None
        return found

    def _unknown(self, call: Call, key: str) -> InvalidDocument:
        rule = f"{key} of {call.name} can't be told without running the script; have the script dump its graph (model.graph_to_json)"
        return InvalidDocument(self._source, [BrokenRule("", "", rule, call.line)])


def _given(call: Call, key: str) -> Any:
    """An argument by its name or its place."""
    order = _ORDER.get(call.name, ())
    place = order.index(key) if key in order else len(call.arguments)
    return call.keywords[key] if key in call.keywords else call.arguments[place] if place < len(call.arguments) else None


def _made(call: Call, key: str) -> Call | None:
    """The call that made an argument."""
    found = _given(call, key)
    return found.call if isinstance(found, Made) else None


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
