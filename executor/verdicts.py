"""Five checks of an execution, each with the figures it rests on. docs/explanation/execution.md states every threshold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from emplace.executor.job import HeldShard, RankReport, UpdateError
from emplace.placement.cost_model import WHOLE_STEPS, CostModel, CostSource
from emplace.placement.host import DeviceType
from emplace.placement.measurement import ReferenceTimes, Verdict
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.units import show_gib
from emplace.runtime.software import other_software

MAX_UPDATE_ERROR = {"fp32": 1e-3, "fp16": 5e-2, "bf16": 0.4, "fp8": 0.4}
"""The largest error of an update that passes, by the coarsest type of any table or exchange. Rounding leaves about 1e-6 with fp32 (1e-2
with fp16, 8 times that with bf16, whose significand is 3 bits shorter); one misplaced shard of n equal ones leaves 1/sqrt(n)."""

MEMORY_SHARE = 1.05
"""A rank may peak at so many times the predicted bytes, and MEMORY_ALLOWANCE_BYTES more."""
MEMORY_ALLOWANCE_BYTES = 64 * 2**20
"""What a process takes whatever it trains: thread pools, communication buffers, the allocator's slack."""

STABLE_SHARE = 0.2
"""Half of the 95% confidence interval of the median step time, as a share of the median, may be so much."""

MOST_ERROR, LEAST_ERROR = 0.25, 0.1
"""How far a step time predicted from this machine's measured cost model may be from the measured one: as far as the worst whole step
that its fit had not seen, but no further than the first of these, and as far as the second at least."""

_SHOWN = 3


def placement_verdict(plan: Plan, held: Sequence[HeldShard]) -> Verdict:
    """Whether every shard was on its rank with its rows, columns and kernel, and nothing else was anywhere."""
    wanted = {
        HeldShard(
            table=table.name,
            sharding_type=table.sharding_type,
            compute_kernel=table.compute_kernel,
            rank=shard.rank,
            rows=shard.rows,
            columns=shard.columns,
        )
        for table in plan.tables
        for shard in table.shards
    }
    got = set(held)
    differences = [f"missing: {_place(shard)}" for shard in _ordered(wanted - got)]
    differences += [f"not in the plan: {_place(shard)}" for shard in _ordered(got - wanted)]
    if not differences:
        detail = f"all {len(wanted)} shards of {len(plan.tables)} tables are where the plan puts them, read back from the running model"
        return Verdict(name="placement", passed=True, detail=detail)
    more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return Verdict(name="placement", passed=False, detail="; ".join(differences[:_SHOWN]) + more)


def numerics_verdict(plan: Plan, errors: Sequence[UpdateError]) -> Verdict:
    """Whether each table, and the dense layers together, moved as in the unsharded reference."""
    moved = [error for error in errors if error.relative_update > 0]
    if not moved:
        return Verdict(name="numerics", passed=False, detail="no weight moved in the reference, so there is nothing to compare")
    worst = max(errors, key=lambda error: error.relative_error)
    allowed = max(MAX_UPDATE_ERROR[each] for each in _types(plan.question.model))
    detail = (
        f"the update of {worst.parameter} differs by {worst.relative_error:.1e} of its size from an unsharded reference, "
        f"the worst of {len(errors)}; {allowed:g} is allowed; {len(moved)} of {len(errors)} moved"
    )
    return Verdict(name="numerics", passed=worst.relative_error <= allowed, detail=detail)


def _types(model: ModelSpec) -> Iterator[str]:
    """What values are rounded to: of tables, and on their way."""
    yield from (table.data_type for table in model.tables)
    for module in model.modules or ():
        yield from (module.sent_in.forward_precision, module.sent_in.backward_precision)


def predicted_bytes(plan: Plan, rank: int) -> int:
    """Bytes that the plan says the rank holds in the memory whose peak is measured: the device's, or the process's on a CPU."""
    load = plan.ranks[rank]
    kinds = {device.kind: device.type for device in plan.question.host.node.devices}
    return load.hbm_bytes if kinds.get(load.device) is DeviceType.CUDA else load.ddr_bytes


