"""What sampled batches of a training showed of its features, to be merged, kept, and written into a model document."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from emplace.executor.live_names import spelt
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ModelSpec, Table
from emplace.placement.reading import from_data
from emplace.torchrec.access_sketch import AccessSketch
from emplace.torchrec.length_counts import LengthCounts
from emplace.torchrec.place_counts import PlaceCounts

_SOURCE = "observation"
_ARRAYS = ("examples", "ids_of_examples", "ids", "times", "counters", "places", "numbers")


@dataclass
class ObservedFeature:
    """What all sampled batches together showed of a feature."""

    lengths: LengthCounts = field(default_factory=LengthCounts)
    accesses: AccessSketch = field(default_factory=AccessSketch)
    places: PlaceCounts = field(default_factory=PlaceCounts)
    batches: int = 0
    unique_ids: int = 0
    """Different ids of each batch, summed over batches."""

    def add(self, lengths: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
        """One batch: ids of each example, and all of them."""
        different, times = np.unique(ids, return_counts=True)
        self.lengths.add(lengths)
        self.accesses.add(different, times)
        self.places.add(different, times)
        self.batches += 1
        self.unique_ids += len(different)

    def merged(self, other: ObservedFeature) -> ObservedFeature:
        return ObservedFeature(
            self.lengths.merged(other.lengths),
            self.accesses.merged(other.accesses),
            self.places.merged(other.places),
            self.batches + other.batches,
            self.unique_ids + other.unique_ids,
        )


@dataclass(frozen=True)
class Observation:
    """What was observed of each feature, by its name in the batches; at most 0.5 MB a feature."""

    features: Mapping[str, ObservedFeature]

    def merge(self, *others: Observation) -> Observation:
        """All batches of all of them: the same in any order, to the last bit."""
        features = dict(self.features)
        for other in others:
            for name, feature in other.features.items():
                features[name] = features[name].merged(feature) if name in features else feature
        return Observation(features)

    def gather(self, group: dist.ProcessGroup | None = None) -> Observation:
        """Merged over the ranks of a process group (by default all); every rank calls it and gets the same. Outside of any it is all there is."""
        if not dist.is_available() or not dist.is_initialized():
            return self
        names: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(names, list(self.features), group=group)
        return Observation({name: self._gathered(name, group) for name in sorted({name for each in names for name in each})})

    def apply(self, spec: ModelSpec, *, with_order: bool = False) -> ModelSpec:
        """`spec` with the lengths of every feature and the accesses of every table as observed, and with `with_order` how ids lie;
        nothing else changes.

        A feature is found by its name, or by what follows its table's name and a colon (`describe` names shared features so). Raises
        InvalidDocument naming features that were not observed, and ids beyond a table's rows.
        """
        observed = {spelt(name): feature for name, feature in self.features.items()}
        found = [[_find(observed, table, feature.name) for feature in table.features] for table in spec.tables]
        broken = [each for of_table in found for each in of_table if isinstance(each, BrokenRule)]
        data = spec.to_data()
        for table, entry, features in zip(spec.tables, data["tables"], found, strict=True):
            known = [each for each in features if isinstance(each, ObservedFeature)]
            if len(known) < len(features):
                continue
            accesses = reduce(AccessSketch.merged, (each.accesses for each in known))
            if accesses.largest_id >= table.num_embeddings:
                rule = f"has {table.num_embeddings:,} rows: observe ids as the table gets them, after they were hashed"
                broken.append(BrokenRule(f"/{table.name}", f"id {accesses.largest_id}", rule))
                continue
            entry["access"] = accesses.spelled(table.num_embeddings)
            if with_order and accesses.lookups:
                places = reduce(PlaceCounts.merged, (each.places for each in known))
                entry["ids"] = places.spelled(table.num_embeddings)
            for feature, each in zip(entry["features"], known, strict=True):
                feature["length"] = each.lengths.spelled()
        if broken:
            raise InvalidDocument(_SOURCE, broken)
        batches = max((each.batches for each in self.features.values()), default=0)
        data["source"] = "; ".join(filter(None, [spec.source, f"lengths and accesses observed in {batches:,} batches"]))
        return from_data(data, ModelSpec, source=_SOURCE)

    def save(self, path: str | Path) -> None:
        """A NumPy archive (.npz) that `load` reads."""
        arrays: dict[str, Any] = {
            f"{number}.{part}": array for number, each in enumerate(self.features.values()) for part, array in _arrays(each).items()
        }
        with Path(path).open("wb") as file:
            np.savez_compressed(file, names=np.array(list(self.features), dtype=np.str_), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Observation:
        """What `save` wrote. Raises InvalidDocument."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                return cls({str(name): _feature(stored, number) for number, name in enumerate(stored["names"])})
        except OSError as error:
            raise InvalidDocument(str(path), [BrokenRule("", "", f"can't be read: {error.strerror or error}")]) from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise InvalidDocument(str(path), [BrokenRule("", "", "must be an observation that Observation.save wrote")]) from None

    def _gathered(self, name: str, group: dist.ProcessGroup | None) -> ObservedFeature:
        everyone: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(everyone, self.features.get(name), group=group)
        first, *others = (each for each in everyone if isinstance(each, ObservedFeature))
        return reduce(ObservedFeature.merged, others, first)


def _find(observed: Mapping[str, ObservedFeature], table: Table, name: str) -> ObservedFeature | BrokenRule:
    found = observed.get(name) or observed.get(name.removeprefix(f"{table.name}:"))
    if found is None or not found.lengths.examples.any():
        return BrokenRule(f"/{table.name}", name, f"no batch had this feature; observed are {_listed(observed)}")
    return found


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "") if shown else "none"


def _arrays(feature: ObservedFeature) -> dict[str, NDArray[np.int64]]:
    accesses = feature.accesses
    numbers = np.array([accesses.halvings, feature.places.bits, feature.batches, feature.unique_ids])
    counts = (feature.lengths.examples, feature.lengths.ids, accesses.ids, accesses.times, accesses.counters, feature.places.lookups)
    parts = (*counts, numbers)
    return dict(zip(_ARRAYS, parts, strict=True))


def _feature(stored: Any, number: int) -> ObservedFeature:
    examples, ids_of_examples, ids, times, counters, places, numbers = (stored[f"{number}.{part}"] for part in _ARRAYS)
    halvings, bits, batches, unique_ids = (int(each) for each in numbers)
    accesses = AccessSketch(halvings, ids, times, counters)
    return ObservedFeature(LengthCounts(examples, ids_of_examples), accesses, PlaceCounts(bits, places), batches, unique_ids)
