"""Trains small fleets on this machine, and says what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emplace.executor.asynchronous.job import FleetRankReport, FleetTurns, fleet_folder, fleet_report_path, fleet_turns_path
from emplace.executor.asynchronous.measured import FleetMeasurement, measured_fleet
from emplace.executor.errors import ExecutionFailed
from emplace.placement.errors import InvalidDocument
from emplace.placement.reading import read_file
from emplace.runtime.files import write_whole
from emplace.runtime.ranks import RanksFailed, RanksTimedOut, run_ranks
from emplace.runtime.temporary import temporary_folder

_TOLD_EVERY_S = 10.0


@dataclass(frozen=True)
class FleetLaunch:
    """Where fleets train, for how long at most, and who hears of it."""

    workdir: Path
    """Temporary files go under it and are removed."""
    timeout_s: float
    report: Callable[[str], None]


def train_fleets(turns: FleetTurns, launch: FleetLaunch) -> list[FleetMeasurement]:
    """Train each fleet, in a process for each thread and server. No process survives. Raises ExecutionFailed."""
    ranks = len(turns.roles)
    try:
        with temporary_folder("fleet", launch.workdir) as folder:
            for fleet in range(len(turns.fleets)):
                fleet_folder(folder, fleet).mkdir()
            write_whole(fleet_turns_path(folder), turns.canonical_json())
            run_ranks(
                ["emplace.executor.asynchronous.rank", str(fleet_turns_path(folder))], ranks, folder, launch.timeout_s, _patient(launch)
            )
            return _measured(turns, _read_reports(folder, ranks))
    except RanksTimedOut as late:
        raise ExecutionFailed(f"training {late}") from None
    except RanksFailed as failure:
        raise ExecutionFailed(str(failure), failure.rank) from None
    except OSError as error:
        raise ExecutionFailed(f"can't write what the training needs: {error.strerror} ({error.filename or launch.workdir})") from error


def _measured(turns: FleetTurns, reports: Sequence[FleetRankReport]) -> list[FleetMeasurement]:
    return [
        measured_fleet(job, [report for report, (of, _, _) in zip(reports, turns.roles, strict=True) if of == number])
        for number, job in enumerate(turns.fleets)
    ]


def _patient(launch: FleetLaunch) -> Callable[[], None]:
    """Says now and then that training goes on."""
    start = told = time.monotonic()

    def on_poll() -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > _TOLD_EVERY_S:
            told = now
            launch.report(f"still training after {now - start:.0f} s")

    return on_poll


def _read_reports(folder: Path, ranks: int) -> Sequence[FleetRankReport]:
    try:
        return [read_file(fleet_report_path(folder, rank), FleetRankReport) for rank in range(ranks)]
    except InvalidDocument as error:
        raise ExecutionFailed(f"a process ended without its report: {error}") from None
