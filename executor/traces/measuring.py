"""Feature lengths and accesses that a trace shows, written into a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.executor.traces.trace import Trace, feature_numbers, unreadable
from emplace.placement.lengths import MAX_LENGTH
from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data

MAX_COUNTED_ROWS = 2**26
"""Rows of a larger table share counters: 256 MiB count any table, and rows that meet in one counter are rare."""
MAX_LENGTHS = 64
"""More different lengths than this are gathered in bins."""
MAX_POINTS = 32
"""The most points of an access curve, those of rare rows apart."""
MAX_RARE, MIN_RARE_ROWS = 10, 20
"""Rows that were seen up to so many times are rare, as long as at least so many rows were seen each number of times."""
_SAME_SLOPE = 1e-6
"""Stretches of an access curve whose slopes differ by less than this share are one stretch."""

Counts = NDArray[np.uint32]
Floats = NDArray[np.float64]
Points = list[tuple[float, float]]


def measured_model(trace: Trace, model: ModelSpec, report: Callable[[str], None], warn: Callable[[str], None]) -> ModelSpec:
    """`model` with the lengths of every feature and the accesses of every table as in `trace`; nothing else changes.

    A feature's `truncate` stays, and its lengths are those before it. Ids beyond a table are taken modulo its rows; `warn`
    is told. `report` gets progress. Raises InvalidDocument for a trace that lacks one of the model's features.
    """
    numbers = iter(feature_numbers(trace, [feature.name for table in model.tables for feature in table.features]))
    data = model.to_data()
    for index, table in enumerate(model.tables):
        report(f"table {index + 1} of {len(model.tables)}: {table.name}")
        counts = np.zeros(min(table.num_embeddings, MAX_COUNTED_ROWS), dtype=np.uint32)
        beyond = 0
        for feature in data["tables"][index]["features"]:
            lengths, outside = _count(trace, next(numbers), table.num_embeddings, counts)
            feature["length"] = spell_lengths(lengths)
            beyond += outside
        data["tables"][index]["access"] = spell_accesses(counts, table.num_embeddings)
        if beyond:
            warn(f"table {table.name}: {beyond:,} ids are beyond its {table.num_embeddings:,} rows; taken modulo")
    data["source"] = "; ".join(
        filter(None, [model.source, f"lengths and accesses measured from {trace.source}, {trace.examples:,} examples"])
    )
    return from_data(data, ModelSpec, source=trace.source)


def model_from_trace(trace: Trace, embedding_dim: int, local_batch_size: int) -> ModelSpec:
    """A model with nothing but one table for every feature, just large enough for the ids that occur; to be edited."""
    names = trace.features or tuple(f"feature_{number}" for number in range(trace.num_features))
    tables = []
    for number, name in enumerate(names):
        largest = max((int(ids.max()) for _, ids in trace.chunks(number) if len(ids)), default=0)
        tables.append(
            {
                "name": name,
                "num_embeddings": largest + 1,
                "embedding_dim": embedding_dim,
                "features": [{"name": name, "length": {"fixed": 1}}],
            }
        )
    data = {
        "schema_version": 1,
        "name": "traced",
        "description": "Hash sizes are the largest id of the trace and 1; dense layers are a stub. Edit both.",
        "local_batch_size": local_batch_size,
        "dense_features": 0,
        "bottom_mlp": [],
        "top_mlp": [1],
        "interaction": "cat",
        "tables": tables,
    }
    return from_data(data, ModelSpec, source=trace.source)


def _count(trace: Trace, number: int, rows: int, counts: Counts) -> tuple[Counter[int], int]:
    """Add a feature's ids to its table's counts. Returns how many examples had each length, and how many ids were beyond the table.

    Raises InvalidDocument for an example with too many ids.
    """
    seen: Counter[int] = Counter()
    beyond = 0
    for lengths, ids in trace.chunks(number):
        for length, examples in zip(*np.unique(lengths, return_counts=True), strict=True):
            seen[int(length)] += int(examples)
        beyond += int((ids >= rows).sum())
        used, times = np.unique(ids % rows % len(counts), return_counts=True)
        counts[used] += times.astype(np.uint32)
    if max(seen) > MAX_LENGTH:
        raise unreadable(trace.source, f"has an example with {max(seen):,} ids of one feature; {MAX_LENGTH:,} are allowed")
    return seen, beyond


def spell_lengths(seen: Counter[int]) -> dict[str, Any]:
    """`{fixed}` or `{histogram}` of at most twice MAX_LENGTHS lengths, with the mean and the longest of what was seen.

    Many different lengths are gathered in bins with about equally many examples; a bin stands for the two whole lengths
    beside its mean, in the shares that keep the mean.
    """
    lengths, examples = (np.array(side) for side in zip(*sorted(seen.items()), strict=True))
    if len(lengths) == 1:
        return {"fixed": int(lengths[0])}
    weights = examples / examples.sum()
    if len(lengths) > MAX_LENGTHS:
        lengths, weights = _binned(lengths, weights)
    return {"histogram": {"lengths": [int(length) for length in lengths], "weights": [float(weight) for weight in weights]}}


def _binned(lengths: NDArray[Any], weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(lengths, weights) of at most MAX_LENGTHS bins."""
    share: Counter[int] = Counter()
    middles = np.cumsum(weights) - weights / 2
    bins = np.append(np.floor(middles[:-1] * (MAX_LENGTHS - 1)), MAX_LENGTHS)  # the longest stays by itself
    for each in np.unique(bins):
        inside = bins == each
        mass = weights[inside].sum()
        mean = lengths[inside][0] if inside.sum() == 1 else (lengths[inside] * weights[inside]).sum() / mass
        above = mean - np.floor(mean)
        share[int(mean)] += mass * (1 - above)
        if above > 0:
            share[int(mean) + 1] += mass * above
    return np.array(sorted(share)), np.array([share[length] for length in sorted(share)])


