"""Work on several cores: one process each, in the order of the tasks, ended with the one that asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from emplace.placement.errors import ToolError

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def in_processes(tasks: Sequence[Task], work: Callable[[Task], Answer], processes: int) -> Iterator[Answer]:
    """The answers in the order of the tasks; with one process, or one task, in this one.

    Raises ToolError where a process ends by itself. Whatever ends this, its processes end too.
    """
    workers = min(len(tasks), processes)
    if workers <= 1:
        yield from map(work, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)) as pool:
        try:
            yield from pool.map(work, tasks)
        except BrokenProcessPool:
            raise ToolError("a process that solves was ended from outside; is there enough memory? Study fewer points at once") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.kill()
            raise


def _begin(parent_pid: int) -> None:
    """Ctrl-C is for the process that the person started. When that one ends, so does this."""
    from emplace.runtime.process import die_with

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent_pid, signal.SIGKILL)