def memory_verdict(plan: Plan, reports: Sequence[RankReport]) -> Verdict:
    """Whether no rank peaked above what the plan reckoned with; less is fine."""
    limits = {report.rank: predicted_bytes(plan, report.rank) * MEMORY_SHARE + MEMORY_ALLOWANCE_BYTES for report in reports}
    closest = max(reports, key=lambda report: report.peak_bytes / limits[report.rank])
    detail = (
        f"rank {closest.rank} peaked at {show_gib(closest.peak_bytes)}, predicted {show_gib(predicted_bytes(plan, closest.rank))}; "
        f"allowed: {MEMORY_SHARE - 1:.0%} and {MEMORY_ALLOWANCE_BYTES // 2**20} MiB more"
    )
    return Verdict(name="memory", passed=closest.peak_bytes <= limits[closest.rank], detail=detail)


def allowed_error(cost_model: CostModel) -> float:
    """How far a prediction may be off, as a share of what was measured: the cost model's own stated error for whole steps."""
    stated = [residual.worst for residual in cost_model.residuals if residual.what == WHOLE_STEPS and residual.regime is None]
    return min(MOST_ERROR, max(LEAST_ERROR, *stated)) if stated else MOST_ERROR


def throughput_verdict(
    plan: Plan, step_times_us: NDArray[np.float64], reference: ReferenceTimes | None = None, allowed: float | None = None
) -> Verdict:
    """Whether the step time is known well, and agrees with a prediction that was measured on this machine.

    The prediction is of the machine as it was in its profile; where the reference step says how much slower or faster it is now, that is
    taken into account. A datasheet's prediction is shown and not judged: it is not expected to match.
    """
    steps, middle = len(step_times_us), float(np.median(step_times_us))
    interval = median_interval(step_times_us)
    if interval is None:
        return Verdict(name="throughput", passed=False, detail=f"{steps} steps are too few to know the median; take at least 6")
    half = (interval[1] - interval[0]) / 2 / middle
    predicted = plan.step_time_us or 0.0
    detail = f"{middle / 1e3:.2f} ms a step over {steps} steps, the median known to ±{half:.0%} ({STABLE_SHARE:.0%} allowed); "
    detail += f"predicted {predicted / 1e3:.2f} ms ({predicted / middle - 1:+.0%}) from a {plan.cost_model.source} cost model"
    passed = half <= STABLE_SHARE
    if plan.cost_model.source is CostSource.MEASURED:
        allowed = allowed_error(plan.question.cost_model) if allowed is None else allowed
        off = predicted * (1.0 if reference is None else reference.slowness) / middle - 1
        if reference is not None:
            detail += f"; {off:+.0%} at the machine's present speed, {1 / reference.slowness:.2f} times that of its profile"
        detail += f", {allowed:.0%} allowed"
        if abs(off) > allowed:
            passed = False
            detail += f"; {_why_off(plan)}"
    return Verdict(name="throughput", passed=passed, detail=detail)


def _why_off(plan: Plan) -> str:
    """What usually parts a measured prediction from what ran."""
    usual = "usually another program on the machine, or a cost model measured when the machine was faster or slower: profile again"
    beyond = "; the plan's cost also goes beyond what was measured, as its extrapolated says" if plan.extrapolated else ""
    other = other_software(plan.question.cost_model.software)
    return (f"the cost model was measured with {other}; " if other else "") + usual + beyond


def median_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """95% confidence interval of the median by order statistics: no assumption about the distribution. None for too few values."""
    skipped = _rare_heads(len(values))
    if skipped < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[skipped - 1]), float(ordered[len(values) - skipped])


def _rare_heads(tosses: int) -> int:
    """The 2.5% quantile of Binomial(tosses, 1/2), in whole numbers; scipy has it too, and takes a third of a second to import."""
    ways = upto = 1
    heads = 0
    while 40 * upto < 2**tosses:
        ways = ways * (tosses - heads) // (heads + 1)
        heads += 1
        upto += ways
    return heads


def _ordered(shards: set[HeldShard]) -> list[HeldShard]:
    return sorted(shards, key=lambda shard: (shard.table, shard.rank, shard.columns, shard.rows))


def _place(shard: HeldShard) -> str:
    return (
        f"{shard.table} rows {shard.rows[0]}..{shard.rows[1]} columns {shard.columns[0]}..{shard.columns[1]} "
        f"on rank {shard.rank} ({shard.sharding_type}, {shard.compute_kernel})"
    )
