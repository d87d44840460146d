"""ShadowSync: a trainer's dense parameters are averaged in the background, and no round waits for it.

Zheng et al., "ShadowSync: Performing Synchronization in the Background for Highly Scalable Distributed Training", arXiv 2003.03477.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from emplace.executor.asynchronous.job import FleetJob
from emplace.executor.asynchronous.model import DenseModel
from emplace.executor.asynchronous.progress import Marks, Rounds
from emplace.executor.asynchronous.thread import average

_LOOK_S = 2e-3


def cast_shadow(
    job: FleetJob, turns: Sequence[range], model: DenseModel, rounds: Rounds, dense_servers: list[Connection], marks: Marks
) -> None:
    """Average whenever the trainer has done `tau` rounds more, and when it has done all. `turns` has the rounds of a thread in each of them."""
    threads, averaged_at = job.settings.threads, 0
    for turn in turns:
        while (done := rounds.total()) <= threads * turn.start:
            time.sleep(_LOOK_S)
        marks.begin()
        while done < threads * turn.stop:
            if done < averaged_at + job.settings.tau:
                time.sleep(_LOOK_S)
            else:
                average(model, dense_servers, job)
                averaged_at = done
                marks()
            done = rounds.total()
        marks()
    if averaged_at < threads * job.rounds:
        average(model, dense_servers, job)
        marks()
