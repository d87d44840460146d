"""Measurement: what happened when a plan was executed."""

from __future__ import annotations

from typing import Literal

from placement.document import Document
from placement.stages import Stage


class Verdict(Document):
    """One check of an execution."""

    name: str
    """audit, placement, numerics, memory or throughput."""
    passed: bool
    detail: str
    """The figures the verdict rests on, for a person."""


class RankMeasurement(Document):
    rank: int
    step_times_us: tuple[float, ...]
    median_step_time_us: float
    stages_us: dict[Stage, float]
    """Medians; the wait for the slowest rank is inside the stage that waited."""
    peak_bytes: int
    """Above what the process held before the model was built."""
    predicted_bytes: int


class Measurement(Document):
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
    step_time_us: float
    """Median over steps of the slowest rank."""
    step_time_p5_us: float
    step_time_p95_us: float
    predicted_step_time_us: float
    throughput_samples_per_s: float
    predicted_throughput_samples_per_s: float
    ranks: tuple[RankMeasurement, ...]
    verdicts: tuple[Verdict, ...]
    verified: bool
    """All verdicts passed."""
