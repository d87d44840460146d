"""Why a plan is as fast as it is and no faster, as a part of its document: what `emplace plan --explain` adds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from emplace.placement.document import Document, Patch
from emplace.placement.model import Name
from emplace.placement.stages import Stage


class StageCost(Document):
    """How long a stage lasts, and who makes it last."""

    stage: Stage
    time_us: float
    share: float
    """What part of the step it is."""
    mean_us: float
    """The mean over ranks of what they need; of the dense layers over trainers. The rest of `time_us` is imbalance."""
    slowest_ranks: tuple[Annotated[int, Field(ge=0)], ...]
    """Those that need longest; all of several that need as long."""


class TableCost(Document):
    """What a table costs the step."""

    name: Name
    time_us: float
    """What it adds to the slowest ranks, all stages together; of several that are slowest, to their mean."""
    share: float
    """What part of the step it is."""
    stages_us: dict[Stage, float]
    """That by stage, where it is anything."""
    mean_us: float
    """What it adds to a rank in the mean: what is saved about without it, once the others are spread anew."""
    saved_us: float
    """How much shorter the step is without its shards, all other tables where they are and the dense layers as they are."""


class HardwareChange(Document):
    """More hardware, what the bound's dual prices promise of it, and what solving with it found."""

    change: str
    kind: str
    patch: Patch
    """As of a fix; prices of a datasheet follow."""
    estimated_us: float | None = None
    """By how much the bound moves at its dual prices; below zero is faster. Absent where they say nothing."""
    fits: bool | None = None
    """Whether a plan was found: false where it is proven that there is none, absent where it was not solved or is undecided."""
    step_time_us: float | None = None
    """The step of the best plan found: that of solving anew, or this placement where it is faster with the change."""
    lower_bound_us: float | None = None
    throughput_samples_per_s: float | None = None


class Diagnosis(Document):
    """What makes a plan's step last, and what would shorten it."""

    constant_us: float
    """The step without tables: no placement changes it."""
    stages: tuple[StageCost, ...]
    """In the order of a step."""
    tables: tuple[TableCost, ...]
    """Those that cost most on the slowest ranks or in the mean, dearest first."""
    changes: tuple[HardwareChange, ...] = ()
    """By what is expected of them, most first."""
    notes: tuple[str, ...] = ()
    """What to know before believing it, and what is left out."""
