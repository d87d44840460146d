"""What a fleet's processes reported, put together: rates while all were at work, staleness, and how well the model learnt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emplace.executor.asynchronous.job import FleetJob, FleetRankReport, HeldOutQuality, Mark, Role, Staleness, all_staleness
from emplace.executor.click_task import base_entropy
from emplace.executor.errors import ExecutionFailed
from emplace.placement.document import Document

WARMUP_ROUNDS = 5
"""Rounds of each thread in each turn before what is measured begins."""
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


class _Window(NamedTuple):
    """A time in which all threads of a fleet were at work."""

    start_s: float
    end_s: float


def measured_fleet(job: FleetJob, reports: Sequence[FleetRankReport]) -> FleetMeasurement:
    """What reports of all processes of a fleet say. Raises ExecutionFailed where threads were never all at work."""
    threads = [report for report in reports if report.role is Role.THREAD]
    windows = _windows(threads)
    rounds = sum(_rounds(report, windows) for report in threads)
    quality = next(report.quality for report in threads if report.quality is not None)
    return FleetMeasurement(
        throughput_examples_per_s=rounds * job.batch / _lasted_s(windows),
        examples=job.batch * job.rounds * len(threads),
        stations=tuple(_station(report, rounds, windows) for report in reports),
        quality=quality,
        curve=_curve(job, threads),
        staleness=None if job.synchronous else _staleness(reports),
    )


def _windows(threads: Sequence[FleetRankReport]) -> list[_Window]:
    """The times in which all threads were at work and had warmed up, one a turn at most. Raises ExecutionFailed where there is none."""
    turns = zip(*(report.turns for report in threads), strict=True)
    all_at_work = (_Window(max(each[WARMUP_ROUNDS].at_s for each in turn), min(each[-1].at_s for each in turn)) for turn in turns)
    if found := [window for window in all_at_work if window.end_s > window.start_s]:
        return found
    raise ExecutionFailed("one thread had trained all its rounds before another had warmed up: train more rounds, on a quiet machine")


def _rounds(thread: FleetRankReport, windows: Sequence[_Window]) -> float:
    """What a thread has done, parts of rounds included. No round is under way between two turns."""
    marks, in_turns = _marks(thread), [len(turn) for turn in thread.turns]
    done = np.arange(len(marks)) - np.repeat(np.arange(len(in_turns)), in_turns)  # a turn has a mark more than rounds
    return _within(windows, _times(marks), done.astype(np.float64))


def _station(report: FleetRankReport, rounds: float, windows: Sequence[_Window]) -> StationTimes:
    marks = _marks(report)
    cpu_s = _within(windows, _times(marks), np.array([mark.cpu_s for mark in marks]))
    return StationTimes(role=report.role, index=report.index, cpu_us=cpu_s / rounds * 1e6, utilisation=cpu_s / _lasted_s(windows))


def _lasted_s(windows: Sequence[_Window]) -> float:
    return sum(window.end_s - window.start_s for window in windows)


def _marks(report: FleetRankReport) -> list[Mark]:
    return list(chain.from_iterable(report.turns))


def _times(marks: Sequence[Mark]) -> NDArray[np.float64]:
    return np.array([mark.at_s for mark in marks])


def _within(windows: Sequence[_Window], times_s: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """What a growing value grows by in these times, with straight lines between what is known."""
    ends = np.interp(np.array(windows), times_s, values)
    return float((ends[:, 1] - ends[:, 0]).sum())


def _staleness(reports: Sequence[FleetRankReport]) -> FleetStaleness:
    def of_all(role: Role) -> Staleness:
        return all_staleness([(report.staleness, report.updates) for report in reports if report.role is role])

    return FleetStaleness(rows=of_all(Role.SPARSE_SERVER), parameters=of_all(Role.THREAD), centre=of_all(Role.DENSE_SERVER))


def _curve(job: FleetJob, threads: Sequence[FleetRankReport]) -> tuple[LossPoint, ...]:
    """Losses of all threads in the order of time, in as many parts as are shown."""
    at_s = np.concatenate([_times(turn[1:]) for report in threads for turn in report.turns])
    losses = np.concatenate([report.losses for report in threads])[np.argsort(at_s, kind="stable")]
    base = base_entropy(job.settings.task.held_out().chance)
    edges = np.linspace(0, len(losses), min(_CURVE_POINTS, len(losses)) + 1).astype(int)
    return tuple(
        LossPoint(examples=int(end) * job.batch, normalised_entropy=float(losses[start:end].mean()) / base)
        for start, end in pairwise(edges)
    )
