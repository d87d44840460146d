"""Runs as lists show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from emplace.app.dashboard import tones
from emplace.app.database.states import State
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import PlanRow, RunRow
from emplace.placement.measurement import Measurement


@dataclass(frozen=True)
class MeasuredStep:
    run_id: str
    step_time_us: float | None
    verified: bool | None
    error: float | None
    """That of `prediction_error`."""
    tone: tones.Tone


@dataclass(frozen=True)
class RunLine:
    """`word` is what came of the run, or where its job is."""

    id: str
    state: str
    word: str
    tone: tones.Tone
    emulate: bool
    step_time_us: float | None
    error: float | None
    """That of `prediction_error`."""
    created_at: datetime


def prediction_error(predicted_us: float | None, measured_us: float | None) -> float | None:
    """How far a prediction is off, as a share of what was measured, as a run's verdicts say it; None where either is not there."""
    return predicted_us / measured_us - 1 if predicted_us and measured_us else None


def measured_step(row: PlanRow, run: RunRow) -> MeasuredStep:
    error = prediction_error(row.step_time_us, run.step_time_us)
    return MeasuredStep(run.id, run.step_time_us, run.verified, error, tones.of_measured(run.verified, error))


def measurement_of(run: RunRow) -> Measurement | None:
    """Its document; None where it has none yet, or failed. Raises OutdatedDocument."""
    return None if run.document is None else read_stored(run.document, Measurement, f"run {run.id}")


def run_line(row: PlanRow, run: RunRow, measurement: Measurement | None) -> RunLine:
    error = prediction_error(row.step_time_us, run.step_time_us)
    word, tone = run.state, tones.of_job(State(run.state))
    if measurement is not None:
        word = measurement.status
        tone = tones.Tone.CALM if word == "emulated" else tones.of_measured(measurement.verified, error)
    return RunLine(run.id, run.state, word, tone, run.emulate, run.step_time_us, error, run.created_at)
