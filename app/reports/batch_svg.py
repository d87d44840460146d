"""Batch sizes as figures: throughput with its saturation point, and the time to a quality."""

from __future__ import annotations

from collections.abc import Callable

from emplace.app.reports.sweep_svg import MOST_SERIES, PlottedLevel, Series, level_of, series_svg
from emplace.studies.batch import BatchPoint, BatchSizes, HostBatches

_AXIS = "batch of a rank"


def throughput_svg(found: BatchSizes) -> str:
    """A line for each of the first hosts, with a ring where it saturates; none where it goes on rising."""
    return _lines(found, lambda point: level_of(point.figures), _saturation, "examples/s", "saturates")


def to_quality_svg(found: BatchSizes) -> str:
    """The same of the time to the quality, with a ring at the best batch; where nobody knows how long it is, over that of the best."""
    unit = "time over the best" if found.curve is None else "seconds to the quality"
    return _lines(found, _time, lambda host: host.best, unit, "soonest")


def _saturation(host: HostBatches) -> int | None:
    return None if host.still_rises else host.saturation


def _time(point: BatchPoint) -> PlottedLevel | None:
    to = point.to_quality
    return None if to is None else PlottedLevel(to.time_over_best if to.time_s is None else to.time_s, to.time_range_s)


def _lines(
    found: BatchSizes, level: Callable[[BatchPoint], PlottedLevel | None], ringed: Callable[[HostBatches], int | None], unit: str, ring: str
) -> str:
    batches = [point.local_batch for point in found.hosts[0].points]
    series = [
        Series(host.host, list(map(level, host.points)), ringed=None if (at := ringed(host)) is None else batches.index(at))
        for host in found.hosts[:MOST_SERIES]
    ]
    return series_svg(series, batches, _AXIS, unit, ring, more=len(found.hosts) - len(series))
