"""Runs the ranks of one job, passes their progress on, and says how they failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from emplace.executor.errors import ExecutionCancelled, ExecutionFailed
from emplace.executor.job import job_path, progress_path
from emplace.runtime.ranks import RanksFailed, RanksTimedOut, run_ranks


def _tell_nobody(_: str) -> None:
    pass


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Launch:
    """How plans are trained: for how long, where, on what, and who hears of it."""

    steps: int | None
    """Steps that are measured, after the warm-up; None for `enough_steps`."""
    seed: int
    """Decides the batches that are drawn."""
    workdir: Path
    """Temporary files go under it and are removed."""
    timeout_s: float
    report: Callable[[str], None] = _tell_nobody
    """Told lines of progress."""
    should_stop: Callable[[], bool] = _never
    """Asked several times a second; the run is cancelled once it says so."""
    program: Sequence[str] = ("emplace.executor.rank",)
    """The module whose main() each rank runs, and its arguments; the job's file comes last."""
    rounds: int = 1
    """With more than one, the plans take turns, so that whatever else the machine does slows all of them alike. All are in memory then,
    and each one's peak is measured in a pass as long as the warm-up."""
    allowed_error: float | None = None
    """How far the prediction may be off, as a share of what is measured; None for the cost model's own stated error."""
    trace: Path | None = None
    """The file whose examples to train on; drawn batches without it."""


def launch_ranks(launch: Launch, ranks: int, folder: Path) -> None:
    """Run the launch's program with `ranks` local ranks on the job in `folder` until all end well.

    Lines that ranks append to the folder's progress file are reported. Raises ExecutionFailed with the root cause when a rank
    fails or time runs out, ExecutionCancelled once the launch is to stop. No process survives.
    """
    progress = _Progress(folder, launch.report)

    def on_poll() -> None:
        progress.pass_on()
        if launch.should_stop():
            raise ExecutionCancelled("the run was cancelled")

    try:
        run_ranks([*launch.program, str(job_path(folder))], ranks, folder, launch.timeout_s, on_poll)
    except RanksTimedOut as late:
        raise ExecutionFailed(f"the run {late}") from None
    except RanksFailed as failure:
        progress.pass_on()
        raise ExecutionFailed(str(failure), failure.rank) from None
    progress.pass_on()


class _Progress:
    """Passes lines of the job's progress file on, each once."""

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self._path, self._report = progress_path(folder), report
        self._told_bytes = 0

    def pass_on(self) -> None:
        """Report the whole lines that were added since the last time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as progress:
            progress.seek(self._told_bytes)
            fresh = progress.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._told_bytes += len(whole)
        for line in whole.decode("utf-8").splitlines():
            self._report(line)
