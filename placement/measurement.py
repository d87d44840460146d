"""Measurement: what happened when a plan was executed."""

from __future__ import annotations

from typing import Literal

from emplace.placement.document import Document
from emplace.placement.stages import Stage


class Verdict(Document):
    """One check of an execution."""

    name: str
    """audit, placement, numerics, memory or throughput."""
    passed: bool | None = None
    """Absent where nothing was checked, as an emulation can't check throughput."""
    detail: str
    """The figures the verdict rests on, for a person."""


class RankMeasurement(Document):
    rank: int
    step_times_us: tuple[float, ...]
    median_step_time_us: float
    stages_us: dict[Stage, float]
    """Medians; the wait for the slowest rank is inside the stage that waited."""
    peak_bytes: int
    """The most that was held at once, above what the process held before the model was built."""
    predicted_bytes: int


class Emulation(Document):
    """What stood in for the plan's own host and model: CPU ranks, and tables and batches scaled down to fit."""

    host: str
    """The host that the plan is for."""
    holds: bool
    """Every verdict that an emulation can give passed."""
    rows: int
    """Rows of all tables of the plan together."""
    emulated_rows: int
    """Rows of all tables together that were trained in their place."""
    local_batch_size: int
    emulated_local_batch_size: int
    stand_ins: tuple[str, ...] = ()
    """What ran otherwise than planned, and why."""


class ReferenceTimes(Document):
    """Medians of the reference step: in the profile that prices come from, before and after the training, and in turns with it."""

    profiled_us: float
    before_us: float
    between_us: float
    after_us: float
    exponent: float = 1.0
    """The power of the slowness that counts: less than 1 in measurements of when it was the cost model's `reference_exponent`."""

    @property
    def slowness(self) -> float:
        """How many times as long as in the profile whole steps take now, by the reference in turns with the training."""
        return float((self.between_us / self.profiled_us) ** self.exponent)


class Measurement(Document):
    """What a run of a plan took, and what it verified.

    An emulated run has no times, no throughput and no `ranks`: they would say nothing about the plan's host.
    """

    schema_version: Literal[1] = 1
    plan_digest: str
    host_fingerprint: str
    backend: str
    """gloo or nccl."""
    software: dict[str, str]
    measured_at: str
    steps: int
    warmup_steps: int
    seed: int
    trace: str | None = None
    """The file that the ids of the batches came from, by name; absent when they were drawn from the spec's distributions."""
    emulated: Emulation | None = None
    step_time_us: float | None = None
    """Median over steps; each lasts as long as on its slowest rank."""
    step_time_p5_us: float | None = None
    step_time_p95_us: float | None = None
    predicted_step_time_us: float
    reference: ReferenceTimes | None = None
    """Absent where the cost model was not measured with it, or with another number of ranks."""
    throughput_samples_per_s: float | None = None
    predicted_throughput_samples_per_s: float
    ranks: tuple[RankMeasurement, ...]
    verdicts: tuple[Verdict, ...]
    verified: bool
    """All verdicts were given and passed. Never true of an emulation, which can't give them all."""

    @property
    def status(self) -> Literal["verified", "emulated", "not verified"]:
        """`verified`, `emulated` where what an emulation can check holds, else `not verified`."""
        if self.verified:
            return "verified"
        return "emulated" if self.emulated is not None and self.emulated.holds else "not verified"
