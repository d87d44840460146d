"""A small asynchronous fleet trained here: predicted beside measured, and its quality beside that of synchronous training."""

from __future__ import annotations

import os

from emplace.executor.asynchronous.job import FleetJob
from emplace.executor.asynchronous.measured import FleetMeasurement
from emplace.executor.asynchronous.run import FleetLaunch, train_fleet
from emplace.executor.asynchronous.settings import FleetSettings
from emplace.hardware.machine import usable_cores
from emplace.placement.document import Document
from emplace.studies.fleet_prediction import FleetLoads, RoundCosts, measured_loads, predicted_loads

_QUIET = 0.8
"""The least busy share of what limits, over the predicted one, on a machine with nothing else to do."""
_ALONE_ROUNDS, _ALONE_AVERAGES = 1000, 4
"""Rounds of one thread alone at most, but for as many averages: they take seconds, in which a machine's speed shows."""
_LEAST_ROUNDS = 60


class FleetRun(Document):
    """What `emplace asynchronous` found."""

    settings: FleetSettings
    cores: int
    alone: tuple[FleetMeasurement, FleetMeasurement]
    """One thread of one trainer with the same servers, before and after the fleet: what a round costs each of them."""
    asynchronous: FleetMeasurement
    predicted: FleetLoads
    measured: FleetLoads
    synchronous: FleetMeasurement | None = None
    """The baseline: all threads take each step together on parts of one batch, as many updates without staleness."""

    @property
    def predicted_over_measured(self) -> float:
        return self.predicted.throughput_examples_per_s / self.measured.throughput_examples_per_s

    @property
    def was_disturbed(self) -> bool:
        """Whether even what limits was much less busy than predicted: other programs had the cores, so the two say nothing of each other."""
        return max(self.measured.utilisation.values()) < _QUIET * max(self.predicted.utilisation.values())


def run_study(settings: FleetSettings, launch: FleetLaunch, *, baseline: bool) -> FleetRun:
    """Train one thread alone, the fleet, the thread alone again, then, as a baseline, synchronously. Raises ExecutionFailed."""
    cores, one_thread = usable_cores(len(os.sched_getaffinity(0))), FleetJob(settings=_alone(settings))
    before = train_fleet(one_thread, launch)
    fleet = train_fleet(FleetJob(settings=settings), launch)
    alone = before, train_fleet(one_thread, launch)
    synchronous = train_fleet(FleetJob(settings=settings, synchronous=True), launch) if baseline else None
    return FleetRun(
        settings=settings,
        cores=cores,
        alone=alone,
        asynchronous=fleet,
        synchronous=synchronous,
        predicted=predicted_loads(settings, RoundCosts.of(alone), cores),
        measured=measured_loads(settings, fleet, cores),
    )


def _alone(settings: FleetSettings) -> FleetSettings:
    rounds = max(_LEAST_ROUNDS, min(max(_ALONE_ROUNDS, _ALONE_AVERAGES * settings.tau), settings.rounds))
    return settings.model_copy(update={"trainers": 1, "threads": 1, "rounds": rounds})
