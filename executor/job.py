"""What the launcher hands to the ranks, and what each rank hands back: documents, so that files are checked when read."""

from __future__ import annotations

from pathlib import Path

from emplace.placement.document import Document
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage

FEWEST_STEPS, _MOST_STEPS, _MEASURED_S = 30, 200, 3.0


def enough_steps(step_us: float) -> int:
    """How many steps of so many microseconds tell what a step takes: those of three seconds.

    A machine changes speed within a second. On a virtual machine of two cores the medians of one half second and of the next differed by a
    tenth.
    """
    return int(min(max(_MEASURED_S * 1e6 / step_us, FEWEST_STEPS), _MOST_STEPS))


class Job(Document):
    """Plans to train in one launch, one after the other or, with several rounds, side by side. All have the same ranks."""

    plans: tuple[Plan, ...]
    local_world_size: int
    """Ranks per node of the plans' topology, which the launch's own may only emulate."""
    warmup_steps: int
    steps: int | None = None
    """Steps that are measured; None for `enough_steps`."""
    staged_steps: int
    rounds: int = 1
    """With more than 1, all plans are held at once and take their steps in so many turns each, to be compared fairly."""
    seed: int
    trace: str | None = None
    """Folder of a trace's examples, laid out as batches; drawn batches without it."""
    folder: str
    """Where ranks write: progress, who they are, their reports."""


class HeldShard(Document):
    """A part of a table that a rank really held: [start, end) of rows and columns, read back from the running model."""

    table: str
    sharding_type: str
    compute_kernel: str
    rank: int
    rows: tuple[int, int]
    columns: tuple[int, int]


class UpdateError(Document):
    """How far one parameter's update is from the unsharded reference's: ||sharded - reference|| / ||reference - start||."""

    parameter: str
    relative_error: float
    relative_update: float
    """||reference - start|| / ||start||: whether there was an update to compare at all."""


class RankReport(Document):
    """One rank's account of one plan."""

    rank: int
    step_times_us: tuple[float, ...]
    reference_us: tuple[tuple[float, ...], ...] = ()
    """Times of the reference step in each visit to it, before, between and after the rounds of the training; empty where it has none."""
    stages_us: dict[Stage, float]
    peak_bytes: int = 0
    """As `peak_memory.peak_bytes`; 0 until that is measured, last of all."""
    held: tuple[HeldShard, ...]
    update_errors: tuple[UpdateError, ...] = ()
    """From rank 0 alone, which runs the reference; empty from the others."""
    backend: str
    software: dict[str, str]


def job_path(folder: Path) -> Path:
    """The job that the ranks read."""
    return folder / "job.json"


def report_path(folder: Path, plan_index: int, rank: int) -> Path:
    """The report that a rank writes about one plan."""
    return folder / f"plan{plan_index}-rank{rank}.json"


def progress_path(folder: Path) -> Path:
    """Lines of progress, which rank 0 appends."""
    return folder / "progress.txt"
