"""How close to the best the points of studies are, and what they take: 198 of the template `suite`, 60 of the production models.

    python -m benchmarks.study_points [suite|production] > RESULTS.jsonl

Sweeps, as `emplace sweep` makes them, on as many cores as this machine has. A JSON line for each: the seconds that it took, and the gaps of
its points.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import emplace
from benchmarks.json_lines import emit
from emplace.hardware.machine import cores_here
from emplace.placement.catalog import find_model
from emplace.placement.catalog.suite import SuiteSettings
from emplace.studies.grid import Setting
from emplace.studies.sweep import STUDY_GAP, SweepStudy, axes_of, run_sweep

SUITE_HOSTS = ("cpu-dual-socket", "big-basin-32g", "zion")
SUITE_VARIED = ("/sparse=4,8,16,32,64,128", "/batch=10,20,50,100,200,400,800,1600,3200,6400,12800")
PRODUCTION = ("m1", "m2", "m3")
PLACED = {
    "zion": ("hbm", "ddr"),
    "big-basin-32g": ("remote",),
    "big-basin-16g": ("hbm", "ddr", "remote"),
    "cpu-dual-socket": ("ddr", "remote"),
}
"""Where tables may be on each host: Zion, and remote servers beside each kind of memory."""
BATCHES = "/local_batch_size=200,400,800,1600,3200"


def main() -> None:
    asked = sys.argv[1] if len(sys.argv) == 2 else ""
    if len(sys.argv) > 2 or asked not in ("", "suite", "production"):
        sys.exit(__doc__)
    processes = cores_here()
    for name, study in _studies(asked):
        _solve(name, study, processes)


def _studies(asked: str) -> Iterator[tuple[str, SweepStudy]]:
    if asked != "production":
        yield "suite", _study(SuiteSettings(), SUITE_HOSTS, SUITE_VARIED)
    if asked != "suite":
        for model in PRODUCTION:
            for host, tiers in PLACED.items():
                yield model, _study(find_model(model), (host,), (BATCHES,), tiers=tiers)


def _study(model: Any, hosts: tuple[str, ...], varied: tuple[str, ...], **options: Any) -> SweepStudy:
    setting = Setting(model, emplace.PlanOptions(gap=STUDY_GAP, **options))
    axes = axes_of(varied, of_template=isinstance(model, SuiteSettings))
    return SweepStudy.of(setting, [emplace.read_host(host) for host in hosts], axes, ())


def _tell_nobody(_: int, __: int) -> None:
    pass


def _solve(name: str, study: SweepStudy, processes: int) -> None:
    began_s = time.monotonic()
    sweep = run_sweep(study, processes, _tell_nobody)
    points = [
        {"host": point.host, "values": point.values, "gap": point.figures.gap, "throughput": point.figures.throughput}
        for point in sweep.points
    ]
    emit({"model": name, "tiers": study.setting.options.tiers, "wall_s": time.monotonic() - began_s, "points": points})


if __name__ == "__main__":
    main()
