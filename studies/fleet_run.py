"""A small asynchronous fleet trained here: predicted beside measured, and its quality beside that of synchronous training."""

from __future__ import annotations

from emplace.executor.asynchronous.job import FleetJob, FleetTurns
from emplace.executor.asynchronous.measured import FleetMeasurement
from emplace.executor.asynchronous.run import FleetLaunch, train_fleets
from emplace.executor.asynchronous.settings import FleetSettings
from emplace.hardware.machine import cores_here
from emplace.placement.document import Document
from emplace.studies.fleet_prediction import FleetLoads, RoundCosts, measured_loads, predicted_loads

_QUIET = 0.8
"""The least busy share of what limits, over the predicted one, on a machine with nothing else to do."""
_ALONE_ROUNDS, _ALONE_AVERAGES = 2000, 4
"""Rounds of one thread alone at most, but for as many averages."""
_LEAST_ROUNDS = 60
_TURN_ROUNDS, _MOST_TURNS = 40, 10
"""Rounds of a turn of the fleet, at least; and its turns. A machine's speed changes within seconds, so turns are to be short."""


class FleetRun(Document):
    """What `emplace asynchronous` found."""

    settings: FleetSettings
    cores: int
    alone: FleetMeasurement
    """One thread of one trainer with servers of its own, as many and such as the fleet's, in turns with it: what a round costs each of them."""
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
    """Train the fleet, and one thread alone in turns with it; then, as a baseline, synchronously. Raises ExecutionFailed."""
    cores = cores_here()
    alone, fleet = _in_turns(settings, launch)
    return FleetRun(
        settings=settings,
        cores=cores,
        alone=alone,
        asynchronous=fleet,
        synchronous=_together(settings, launch) if baseline else None,
        predicted=predicted_loads(settings, RoundCosts.of(alone), cores),
        measured=measured_loads(settings, fleet, cores),
    )


def _in_turns(settings: FleetSettings, launch: FleetLaunch) -> list[FleetMeasurement]:
    """One thread alone, and the fleet: one turn of it between each two of the thread."""
    turns = min(max(settings.rounds // _TURN_ROUNDS, 1), _MOST_TURNS)
    both = FleetTurns(fleets=(FleetJob(settings=_alone(settings)), FleetJob(settings=settings)), order=(*(0, 1) * turns, 0))
    launch.report(f"training asynchronously, in turns with one thread alone, in {len(both.roles)} processes")
    return train_fleets(both, launch)


def _together(settings: FleetSettings, launch: FleetLaunch) -> FleetMeasurement:
    baseline = FleetTurns(fleets=(FleetJob(settings=settings, synchronous=True),), order=(0,))
    launch.report(f"training synchronously in {len(baseline.roles)} processes")
    (trained,) = train_fleets(baseline, launch)
    return trained


def _alone(settings: FleetSettings) -> FleetSettings:
    rounds = max(_LEAST_ROUNDS, min(max(_ALONE_ROUNDS, _ALONE_AVERAGES * settings.tau), settings.rounds))
    return settings.model_copy(update={"trainers": 1, "threads": 1, "rounds": rounds})
