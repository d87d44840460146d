"""Runs plans on this machine: refuse what can't run here, launch, judge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from executor.errors import ExecutionFailed
from executor.export import local_world_size, plan_topology
from executor.job import Job, RankReport, report_path, write_atomically
from executor.launch import launch_ranks
from executor.refusal import refuse_foreign, refuse_unsound
from executor.verdicts import memory_verdict, numerics_verdict, placement_verdict, predicted_bytes, throughput_verdict
from placement.errors import InvalidDocument
from placement.measurement import Measurement, RankMeasurement, Verdict
from placement.plan import Plan
from placement.reading import read_file
from profiler.discover import discover_host

WARMUP_STEPS = 5
STAGED_STEPS = 10
RANK_PROGRAM = ("-m", "executor.rank")
AUDITED = Verdict(name="audit", passed=True, detail="no violation: coverage, capacity and predicted times were derived again")
"""Of every plan that runs: refuse_unsound stops the others."""


def run_plan(
    plan: Plan,
    steps: int,
    seed: int,
    workdir: Path,
    report: Callable[[str], None],
    should_stop: Callable[[], bool],
    timeout_s: float,
    trace: Path | None = None,
) -> Measurement:
    """Train `steps` steps under `plan`, on the examples of `trace` if there is one, and judge what happened.

    Temporary files go under `workdir` and are removed.

    Raises NotRunnableHere for a plan that can't run on this machine, InvalidDocument for one that its audit rejects, and
    ExecutionFailed with the root cause when a rank fails, time runs out or `should_stop` says so.
    """
    return run_plans([plan], steps, seed, workdir, report, should_stop, timeout_s, trace=trace)[0]


def run_plans(
    plans: Sequence[Plan],
    steps: int,
    seed: int,
    workdir: Path,
    report: Callable[[str], None],
    should_stop: Callable[[], bool],
    timeout_s: float,
    program: Sequence[str] = RANK_PROGRAM,
    rounds: int = 1,
    trace: Path | None = None,
) -> list[Measurement]:
    """Several plans in one launch; they must have the same ranks and nodes. `program` is what each rank runs.

    With several `rounds` the plans take turns, so that whatever else the machine does slows all of them alike: all are in
    memory at once, and each one's peak is that of its warm-up.
    """
    host = discover_host()
    for plan in plans:
        refuse_foreign(plan, host)
        refuse_unsound(plan)
    job, reports = launch_plans(plans, steps, seed, workdir, report, should_stop, timeout_s, program, rounds, trace)
    return [measurement(plan, job, of_plan, trace) for plan, of_plan in zip(plans, reports, strict=True)]


def launch_plans(
    plans: Sequence[Plan],
    steps: int,
    seed: int,
    workdir: Path,
    report: Callable[[str], None],
    should_stop: Callable[[], bool],
    timeout_s: float,
    program: Sequence[str] = RANK_PROGRAM,
    rounds: int = 1,
    trace: Path | None = None,
) -> tuple[Job, list[list[RankReport]]]:
    """Train plans that can run here in one launch: what every rank reported of each. Raises ExecutionFailed."""
    topology = plan_topology(plans[0])
    if any(plan_topology(plan) != topology for plan in plans):
        raise ValueError("plans of one launch must have the same ranks on the same nodes")
    ranks = len(topology.ranks)
    try:
        with tempfile.TemporaryDirectory(dir=workdir, prefix="emplace-run-") as name:
            folder = Path(name)
            job = Job(
                plans=tuple(plans),
                local_world_size=local_world_size(topology),
                warmup_steps=WARMUP_STEPS,
                steps=steps,
                staged_steps=STAGED_STEPS,
                rounds=rounds,
                seed=seed,
                trace=None if trace is None else str(_lay_out(trace, plans, steps, ranks, folder, report)),
                folder=str(folder),
            )
            write_atomically(folder / "job.json", job)
            report(f"starting {ranks} ranks")
            launch_ranks([*program, str(folder / "job.json")], ranks, folder, report, should_stop, timeout_s)
            return job, [_read_reports(folder, index, ranks) for index in range(len(plans))]
    except OSError as error:
        raise ExecutionFailed(f"can't write what the run needs: {error.strerror} ({error.filename})") from error


def _lay_out(trace: Path, plans: Sequence[Plan], steps: int, ranks: int, folder: Path, report: Callable[[str], None]) -> Path:
    """The folder with the trace's examples as the ranks read them."""
    from executor.batches import prepared_count  # torch, which no other part of the launching process needs
    from executor.traces.batches import lay_out
    from executor.traces.reading import open_trace

    spec = plans[0].question.model
    if any(plan.question.model != spec for plan in plans):
        raise ValueError("plans that train on one trace must have the same model")
    report(f"reading {trace}")
    columns, examples = folder / "columns", folder / "trace"
    columns.mkdir()
    examples.mkdir()
    lay_out(open_trace(trace, columns), spec, prepared_count(spec, WARMUP_STEPS + steps) * ranks, examples, report)
    return examples


def _read_reports(folder: Path, plan_index: int, ranks: int) -> list[RankReport]:
    try:
        return [read_file(report_path(folder, plan_index, rank), RankReport) for rank in range(ranks)]
    except InvalidDocument as error:
        raise ExecutionFailed(f"a rank ended without its report: {error}") from None


def measurement(plan: Plan, job: Job, reports: Sequence[RankReport], trace: Path | None = None) -> Measurement:
    """Put the ranks' reports together and judge them. The plan's audit has passed before anything ran."""
    # Steps start together, so a step lasts as long as its slowest rank.
    step_times = np.max([report.step_times_us for report in reports], axis=0)
    step_time_us = float(np.median(step_times))
    examples = plan.question.model.local_batch_size * sum(not rank.is_server for rank in plan.ranks)
    verdicts = (
        AUDITED,
        placement_verdict(plan, [shard for report in reports for shard in report.held]),
        numerics_verdict(plan, reports[0].update_errors),
        memory_verdict(plan, reports),
        throughput_verdict(plan, step_times),
    )
    return Measurement(
        plan_digest=plan.content_digest(),
        host_fingerprint=str(plan.question.host.fingerprint),
        backend=reports[0].backend,
        software=reports[0].software,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        steps=job.steps,
        warmup_steps=job.warmup_steps,
        seed=job.seed,
        trace=None if trace is None else trace.name,
        step_time_us=step_time_us,
        step_time_p5_us=float(np.quantile(step_times, 0.05)),
        step_time_p95_us=float(np.quantile(step_times, 0.95)),
        predicted_step_time_us=plan.step_time_us or 0.0,
        throughput_samples_per_s=examples / step_time_us * 1e6,
        predicted_throughput_samples_per_s=plan.throughput_samples_per_s or 0.0,
        ranks=tuple(
            RankMeasurement(
                rank=report.rank,
                step_times_us=report.step_times_us,
                median_step_time_us=float(np.median(report.step_times_us)),
                stages_us=report.stages_us,
                peak_bytes=report.peak_bytes,
                predicted_bytes=predicted_bytes(plan, report.rank),
            )
            for report in reports
        ),
        verdicts=verdicts,
        verified=all(verdict.passed is True for verdict in verdicts),
    )
