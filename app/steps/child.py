"""What every child program does alike: die with its parent, report, and end with a result or an error that reads well.

The protocol, on standard output, one JSON object a line:

    {"progress": {...}}                            any number of times
    {"error": {"message": ..., "problems": [...]}} once, when there is no result

The result goes to the file OUTPUT, whole or not at all; the exit status is 0 only then. Anything else that is printed
goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from emplace.placement.errors import EmplaceError, InvalidDocument
from emplace.runtime.files import write_file
from emplace.runtime.process import die_with_parent
from emplace.runtime.temporary import in_use

_GRACE_SECONDS = 20

Report = Callable[[dict[str, Any]], None]
ShouldStop = Callable[[], bool]


def stop_on_sigterm() -> ShouldStop:
    """Turn SIGTERM into a flag, for work that has to clean up. What has not stopped after a grace period is ended by the kernel."""
    stopping = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        signal.alarm(_GRACE_SECONDS)

    signal.signal(signal.SIGTERM, stop)
    return lambda: stopping


def run_step(work: Callable[[str, Report], str]) -> None:
    """Run `work(input text, report)` and write its result to OUTPUT."""
    die_with_parent(signal.SIGTERM)
    do_step(work, Path(sys.argv[1]), Path(sys.argv[2]))


def do_step(work: Callable[[str, Report], str], source: Path, target: Path) -> None:
    """The same in a process that is set up already."""
    report = _protocol_output()
    try:
        with in_use(source.parent):
            write_file(target, work(source.read_text(encoding="utf-8"), lambda progress: report({"progress": progress})))
    except EmplaceError as error:
        broken = error.broken_rules if isinstance(error, InvalidDocument) else []
        report({"error": {"message": str(error), "problems": [vars(each) for each in broken]}})
        sys.exit(2)


def _protocol_output() -> Report:
    """Keep standard output for the protocol: libraries that print write to standard error instead."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def report(line: dict[str, Any]) -> None:
        lines.write(json.dumps(line) + "\n")
        lines.flush()

    return report
