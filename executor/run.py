"""Runs plans on this machine: refuse what can't run here, launch, judge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from emplace.executor.errors import ExecutionFailed
from emplace.executor.export import local_world_size, plan_topology
from emplace.executor.job import FEWEST_STEPS, Job, RankReport, job_path, report_path
from emplace.executor.launch import Launch, launch_ranks
from emplace.executor.refusal import refuse_foreign, refuse_unsound
from emplace.executor.verdicts import memory_verdict, numerics_verdict, placement_verdict, predicted_bytes, throughput_verdict
from emplace.hardware.discover import discover_host
from emplace.placement.errors import InvalidDocument
from emplace.placement.measurement import Measurement, RankMeasurement, ReferenceTimes, Verdict
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.runtime.files import write_whole
from emplace.runtime.temporary import temporary_folder

WARMUP_STEPS = 5
STAGED_STEPS = 10
AUDITED = Verdict(name="audit", passed=True, detail="no violation: coverage, capacity and predicted times were derived again")
"""The audit's verdict on every plan that runs: refuse_unsound stops the others."""


def run_plan(plan: Plan, launch: Launch) -> Measurement:
    """Train under `plan`; returns what was measured and the verdicts on it.

    Raises NotRunnableHere for a plan that can't run on this machine, InvalidDocument for one that its audit rejects, and
    ExecutionFailed with the root cause when a rank fails, time runs out or the launch is to stop.
    """
    return run_plans([plan], launch)[0]


def run_plans(plans: Sequence[Plan], launch: Launch) -> list[Measurement]:
    """Several plans in one launch; they must have the same ranks and nodes. Raises as `run_plan` does."""
    host = discover_host()
    for plan in plans:
        refuse_foreign(plan, host)
        refuse_unsound(plan)
    job, reports = launch_plans(plans, launch)
    return [measurement(plan, job, of_plan, launch.trace, launch.allowed_error) for plan, of_plan in zip(plans, reports, strict=True)]


def launch_plans(plans: Sequence[Plan], launch: Launch) -> tuple[Job, list[list[RankReport]]]:
    """Train plans that can run here in one launch: the job, and for each plan the reports of its ranks.

    Raises ExecutionFailed, and ValueError for plans of different ranks.
    """
    topology = plan_topology(plans[0])
    if any(plan_topology(plan) != topology for plan in plans):
        raise ValueError("plans of one launch must have the same ranks on the same nodes")
    ranks = len(topology.ranks)
    try:
        with temporary_folder("run", launch.workdir) as folder:
            examples = _lay_out(launch, plans, ranks, folder)
            job = Job(
                plans=tuple(plans),
                local_world_size=local_world_size(topology),
                warmup_steps=WARMUP_STEPS,
                steps=launch.steps,
                staged_steps=STAGED_STEPS,
                rounds=launch.rounds,
                seed=launch.seed,
                trace=None if examples is None else str(examples),
                folder=str(folder),
            )
            write_whole(job_path(folder), job.canonical_json())
            launch.report(f"starting {ranks} ranks")
            launch_ranks(launch, ranks, folder)
            return job, [_read_reports(folder, index, ranks) for index in range(len(plans))]
    except OSError as error:
        raise ExecutionFailed(f"can't write what the run needs: {error.strerror or error} ({error.filename or launch.workdir})") from error


def _lay_out(launch: Launch, plans: Sequence[Plan], ranks: int, folder: Path) -> Path | None:
    """The folder with the trace's examples as the ranks read them; None without a trace."""
    if launch.trace is None:
        return None
    from emplace.executor.traces.batches import lay_out
    from emplace.executor.traces.opening import open_trace
    from emplace.runtime.batches import prepared_count  # torch, which no other part of the launching process needs

    spec = plans[0].question.model
    if any(plan.question.model != spec for plan in plans):
        raise ValueError("plans that train on one trace must have the same model")
    launch.report(f"reading {launch.trace}")
    columns, examples = folder / "columns", folder / "trace"
    columns.mkdir()
    examples.mkdir()
    count = prepared_count(spec, WARMUP_STEPS + (launch.steps or FEWEST_STEPS)) * ranks
    lay_out(open_trace(launch.trace, columns), spec, count, examples, launch.report)
    return examples


def _read_reports(folder: Path, plan_index: int, ranks: int) -> list[RankReport]:
    """One report a rank. Raises ExecutionFailed where one is missing."""
    try:
        return [read_file(report_path(folder, plan_index, rank), RankReport) for rank in range(ranks)]
    except InvalidDocument as error:
        raise ExecutionFailed(f"a rank ended without its report: {error}") from None


def measurement(
    plan: Plan, job: Job, reports: Sequence[RankReport], trace: Path | None = None, allowed_error: float | None = None
) -> Measurement:
    """The measurement that the ranks' reports make, with the verdicts on it. The plan's audit has passed before anything ran."""
    # Steps start together, so a step lasts as long as its slowest rank.
    step_times = np.max([report.step_times_us for report in reports], axis=0)
    step_time_us = float(np.median(step_times))
    examples, reference = plan.question.model.local_batch_size * plan.num_trainers, _reference(plan, reports)
    verdicts = (
        AUDITED,
        placement_verdict(plan, [shard for report in reports for shard in report.held]),
        numerics_verdict(plan, reports[0].update_errors),
        memory_verdict(plan, reports),
        throughput_verdict(plan, step_times, reference, allowed_error),
    )
    return Measurement(
        plan_digest=plan.content_digest(),
        host_fingerprint=str(plan.question.host.fingerprint),
        backend=reports[0].backend,
        software=reports[0].software,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        steps=len(step_times),
        warmup_steps=job.warmup_steps,
        seed=job.seed,
        trace=None if trace is None else trace.name,
        step_time_us=step_time_us,
        step_time_p5_us=float(np.quantile(step_times, 0.05)),
        step_time_p95_us=float(np.quantile(step_times, 0.95)),
        predicted_step_time_us=plan.step_time_us or 0.0,
        reference=reference,
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


def _reference(plan: Plan, reports: Sequence[RankReport]) -> ReferenceTimes | None:
    """Each step of the reference lasts as long as on its slowest rank."""
    cost = plan.question.cost_model
    if cost.reference_step_us is None or not reports[0].reference_us:
        return None
    visits = np.max([report.reference_us for report in reports], axis=0)
    before_us, between_us, after_us = (float(np.median(times)) for times in (visits[0], visits[1:-1], visits[-1]))
    return ReferenceTimes(profiled_us=cost.reference_step_us, before_us=before_us, between_us=between_us, after_us=after_us)
