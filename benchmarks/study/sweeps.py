"""The paper's sweeps of its test suite, one thing varied at a time."""

from __future__ import annotations

from dataclasses import dataclass

import emplace
from emplace.studies.figures import Figures
from emplace.studies.sweep import Sweep

HOSTS = ("cpu-dual-socket", "big-basin-32g", "zion")


@dataclass(frozen=True)
class Varied:
    title: str
    vary: str


SWEEPS = {
    "dense": Varied("dense features", "/dense=64,128,256,512,1024,2048,4096"),
    "sparse": Varied("sparse features", "/sparse=4,8,16,32,64,128"),
    "batch": Varied("examples of a rank", "/batch=10,20,50,100,200,400,800,1600,3200,6400,12800"),
    "hash": Varied("rows of a table", "/hash=1k,10k,100k,1M,5M"),
    "mlp": Varied("width^depth of both MLPs", "/mlp=64^2,128^3,256^3,512^3,1024^3,1024^4"),
}


def run(name: str, processes: int) -> Sweep:
    """The suite with everything else at its defaults, on the paper's hosts."""
    return emplace.sweep("suite", HOSTS, [SWEEPS[name].vary], processes=processes)


def line(sweep: Sweep, host: str) -> list[Figures]:
    """A host's points, in the order of the values."""
    return [point.figures for point in sweep.points if point.host == host]


def throughputs(sweep: Sweep, host: str) -> list[float]:
    return [figures.throughput or 0.0 for figures in line(sweep, host)]
