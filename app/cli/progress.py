"""Progress on stderr, on terminals only."""

from __future__ import annotations

import sys
from types import TracebackType

from emplace.app.cli.interrupts import raise_what_was_lost
from emplace.solver.progress import Monitor, Progress


class StatusLine:
    """One line that is rewritten in place and wiped at the end. Silent where stderr is no terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self.monitor = Monitor.of(self.solving)

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.say("")

    def say(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def solving(self, progress: Progress) -> None:
        """Where a solve stands."""
        raise_what_was_lost()
        incumbent = "no plan yet" if progress.incumbent_us is None else f"plan {progress.incumbent_us:,.1f} us"
        gap = "" if progress.gap is None else f", gap {progress.gap:.2%}"
        self.say(f"{progress.elapsed_s:6.1f} s  {progress.phase}: {incumbent}, bound {progress.bound_us:,.1f} us{gap}")
