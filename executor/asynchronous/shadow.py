"""ShadowSync: a trainer's dense parameters are averaged in the background, and no round waits for it.

Zheng et al., "ShadowSync: Performing Synchronization in the Background for Highly Scalable Distributed Training", arXiv 2003.03477.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from emplace.executor.asynchronous.job import FleetJob
from emplace.executor.asynchronous.model import DenseModel
from emplace.executor.asynchronous.progress import Rounds
from emplace.executor.asynchronous.thread import average

_LOOK_S = 2e-3


def cast_shadow(job: FleetJob, model: DenseModel, rounds: Rounds, dense_servers: list[Connection], mark: Callable[[], None]) -> None:
    """Average whenever the trainer has done `tau` rounds more, until it has done all."""
    settings = job.settings
    all_rounds, averaged_at = settings.threads * job.rounds, 0
    mark()
    while averaged_at < all_rounds:
        done = rounds.total()
        if done < min(averaged_at + settings.tau, all_rounds):
            time.sleep(_LOOK_S)
            continue
        average(model, dense_servers, job)
        averaged_at = done
        mark()
