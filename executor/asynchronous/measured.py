"""What a fleet's processes reported, put together: rates while all were at work, staleness, and how well the model learnt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from emplace.executor.asynchronous.job import FleetJob, FleetRankReport, HeldOutQuality, Role, Staleness, all_staleness
from emplace.executor.click_task import base_entropy
from emplace.executor.errors import ExecutionFailed
from emplace.placement.document import Document

WARMUP_ROUNDS = 5
"""Rounds of each thread before what is measured begins."""
_CURVE_POINTS = 20


class StationTimes(Document):
    """Processor time of one process of a role, or of the processes of a role together."""

    role: Role
    index: int
    cpu_us: float
    """For one round of one thread of the fleet, whoever has it."""
    utilisation: float
    """The share of one core that it takes, in the mean over time."""


class LossPoint(Document):
    """Loss on the way: of examples that were not trained on yet, as they came."""

    examples: int
    """Trained on until then."""
    normalised_entropy: float


class FleetStaleness(Document):
    """What others did to what a process read, before its own update of that."""

    rows: Staleness
    """Updates of a sparse server between a lookup and its update."""
    parameters: Staleness
    """Updates of a trainer's dense parameters by its other threads between a read and the update."""
    centre: Staleness
    """Averages of a dense server between two of the same trainer."""


class FleetMeasurement(Document):
    """One training of a fleet."""

    throughput_examples_per_s: float
    """While all threads were at work, after their warm-up."""
    examples: int
    stations: tuple[StationTimes, ...]
    quality: HeldOutQuality
    curve: tuple[LossPoint, ...]
    staleness: FleetStaleness | None = None
    """None of synchronous training: a step's parts are updates of the same model."""

    def cpu_us(self, role: Role) -> tuple[float, ...]:
        """Processor time of a round at each process of a role."""
        return tuple(station.cpu_us for station in self.stations if station.role is role)

    def utilisation(self, role: Role) -> tuple[float, ...]:
        """The share of a core that each process of a role takes."""
        return tuple(station.utilisation for station in self.stations if station.role is role)


def measured_fleet(job: FleetJob, reports: Sequence[FleetRankReport]) -> FleetMeasurement:
    """What reports of all processes say. Raises ExecutionFailed where threads were never all at work."""
    threads = [report for report in reports if report.role is Role.THREAD]
    start_s = max(report.marks[WARMUP_ROUNDS].at_s for report in threads)
    end_s = min(report.marks[-1].at_s for report in threads)
    lasted_s = end_s - start_s
    if lasted_s <= 0:
        raise ExecutionFailed("one thread had trained all its rounds before another had warmed up: train more rounds, on a quiet machine")
    rounds = sum(_between(_times(report), np.arange(len(report.marks), dtype=np.float64), start_s, end_s) for report in threads)
    quality = next(report.quality for report in threads if report.quality is not None)
    return FleetMeasurement(
        throughput_examples_per_s=rounds * job.batch / lasted_s,
        examples=job.batch * job.rounds * len(threads),
        stations=tuple(_station(report, rounds, start_s, end_s) for report in reports),
        quality=quality,
        curve=_curve(job, threads),
        staleness=None if job.synchronous else _staleness(reports),
    )


def _station(report: FleetRankReport, rounds: float, start_s: float, end_s: float) -> StationTimes:
    cpu_s = _between(_times(report), np.array([mark.cpu_s for mark in report.marks]), start_s, end_s)
    return StationTimes(role=report.role, index=report.index, cpu_us=cpu_s / rounds * 1e6, utilisation=cpu_s / (end_s - start_s))


def _times(report: FleetRankReport) -> NDArray[np.float64]:
    return np.array([mark.at_s for mark in report.marks])


def _between(times_s: NDArray[np.float64], values: NDArray[np.float64], start_s: float, end_s: float) -> float:
    """What a growing value grows by in that time, with straight lines between what is known."""
    first, last = np.interp([start_s, end_s], times_s, values)
    return float(last - first)


def _staleness(reports: Sequence[FleetRankReport]) -> FleetStaleness:
    def of_all(role: Role) -> Staleness:
        return all_staleness([(report.staleness, report.updates) for report in reports if report.role is role])

    return FleetStaleness(rows=of_all(Role.SPARSE_SERVER), parameters=of_all(Role.THREAD), centre=of_all(Role.DENSE_SERVER))


def _curve(job: FleetJob, threads: Sequence[FleetRankReport]) -> tuple[LossPoint, ...]:
    """Losses of all threads in the order of time, in as many parts as are shown."""
    at_s = np.concatenate([_times(report)[1:] for report in threads])
    losses = np.concatenate([report.losses for report in threads])[np.argsort(at_s, kind="stable")]
    base = base_entropy(job.settings.task.held_out().chance)
    edges = np.linspace(0, len(losses), min(_CURVE_POINTS, len(losses)) + 1).astype(int)
    return tuple(
        LossPoint(examples=int(end) * job.batch, normalised_entropy=float(losses[start:end].mean()) / base)
        for start, end in pairwise(edges)
    )
