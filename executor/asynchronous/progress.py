"""How far a process is, and how far the threads of a trainer are: a number each, in memory that they share."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from emplace.executor.asynchronous.job import Mark


class Marks:
    """When a process was how far, by the machine's clock and by its own processor time, turn by turn."""

    def __init__(self) -> None:
        self.turns: list[list[Mark]] = []

    def begin(self) -> None:
        """A turn begins."""
        self.turns.append([])
        self()

    def __call__(self) -> None:
        self.turns[-1].append(Mark(at_s=time.monotonic(), cpu_s=time.process_time()))


class Rounds:
    """Rounds that each thread of a trainer has done. Every thread writes its own number alone."""

    def __init__(self, path: Path, threads: int) -> None:
        with path.open("ab") as file:
            file.truncate(8 * threads)
        self._done = np.memmap(path, dtype=np.int64, mode="r+", shape=(threads,))

    def add(self, thread: int) -> None:
        self._done[thread] += 1

    def total(self) -> int:
        """Rounds of all threads."""
        return int(self._done.sum())
