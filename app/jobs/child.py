"""Start a child program of app.steps, follow its progress, and end it when asked: killing it is cancelling it."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from emplace.app.jobs.child_errors import ChildFailed, ChildLost, ChildStopped
from emplace.app.jobs.warm import ForkedChild, WarmProcess
from emplace.runtime.output import Heard, lines
from emplace.runtime.process import running
from emplace.runtime.temporary import temporary_folder

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_GRACE_SECONDS = 10.0
_SHOWN_CHARACTERS = 500


def run_child(
    step: str,
    document: str,
    on_progress: Callable[[dict[str, Any]], None],
    should_stop: Callable[[], bool],
    timeout_s: float | None = None,
    niceness: int = 0,
    warm: WarmProcess | None = None,
) -> str:
    """Give `document` to the program app.steps.<step> and return the text of its result. `niceness` as in nice(1).

    With `warm` the child is a fork of that process, which has imported what `solve` and `check` need.

    The child leads its own process group and runs in a folder of its own that is removed afterwards. The calling thread
    must live as long as the child: the kernel ends the child when that thread ends.
    Raises ChildStopped, ChildFailed, ChildLost.
    """
    with temporary_folder(step) as folder:
        source, target = folder / "input.json", folder / "output.json"
        source.write_text(document, encoding="utf-8")
        error: dict[str, Any] | None = None
        with _started(step, source, target, warm) as child:
            _give_way(child.pid, niceness)
            stderr = Heard(child.stderr)
            for line in _reports(child, should_stop, timeout_s):
                if "progress" in line:
                    on_progress(line["progress"])
                error = line.get("error", error)
            try:
                child.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                raise ChildFailed(f"the {step} process did not end after its result") from None
        assert child.returncode is not None
        if child.returncode == 0 and target.exists():
            return target.read_text(encoding="utf-8")
        if error is not None:
            raise ChildFailed(error["message"], error["problems"])
        if isinstance(child, ForkedChild) and child.is_lost:
            raise ChildLost(f"the process that does {step} ended with all it had in hand")
        raise ChildFailed(_why(step, child.returncode, stderr.text()))


@contextmanager
def _started(step: str, source: Path, target: Path, warm: WarmProcess | None) -> Iterator[subprocess.Popen[bytes] | ForkedChild]:
    """The child program in the folder of its input; nothing of it is left afterwards."""
    if warm is not None:
        with warm.forked(step, source, target, patience_s=_GRACE_SECONDS) as fork:
            yield fork
        return
    module, folder = f"emplace.app.steps.{step}", source.parent
    pipe = subprocess.PIPE
    with running(module, [str(source), str(target)], patience_s=_GRACE_SECONDS, folder=folder, stdout=pipe, stderr=pipe) as child:
        yield child


def _give_way(pid: int, niceness: int) -> None:
    """Lower the priority of a process that leads a session. Where Linux groups processes by session (sched(7), autogroup), a process's
    own niceness counts within its session only, and the group's against all others."""
    if niceness:
        with suppress(ProcessLookupError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, pid, niceness)
        with suppress(OSError):  # no groups here; or ten changes a second are made already, which is all that Linux takes
            (Path("/proc") / str(pid) / "autogroup").write_text(str(niceness))


def _reports(
    child: subprocess.Popen[bytes] | ForkedChild, should_stop: Callable[[], bool], timeout_s: float | None
) -> Iterator[dict[str, Any]]:
    """What the child reports until it closes its output. Raises ChildStopped, ChildFailed for the time-out."""
    assert child.stdout is not None
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    for line in lines(child.stdout, _POLL_SECONDS):
        if line is not None:
            yield json.loads(line)
        elif should_stop():
            raise ChildStopped
        elif time.monotonic() > deadline:
            raise ChildFailed(f"it took longer than {timeout_s:g} s and was ended", took_too_long=True)


def _why(step: str, returncode: int, stderr: str) -> str:
    if returncode < 0:
        hint = "; the machine may have run out of memory" if returncode == -signal.SIGKILL else ""
        return f"the {step} process was ended by {signal.Signals(-returncode).name}{hint}"
    _log.error("the %s process ended with status %s:\n%s", step, returncode, stderr)
    last_line = (stderr.strip() or "it said nothing").splitlines()[-1]
    return f"the {step} process ended with status {returncode}: {last_line[:_SHOWN_CHARACTERS]}"
