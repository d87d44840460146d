"""What the ranks measured, brought together: one time per point, and how much the machine disagreed with itself."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
from pydantic import ValidationError

from emplace.placement.reading import from_data
from emplace.profiler.design.points import Design, Key, Kind, Sample, TableCounts
from emplace.runtime.files import write_whole

_WORTH_COMPARING_US = 20.0
_FEWEST_REPETITIONS = 2
"""The first half of them is held against the last."""
_TOGETHER = (Kind.STEP, Kind.COLLECTIVE)


@dataclass(frozen=True)
class Timed:
    """A point that every rank has measured, with its typical times."""

    forward_us: float
    backward_us: float
    tables: tuple[TableCounts, ...] = ()
    """What a lookup point asked of each table, the mean over ranks; empty for other points."""
    slowness: float = 1.0
    """How slow the machine was then: 1 is usual, 2 half as fast."""

    def at_usual_speed(self, exponent: float = 1.0) -> Timed:
        """The same, had the machine been as fast as usual: its times have the slowness to this power."""
        slowness = self.slowness**exponent
        return Timed(self.forward_us / slowness, self.backward_us / slowness, self.tables)


def read_samples(directory: Path, ranks: int) -> list[list[Sample]]:
    """The samples of each rank, one list a rank, as the rank program wrote them."""
    return [read_rank(rank_path(directory, rank)) for rank in range(ranks)]


def rank_path(directory: Path, rank: int) -> Path:
    """The file that a rank appends its samples to."""
    return directory / f"rank-{rank}.jsonl"


def read_rank(path: Path) -> list[Sample]:
    """The samples that one rank has written so far, none without a file. A last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [from_data(json.loads(line), Sample, source=str(path)) for line in lines]


def keep_common(directory: Path, ranks: int, design: Design) -> tuple[int, int]:
    """After an interruption: cut the files down to what every rank has measured. Returns how many measurements that is, and how many lines
    were left out because they hold none of the design's.
    """
    sound = [_sound_samples(rank_path(directory, rank), design) for rank in range(ranks)]
    common = set.intersection(*(set(found) for found, _ in sound))
    for rank, (found, _) in enumerate(sound):
        kept = "".join(sample.canonical_json() + "\n" for key, sample in found.items() if key in common)
        write_whole(rank_path(directory, rank), kept)
    return len(common), sum(damaged for _, damaged in sound)


def _sound_samples(path: Path, design: Design) -> tuple[dict[Key, Sample], int]:
    """What a rank's file holds, each sample once, and how many of its lines can't be what the rank wrote. A last line that was cut off is
    neither."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    found = [sample for sample in map(_sample, lines) if sample is not None and _is_plausible(sample, design)]
    return {sample.key: sample for sample in found}, len(lines) - len(found)


def _sample(line: bytes) -> Sample | None:
    try:
        return Sample.model_validate_json(line)
    except ValidationError:
        return None


def _is_plausible(sample: Sample, design: Design) -> bool:
    """Whether the design asks for it, and its times can be times."""
    asked = 0 <= sample.index < design.points[sample.kind] and 0 <= sample.sweep < design.sweeps(sample.kind)
    times_us = (*sample.forward_us, *sample.backward_us, *sample.reference_us)
    repeated = len(sample.forward_us) == len(sample.backward_us) >= _FEWEST_REPETITIONS
    tables = len(design.lookups[sample.index].tables) if asked and sample.kind is Kind.LOOKUP else 0
    return asked and repeated and min(times_us) >= 0 and len(sample.tables) == tables


def together(samples: list[list[Sample]], ranks_per_core: float = 1.0) -> dict[tuple[Kind, int], Timed]:
    """The points that all ranks have, by kind and index, in times that pass while all ranks work.

    Ranks that only compute don't wait for each other: the time is the mean of their medians, times the `ranks_per_core` ranks that
    share a core. A collective or a step ends when the slowest rank does: the time is the median of the slowest rank's. A point that
    was measured in several sweeps has the mean of their times.
    """
    by_key: dict[Key, list[Sample]] = defaultdict(list)
    for sample in (sample for rank in samples for sample in rank):
        by_key[sample.key].append(sample)
    complete = {key: found for key, found in by_key.items() if len(found) == len(samples)}
    slowness = _slowness(complete)
    by_point: dict[tuple[Kind, int], list[Timed]] = defaultdict(list)
    for (kind, index, sweep), found in complete.items():
        by_point[kind, index].append(_timed(found, ranks_per_core, slowness.get((kind, index, sweep), 1.0)))
    return {point: _mean_sweep(timed) for point, timed in by_point.items()}


def drift(samples: list[list[Sample]]) -> float:
    """How much longer the same work took in the machine's slow moments (90th percentile) than in its fast ones (10th), as a share."""
    found = [sample for rank in samples for sample in rank]
    by_kind: dict[Kind, list[float]] = defaultdict(list)
    for sample in found:
        if sample.reference_us:
            by_kind[sample.kind].append(median(sample.reference_us))
    return max((float(np.divide(*np.quantile(times, [0.9, 0.1]))) - 1.0 for times in by_kind.values()), default=0.0)


