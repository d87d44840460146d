"""Start a child program of app.steps, follow its progress, and end it when asked: killing it is cancelling it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from emplace.app.steps.child import PARENT_VARIABLE
from emplace.runtime.temporary import temporary_folder

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_GRACE_SECONDS = 10.0
_SHOWN_CHARACTERS = 500


@dataclass
class ChildFailed(Exception):
    """The child ended without a result. `problems` are the broken rules of its input, if that was the reason."""

    message: str
    problems: list[dict[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.message


class ChildStopped(Exception):
    """`should_stop` said so, and the child and its process group are gone."""


def run_child(
    step: str,
    document: str,
    on_progress: Callable[[dict[str, Any]], None],
    should_stop: Callable[[], bool],
    timeout_s: float | None = None,
) -> str:
    """Give `document` to the program app.steps.<step> and return the text of its result.

    The child leads its own process group and runs in a folder of its own that is removed afterwards. The calling thread
    must live as long as the child: the kernel ends the child when that thread ends.
    Raises ChildStopped, ChildFailed.
    """
    with temporary_folder(step) as folder:
        source, target, stderr = folder / "input.json", folder / "output.json", folder / "stderr.txt"
        source.write_text(document, encoding="utf-8")
        with stderr.open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", f"emplace.app.steps.{step}", str(source), str(target)],
                cwd=folder,
                env=os.environ | {PARENT_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        error: dict[str, Any] | None = None
        try:
            for line in _lines(child, should_stop, timeout_s):
                if "progress" in line:
                    on_progress(line["progress"])
                error = line.get("error", error)
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"the {step} process did not end after its result") from None
        finally:
            _end(child)
        if child.returncode == 0 and target.exists():
            return target.read_text(encoding="utf-8")
        if error is not None:
            raise ChildFailed(error["message"], error["problems"])
        raise ChildFailed(_why(step, child.returncode, stderr.read_text(encoding="utf-8", errors="replace")))


def _lines(child: subprocess.Popen[bytes], should_stop: Callable[[], bool], timeout_s: float | None) -> Iterator[dict[str, Any]]:
    """What the child reports until it closes its output. Raises ChildStopped, ChildFailed for the time-out."""
    assert child.stdout is not None
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    unread = b""
    while True:
        if should_stop():
            raise ChildStopped
        if deadline is not None and time.monotonic() > deadline:
            raise ChildFailed(f"it took longer than {timeout_s:g} s and was ended")
        ready, _, _ = select.select([child.stdout], [], [], _POLL_SECONDS)
        if not ready:
            continue
        chunk = os.read(child.stdout.fileno(), 1 << 16)
        if not chunk:
            return
        *lines, unread = (unread + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the child's process group, whatever state it is in; gently first."""
    assert child.stdout is not None
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()


def _signal_group(group: int, kind: signal.Signals) -> None:
    try:
        os.killpg(group, kind)
    except ProcessLookupError:
        return


def _why(step: str, returncode: int, stderr: str) -> str:
    if returncode < 0:
        hint = "; the machine may have run out of memory" if returncode == -signal.SIGKILL else ""
        return f"the {step} process was ended by {signal.Signals(-returncode).name}{hint}"
    _log.error("the %s process ended with status %s:\n%s", step, returncode, stderr)
    last_line = (stderr.strip() or "it said nothing").splitlines()[-1]
    return f"the {step} process ended with status {returncode}: {last_line[:_SHOWN_CHARACTERS]}"
