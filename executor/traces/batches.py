"""A trace's examples as batches: cut to what a run needs and laid out once, then read by every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from emplace.executor.traces.trace import Ints, Trace, feature_numbers
from emplace.placement.model import Feature, ModelSpec
from emplace.runtime.batches import draw_batch, prepared_count, with_dense
from emplace.runtime.dlrm import Batch


def lay_out(trace: Trace, spec: ModelSpec, batches: int, folder: Path, report: Callable[[str], None]) -> None:
    """Write the first examples of `trace`, enough for `batches` of the whole job, under `folder` for `TraceBatches`.

    Ids beyond a table are taken modulo its rows, and `report` says so. Raises InvalidDocument.
    """
    features = _features(spec)
    examples = min(trace.examples, batches * spec.local_batch_size)
    for number, (feature, rows), column in zip(
        range(len(features)), features, feature_numbers(trace, [feature.name for feature, _ in features]), strict=True
    ):
        lengths, ids = _first(trace.chunks(column), examples, feature.truncate)
        beyond = int((ids >= rows).sum())
        if beyond:
            report(f"feature {feature.name}: {beyond:,} of {len(ids):,} ids are beyond its table's {rows:,} rows; taken modulo")
        np.save(folder / f"{number}.lengths.npy", lengths)
        np.save(folder / f"{number}.ids.npy", ids % rows)


def _features(spec: ModelSpec) -> list[tuple[Feature, int]]:
    """Every feature with the rows of its table, in the order of a batch."""
    return [(feature, table.num_embeddings) for table in spec.tables for feature in table.features]


def _first(chunks: Iterator[tuple[Ints, Ints]], examples: int, truncate: int | None) -> tuple[Ints, Ints]:
    """(lengths, ids) of the first examples, each list cut off after `truncate` ids."""
    all_lengths: list[Ints] = []
    all_ids: list[Ints] = []
    missing = examples
    for lengths, ids in chunks:
        lengths = lengths[:missing]
        ids = ids[: int(lengths.sum())]
        if truncate is not None:
            position = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            ids, lengths = ids[position < truncate], np.minimum(lengths, truncate)
        all_lengths.append(lengths)
        all_ids.append(ids)
        missing -= len(lengths)
        if not missing:
            break
    return np.concatenate(all_lengths), np.concatenate(all_ids)


class TraceBatches:
    """Batches of what `lay_out` wrote, mapped into memory. After the last example comes the first one again."""

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        self._spec = spec
        self._lengths = [np.load(folder / f"{number}.lengths.npy") for number in range(spec.num_features)]
        self._ends = [np.cumsum(lengths) for lengths in self._lengths]
        self._ids = [np.load(folder / f"{number}.ids.npy", mmap_mode="r") for number in range(spec.num_features)]

    def batch(self, start: int, examples: int, rng: np.random.Generator) -> Batch:
        """A batch of the ids of `examples` examples from number `start` on. Dense features and labels are drawn."""
        total = len(self._lengths[0])
        which = np.arange(start, start + examples) % total
        lengths = [each[which] for each in self._lengths]
        return with_dense(self._spec, lengths, [self._gather(number, start, examples) for number in range(len(lengths))], rng)

    def _gather(self, feature: int, start: int, examples: int) -> Ints:
        """The ids of one feature, of so many examples from number `start` on."""
        lengths, ends, ids = self._lengths[feature], self._ends[feature], self._ids[feature]
        parts = [ids[:0]]
        at, missing = start % len(lengths), examples
        while missing:
            count = min(missing, len(lengths) - at)
            parts.append(ids[ends[at] - lengths[at] : ends[at + count - 1]])
            at, missing = 0, missing - count
        return np.concatenate(parts)


def prepared_batches(spec: ModelSpec, steps: int, seed: int, rank: int, world: int, trace: Path | None) -> list[Batch]:
    """The batches that `rank` of `world` rotates through in `steps` steps: drawn, or those laid out under `trace`."""
    count, examples = prepared_count(spec, steps), spec.local_batch_size
    if trace is None:
        return [draw_batch(spec, examples, seed, rank, number) for number in range(count)]
    traced = TraceBatches(spec, trace)
    return [
        traced.batch((number * world + rank) * examples, examples, np.random.default_rng([seed, rank, number])) for number in range(count)
    ]
