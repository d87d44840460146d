"""Watching the batches of a training: a stated share of them is counted, at about a millisecond a feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.lengths import MAX_LENGTH
from emplace.torchrec.observation import Observation, ObservedFeature

B = TypeVar("B")
_DEEPEST = 4
"""So far below a batch its KeyedJaggedTensors are looked for."""


def observe(batches: Iterable[Any], *, every: int = 1, most: int | None = None) -> Observation:
    """What every so-manieth of the batches shows, of at most `most` of them. A batch is a KeyedJaggedTensor or holds some.

    Raises InvalidDocument as Observer.see does.
    """
    observer = Observer(every)
    sampled = islice(batches, 0, None, every)
    for batch in sampled if most is None else islice(sampled, most):
        observer.see(batch)
    return observer.observation


class Observer:
    """Counts one of `every` batches that go by: `for batch in observer.watch(loader)`."""

    def __init__(self, every: int = 100) -> None:
        if every < 1:
            raise InvalidDocument("arguments", [BrokenRule("/every", str(every), "must be at least 1: every so-manieth batch is counted")])
        self._every = every
        self._passed = 0
        self._features: dict[str, ObservedFeature] = {}

    @property
    def observation(self) -> Observation:
        """What was counted up to now."""
        return Observation({name: feature.merged(ObservedFeature()) for name, feature in self._features.items()})

    def watch(self, batches: Iterable[B]) -> Iterator[B]:
        """The batches as they are. The first and then every so-manieth is counted before it is handed on, over all epochs alike."""
        for batch in batches:
            if self._passed % self._every == 0:
                self.see(batch)
            self._passed += 1
            yield batch

    def see(self, batch: Any) -> None:
        """Count a batch, on whatever device it is. Raises InvalidDocument where it has no KeyedJaggedTensor, a feature in several, or
        ids that no table has."""
        found = list(_jagged(batch, _DEEPEST))
        keys = [key for features in found for key in features.keys()]  # noqa: SIM118
        if not keys:
            raise _refused(type(batch).__name__, "has no KeyedJaggedTensor in it: pass batches that hold one, or the tensors themselves")
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise _refused(twice, "is a feature of several KeyedJaggedTensors of a batch: pass one of them")
        for features in found:
            for key, jagged in features.to_dict().items():
                self._add(key, _numbers(jagged.lengths()), _numbers(jagged.values()))

    def _add(self, key: str, lengths: Any, ids: Any) -> None:
        if len(ids) and int(ids.min()) < 0:
            raise _refused(key, f"has the id {int(ids.min())}: ids must be whole numbers from 0 on")
        if len(lengths) and int(lengths.max()) > MAX_LENGTH:
            raise _refused(key, f"has {int(lengths.max()):,} ids in an example; {MAX_LENGTH:,} are allowed")
        self._features.setdefault(key, ObservedFeature()).add(lengths, ids)


def _jagged(value: Any, depth: int) -> Iterator[KeyedJaggedTensor]:
    """Those in a batch: itself, or in tuples, lists, mappings, dataclasses and plain objects."""
    if isinstance(value, KeyedJaggedTensor):
        yield value
    elif depth and not isinstance(value, (Tensor, str, bytes)):
        for part in _parts(value):
            yield from _jagged(part, depth - 1)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, (tuple, list)):
        return value
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value)]
    return vars(value).values() if hasattr(value, "__dict__") else ()


def _numbers(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy().astype(np.int64)


def _refused(value: str, rule: str) -> InvalidDocument:
    return InvalidDocument("batch", [BrokenRule("", value, rule)])
