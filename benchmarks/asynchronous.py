"""Small asynchronous fleets trained here: throughput beside the queueing model's, what limits, and quality beside synchronous training's.

    python -m benchmarks.asynchronous [CASE...] > RESULTS.jsonl

One JSON line a case. Cases differ in what a round asks of whom, so that other stations limit them. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.json_lines import emit
from emplace.executor.asynchronous.run import FleetLaunch
from emplace.executor.asynchronous.settings import fleet_settings
from emplace.studies.fleet_run import FleetRun, run_study

WIDE = ("tables=4", "length=2", "mlp=512^2", "rounds=200")
MANY_LOOKUPS = ("tables=16", "length=20", "mlp=32", "dim=32", "rounds=200")
LARGE_AND_OFTEN = ("tau=1", "mlp=512^3", "batch=8", "tables=4", "length=1")
CASES: dict[str, tuple[str, ...]] = {
    "one thread": ("rounds=2000", "trainers=1", "threads=1"),
    "two threads": ("rounds=2000", "trainers=1", "threads=2"),
    "wide layers, one thread": (*WIDE, "trainers=1", "threads=1"),
    "wide layers": WIDE,
    "wide layers, eight threads": (*WIDE, "trainers=4"),
    "many lookups": MANY_LOOKUPS,
    "many lookups, two trainers of one thread": (*MANY_LOOKUPS, "threads=1"),
    "many lookups, two servers": (*MANY_LOOKUPS, "sparse_servers=2"),
    "large and often averaged": LARGE_AND_OFTEN,
    "large and often averaged, two dense servers": (*LARGE_AND_OFTEN, "dense_servers=2"),
    "averaged in the background": (*WIDE, "tau=8", "averaging=shadowsync"),
}
QUALITY: dict[str, tuple[str, ...]] = {
    "quality, tau 1": ("rounds=1000", "tau=1"),
    "quality, tau 16": ("rounds=1000",),
    "quality, tau 256": ("rounds=1000", "tau=256"),
    "quality, in the background": ("rounds=1000", "averaging=shadowsync"),
    "quality, eight threads": ("rounds=500", "trainers=4"),
}
_TIMEOUT_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join([*CASES, *QUALITY]))
    wanted = parser.parse_args().cases or [*CASES, *QUALITY]
    launch = FleetLaunch(Path(tempfile.gettempdir()), _TIMEOUT_S, lambda line: print(line, file=sys.stderr))
    for case in wanted:
        given = (CASES | QUALITY)[case]
        emit({"case": case, "settings": given} | figures(run_study(fleet_settings(given), launch, baseline=case in QUALITY)))


def figures(found: FleetRun) -> dict[str, Any]:
    """What the table shows of a run."""
    trained, stale = found.asynchronous, found.asynchronous.staleness
    return {
        "cores": found.cores,
        "predicted": found.predicted.to_data(),
        "measured": found.measured.to_data(),
        "predicted_over_measured": found.predicted_over_measured,
        "was_disturbed": found.was_disturbed,
        "quality": trained.quality.to_data(),
        "curve": [point.to_data() for point in trained.curve],
        "synchronous": None if found.synchronous is None else found.synchronous.quality.to_data(),
        "staleness": None if stale is None else stale.to_data(),
    }


if __name__ == "__main__":
    main()