def spell_accesses(counts: Counts, rows: int) -> Any:
    """`uniform` or `{icdf}`, from how often each row was looked up."""
    times, rows_each = np.unique(counts[counts > 0], return_counts=True)
    return spell_counts(times.astype(np.float64), rows_each.astype(np.float64), rows)


def spell_counts(times: Floats, rows_each: Floats, rows: int) -> Any:
    """The same, from `rows_each[k]` rows that were looked up `times[k]` times, in any order.

    Rows that were seen rarely are taken together with those seen as often, and rows never seen get their share: of N lookups
    the rows seen r times take (r + 1) f(r + 1) / N, where f(r) rows were seen r times (Good, 1953, doi
    10.1093/biomet/40.3-4.237), and f(1)^2 / 2 f(2) of those never seen are in use at all (Chao, 1984). Where f(r) is too
    small to rest on, counts are taken as they are.
    """
    if not len(times):
        return "uniform"
    hottest_first = np.argsort(-times, kind="stable")
    times, rows_each = times[hottest_first], rows_each[hottest_first]
    lookups = (times * rows_each).sum()
    seen_often = np.bincount(np.minimum(times, MAX_RARE + 1).astype(np.int64), rows_each, minlength=MAX_RARE + 2)[1 : MAX_RARE + 1]
    rare = int(np.argmin(np.append(seen_often >= MIN_RARE_ROWS, False)))
    head, heads_each = times[times >= rare], rows_each[times >= rare]
    ends, taken = (np.append(0.0, np.cumsum(side)) for side in (heads_each, head * heads_each))
    heads = np.unique(np.round(np.geomspace(1, ends[-1], MAX_POINTS)))
    masses = np.interp(heads, ends, taken) * ((times * rows_each)[times > rare].sum() / taken[-1])
    points = [(float(end), float(mass)) for end, mass in zip(heads, masses, strict=True)]
    for often in range(rare - 1, 0, -1):
        points.append((points[-1][0] + seen_often[often - 1], points[-1][1] + (often + 1) * seen_often[often]))
    if rare > 1:
        points.append((points[-1][0] + seen_often[0] + seen_often[0] ** 2 / (2 * seen_often[1]), lookups))
    return spell_points(points, float(lookups), rows)


def spell_points(points: Points, lookups: float, rows: int) -> Any:
    """`uniform` or `{icdf}`, from points (so many rows, so many of the lookups), hottest rows first."""
    shares = [(float(end / rows), min(1.0, float(mass / lookups))) for end, mass in points]
    inner = _concave([(0.0, 0.0), *(share for share in shares if share[0] < 1), (1.0, 1.0)])[1:-1]
    return {"icdf": [list(point) for point in inner]} if inner else "uniform"


def _concave(points: Points) -> Points:
    """The points where the curve bends. Where a stretch takes about as much per row as the one before, or more, the two become one."""
    kept: Points = []
    for point in points:
        while len(kept) > 1 and _slope(kept[-2], kept[-1]) <= _slope(kept[-1], point) * (1 + _SAME_SLOPE):
            kept.pop()
        kept.append(point)
    return kept


def _slope(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])
