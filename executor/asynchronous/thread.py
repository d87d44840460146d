"""A Hogwild thread: rounds of lookup, forward and backward, update, and now and then an average.

It is a process. Python's threads would take turns at the interpreter's lock, which no trainer of a real fleet has; what makes them
Hogwild threads of one trainer is that they update the same dense parameters in the same memory without a lock (Niu et al., "Hogwild!",
NeurIPS 2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from emplace.executor.asynchronous.job import FleetJob, HeldOutQuality, StalenessSum
from emplace.executor.asynchronous.links import NOTHING, exchange
from emplace.executor.asynchronous.model import DenseModel
from emplace.executor.asynchronous.progress import Marks, Rounds
from emplace.executor.click_task import Examples, best_entropy, normalised_entropy
from emplace.executor.errors import ExecutionFailed

_EVALUATED_AT_ONCE = 1000
_DIVERGED = "the training diverged: its loss is no number any more; a smaller learning_rate or mlp may help"
Floats = NDArray[np.float32]


def average(model: DenseModel, dense_servers: list[Connection], job: FleetJob) -> None:
    """Move the parameters towards the centre, and the centre towards them."""
    values = model.values
    parts = [job.parameters_of(server, len(values)) for server in range(len(dense_servers))]
    for part, move in zip(parts, exchange(dense_servers, [values[part] for part in parts]), strict=True):
        values[part] -= move


@dataclass
class Thread:
    """One of a trainer's threads, by its number among all threads of the fleet."""

    job: FleetJob
    number: int
    model: DenseModel
    rounds: Rounds
    sparse_servers: list[Connection]
    dense_servers: list[Connection]
    peers: dist.ProcessGroup | None
    """All threads where they train synchronously, None where they don't."""
    losses: list[float] = field(default_factory=list)
    staleness: StalenessSum = field(default_factory=StalenessSum)

    def train(self, turn: range, examples: Examples, averages: bool, marks: Marks) -> None:
        """The rounds of a turn, on their part of all examples; `averages` says whether this thread also brings its trainer to the dense servers."""
        job, batch = self.job, self.job.batch
        marks.begin()
        for number in turn:
            self._round(examples.part(number * batch, (number + 1) * batch))
            if averages and (number + 1) % job.settings.tau == 0:
                average(self.model, self.dense_servers, job)
            marks()

    def _round(self, examples: Examples) -> None:
        pooled = self._look_up(examples)
        seen = self.rounds.total()
        loss, gradient = self.model.learn(examples, pooled)
        if not math.isfinite(loss):
            raise ExecutionFailed(_DIVERGED)
        if self.peers is not None:
            gradient = self._together(gradient)
        self.staleness.add(self.rounds.total() - seen)
        self.model.update()
        self.rounds.add(self.number % self.job.settings.threads)
        exchange(self.sparse_servers, [gradient[:, held] for held in self._held])
        if self.peers is not None:
            dist.barrier(self.peers)  # nobody looks up before all have updated
        self.losses.append(loss)

    def _together(self, gradient: Floats) -> Floats:
        """Average the dense gradients of all threads; the sparse ones of this thread as its part of the batch."""
        dist.all_reduce(self.model.gradient, group=self.peers)
        self.model.gradient /= self.job.settings.customers
        return gradient / np.float32(self.job.settings.customers)

    @property
    def _held(self) -> list[slice]:
        return [self.job.tables_of(server) for server in range(self.job.settings.sparse_servers)]

    def _look_up(self, examples: Examples) -> Floats:
        """Pooled vectors of all tables, asked of all servers at once."""
        found = exchange(self.sparse_servers, [examples.ids[:, held] for held in self._held])
        shape = (len(examples.clicked), -1, self.job.settings.dim)
        return np.concatenate([part.reshape(shape) for part in found], axis=1)

    def quality(self, held_out: Examples) -> HeldOutQuality:
        """How well held-out examples are predicted by the centre, or by this thread's parameters where there is none."""
        parameters = np.concatenate(exchange(self.dense_servers, [NOTHING] * len(self.dense_servers)) or [self.model.values.copy()])
        logits = []
        for start in range(0, len(held_out.clicked), _EVALUATED_AT_ONCE):
            examples = held_out.part(start, start + _EVALUATED_AT_ONCE)
            pooled = self._look_up(examples)
            exchange(self.sparse_servers, [NOTHING] * len(self.sparse_servers))
            logits.append(self.model.predict(parameters, examples, pooled))
        reached = normalised_entropy(held_out.chance, np.concatenate(logits))
        if not math.isfinite(reached):
            raise ExecutionFailed(_DIVERGED)
        return HeldOutQuality(normalised_entropy=reached, best_normalised_entropy=best_entropy(held_out.chance))