def usual_reference_us(samples: list[list[Sample]], kind: Kind) -> float | None:
    """The median time of the reference of a kind, over all rounds; None where it was never timed."""
    by_key: dict[Key, list[tuple[float, ...]]] = defaultdict(list)
    for sample in (sample for rank in samples for sample in rank):
        if sample.kind is kind and sample.reference_us:
            by_key[sample.key].append(sample.reference_us)
    times = [_typical(kind)(found) for found in by_key.values() if len(found) == len(samples)]
    return median(times) if times else None


def _slowness(by_key: dict[Key, list[Sample]]) -> dict[Key, float]:
    """How slow the machine was while each sample was measured: the reference's time in that round over its median time in all rounds."""
    times = {
        key: _typical(key[0])([sample.reference_us for sample in found])
        for key, found in by_key.items()
        if all(sample.reference_us for sample in found)
    }
    usual = {kind: median(time_us for key, time_us in times.items() if key[0] is kind) for kind, *_ in times}
    return {key: time_us / usual[key[0]] for key, time_us in times.items()}


def _timed(found: list[Sample], ranks_per_core: float, slowness: float) -> Timed:
    kind = found[0].kind
    typical, share = _typical(kind), 1.0 if kind in _TOGETHER else ranks_per_core
    return Timed(
        forward_us=share * typical([sample.forward_us for sample in found]),
        backward_us=share * typical([sample.backward_us for sample in found]),
        tables=tuple(_mean_counts(tables) for tables in zip(*(sample.tables for sample in found), strict=True)),
        slowness=slowness,
    )


def _mean_sweep(timed: list[Timed]) -> Timed:
    return Timed(
        forward_us=fmean(one.forward_us for one in timed),
        backward_us=fmean(one.backward_us for one in timed),
        tables=timed[0].tables,
        slowness=fmean(one.slowness for one in timed),
    )


def _typical(kind: Kind) -> Callable[[list[tuple[float, ...]]], float]:
    return _slowest if kind in _TOGETHER else _mean


def _slowest(times: list[tuple[float, ...]]) -> float:
    slowest: list[float] = [max(at_once) for at_once in zip(*times, strict=True)]
    return median(slowest)


def _mean(times: list[tuple[float, ...]]) -> float:
    return fmean(median(of_rank) for of_rank in times)


def _mean_counts(tables: tuple[TableCounts, ...]) -> TableCounts:
    counted = {key: fmean(getattr(table, key) for table in tables) for key in ("lookups", "unique_rows")}
    return tables[0].model_copy(update=counted)


def repeat_noise(samples: list[list[Sample]]) -> float:
    """Median over points of the relative difference between the median of a point's first and of its last repetitions."""
    differences = []
    for sample in (sample for rank in samples for sample in rank):
        for times in (sample.forward_us, sample.backward_us):
            half = len(times) // 2
            first, last = median(times[:half]), median(times[-half:])
            # Directions that do nothing take no time worth comparing.
            if first + last > 2 * _WORTH_COMPARING_US:
                differences.append(2 * abs(first - last) / (first + last))
    return median(differences)
