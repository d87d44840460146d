"""Features of TorchEasyRec's configs (tzrec/protos/feature.proto): which have a table, of how many rows, and how many ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from emplace.app.converting.converted import MOST_ROWS, MOST_WIDE, whole
from emplace.app.converting.text_format import Message
from emplace.placement.errors import BrokenRule, InvalidDocument

_SIZES = (("zch", "zch_size"), ("dynamicemb", "max_capacity"), ("hash_bucket_size",), ("num_buckets",))
"""What says how many rows there are: the first that is given, as TorchEasyRec takes it."""
_ALWAYS_IDS = {"id_feature", "combo_feature", "tokenize_feature", "bool_mask_feature"}
_DEFAULT_AND_UNKNOWN = 2
"""Rows before those of a vocabulary that names no default_bucketize_value."""


def values(message: Message, key: str) -> list[Any]:
    """What a repeated field holds."""
    return message.get(key, [])


def first(message: Message, key: str) -> Any:
    """What a field that stands once holds: the last that is given, as protocol buffers have it."""
    found = message.get(key)
    return found[-1] if found else None


def mapping(message: Message, key: str) -> Message:
    found = first(message, key)
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class EasyRecFeature:
    """One feature, of a sequence or alone."""

    name: str
    kind: str
    given: Message
    source: str
    sequence: Any = None
    """The length of the sequence it is part of."""
    is_sequence: bool = False

    @cached_property
    def rows(self) -> int | None:
        """Rows of its table; None where nothing here says."""
        for path in _SIZES:
            holder = mapping(self.given, path[0]) if len(path) > 1 else self.given
            if path[-1] in holder:
                return self._whole(path[-1], holder, MOST_ROWS)
        more = 0 if "default_bucketize_value" in self.given else _DEFAULT_AND_UNKNOWN
        if words := values(self.given, "vocab_list"):
            return len(words) + more + (self.kind == "match_feature")
        if entries := values(self.given, "vocab_dict"):
            indices = [first(entry, "value") for entry in entries if isinstance(entry, dict)]
            return max((each for each in indices if isinstance(each, int)), default=0) + 1
        if bounds := values(self.given, "boundaries"):
            return len(bounds) + 1
        return None

    @property
    def is_dense(self) -> bool:
        """Whether it goes to the dense layers as it is."""
        return self.rows is None and self.kind not in _ALWAYS_IDS and "vocab_file" not in self.given

    @property
    def is_looked_up(self) -> bool:
        return self.rows is not None

    @property
    def dense_embedding(self) -> bool:
        return bool(self.given.keys() & {"autodis", "mlp"})

    @property
    def table(self) -> str:
        """Features of one embedding_name share their table."""
        return str(first(self.given, "embedding_name") or f"{self.name}_emb")

    @property
    def columns(self) -> int:
        return self._whole("embedding_dim", self.given, MOST_WIDE)

    @property
    def value_dim(self) -> int:
        return self._whole("value_dim", self.given, MOST_WIDE, default=1)

    @property
    def ids(self) -> int:
        """Ids of an example, as many as there can be."""
        said = {"sequence_length": self.sequence or first(self.given, "sequence_length")}
        length = (
            self._whole("sequence_length", {key: [value] for key, value in said.items()}, MOST_ROWS, default=1) if self.is_sequence else 1
        )
        return length * self.value_dim

    def _whole(self, key: str, holder: Message, most: int, default: int | None = None) -> int:
        return whole({key: first(holder, key)}, key, default, most, self.source, f"/feature_configs[{self.name}]")


def features_of(config: Message, source: str) -> Iterator[EasyRecFeature]:
    """Each by the name that groups know it by. Raises InvalidDocument."""
    for each in values(config, "feature_configs"):
        for kind, given in _kinds(each, source):
            if kind != "sequence_feature":
                is_sequence = kind.startswith("sequence_") or first(given, "tokens_as_sequence") is True
                yield EasyRecFeature(
                    _name(given, "feature_name", source), kind.removeprefix("sequence_"), given, source, is_sequence=is_sequence
                )
                continue
            sequence, length = _name(given, "sequence_name", source), first(given, "sequence_length")
            for part in values(given, "features"):
                for inner, fields in _kinds(part, source):
                    yield EasyRecFeature(
                        f"{sequence}__{_name(fields, 'feature_name', source)}", inner, fields, source, length, is_sequence=True
                    )


def _kinds(config: Any, source: str) -> Iterator[tuple[str, Message]]:
    if not isinstance(config, dict) or not all(isinstance(first(config, key), dict) for key in config):
        raise InvalidDocument(source, [BrokenRule("/feature_configs", "", "must each hold a feature, such as id_feature { ... }")])
    for kind in config:
        yield kind, mapping(config, kind)


def _name(given: Message, key: str, source: str) -> str:
    found = first(given, key)
    if not isinstance(found, str) or not found:
        raise InvalidDocument(source, [BrokenRule(f"/feature_configs/{key}", "", "is required")])
    return found
