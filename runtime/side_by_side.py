"""Work on several cores: one process each, in the order of the tasks, ended with the one that asked."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from emplace.placement.errors import EmplaceError, ToolError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_ENDED = "a process that works beside this one was ended from outside; is there enough memory? Ask for less at once"
_NOT_STARTED = (
    "a process that works beside this one failed at its start, as is said above. It runs this script once more, up to "
    "\"if __name__ == '__main__':\": put what the script does below that line, or ask for processes=1"
)


def in_processes(tasks: Sequence[Task], work: Callable[[Task], Answer], processes: int) -> Iterator[Answer]:
    """The answers in the order of the tasks; with one process, or one task, in this one.

    Raises ToolError for what failed in a process, and where one ends by itself. Whatever ends this, its processes end too: they are
    handed one task after the other, so that nobody waits to hand one to a process that is gone.
    """
    workers = min(len(tasks), processes)
    if workers <= 1:
        yield from map(work, tasks)
        return
    with _Workers(work, workers) as running:
        yield from running.answers(tasks)


class _Workers:
    """Processes, each at the other end of a pipe."""

    def __init__(self, work: Callable[[Any], Any], count: int) -> None:
        self._work, self._count = work, count
        self._running: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, process in self._running.items():
            process.kill()
            pipe.close()
        for process in self._running.values():
            process.join()

    def answers(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """In the order of the tasks, each as soon as it and all before it are there."""
        from multiprocessing.connection import wait

        left, at_work, ready, given = iter(enumerate(tasks)), dict[Any, int](), dict[int, Any](), 0
        for pipe in self._started():
            self._hand(pipe, left, at_work)
        while given < len(tasks):
            for answered in wait(list(at_work)):
                ready[at_work.pop(answered)] = self._answer(answered)
                self._hand(answered, left, at_work)
            while given in ready:
                yield ready.pop(given)
                given += 1

    def _started(self) -> Iterator[Connection]:
        from multiprocessing import get_context

        spawn = get_context("spawn")
        for _ in range(self._count):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(theirs, self._work, os.getpid()), daemon=True)
            process.start()
            theirs.close()
            self._running[ours] = process
            yield ours

    def _hand(self, pipe: Any, left: Iterator[tuple[int, Any]], at_work: dict[Any, int]) -> None:
        """The next task, if there is one."""
        for number, task in left:
            try:
                pipe.send(task)
            except OSError:
                raise self._ended(pipe) from None
            at_work[pipe] = number
            return

    def _answer(self, pipe: Any) -> Any:
        try:
            answer, failed = pipe.recv()
        except (EOFError, OSError):
            raise self._ended(pipe) from None
        if failed:
            raise ToolError(failed)
        return answer

    def _ended(self, pipe: Any) -> ToolError:
        """Why there is nobody at the other end: what fails in a task is answered, so a process that failed did so before any."""
        process = self._running[pipe]
        process.join()
        return ToolError(_NOT_STARTED if process.exitcode == 1 else _ENDED)


def _serve(pipe: Connection, work: Callable[[Any], Any], parent_pid: int) -> None:
    """Ctrl-C is for the process that the person started. When that one ends, so does this."""
    from emplace.runtime.process import die_with

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent_pid, signal.SIGKILL)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_tried(work, pipe.recv()))


def _tried(work: Callable[[Any], Any], task: Any) -> tuple[Any, str]:
    """(answer, "") or (None, what went wrong)."""
    try:
        return work(task), ""
    except EmplaceError as error:
        return None, str(error)
    except Exception:
        return None, f"a process that works beside this one failed; please report this:\n{traceback.format_exc()}"
