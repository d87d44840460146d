"""A plan as text."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from shlex import quote

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.diff import describe_placement
from emplace.app.reports.diagnosis_text import diagnosis_view
from emplace.app.reports.explanation_text import explanation_view
from emplace.app.reports.figures import bar, count, microseconds, percent, rate
from emplace.app.reports.tables import facts, plain_table, section
from emplace.placement.beside_stages import beside_stages_us, waits_for
from emplace.placement.certificate import Proof
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.derived_loads import constant_us
from emplace.placement.plan import (
    FewestDevices,
    HotRank,
    NodeLoad,
    Plan,
    PlanStatus,
    RankLoad,
    SolverRecord,
    StoppedBy,
    TablePlacement,
)
from emplace.placement.price_range import step_range
from emplace.placement.stages import Stage
from emplace.placement.units import show_gib
from emplace.studies.power import running

_MAX_SHOWN_RANKS = 16
_MAX_SHOWN_TABLES = 12


def plan_view(plan: Plan, kept: Path | None = None) -> RenderableType:
    """Everything a person needs to judge a plan, or why there is none; `kept` is the file that it was written to."""
    file = "plan.json" if kept is None else quote(str(kept))
    parts: list[RenderableType] = [Text(_headline(plan), style="bold"), _facts(plan, file)]
    if plan.has_placement:
        parts += [_ranks(plan), _nodes(plan.nodes), _stages(plan), _kinds(plan), _largest_tables(plan)]
        if plan.diagnosis is not None:
            parts.append(diagnosis_view(plan, plan.diagnosis))
        parts.append(_next_commands(plan, file, is_kept=kept is not None))
    if plan.explanation is not None:
        parts.append(explanation_view(plan.explanation))
    if plan.status is PlanStatus.UNDECIDED:
        parts.append(Text(f"Neither a plan nor a proof within the limit: try a longer --{plan.solver.limit_kind}-limit."))
    return Group(*parts)


def _headline(plan: Plan) -> str:
    where = f"{plan.model.name} on {plan.host.name}"
    match plan.status:
        case PlanStatus.OPTIMAL:
            return f"{where}: optimal"
        case PlanStatus.FEASIBLE:
            made = "imported" if plan.solver.stopped_by is StoppedBy.IMPORTED else "planned"
            return f"{where}: {made}, proven within {percent(plan.gap)} of the best" if plan.lower_bound_us else f"{where}: {made}"
        case PlanStatus.INFEASIBLE:
            return f"{where}: does not fit (proven)"
        case PlanStatus.UNDECIDED:
            return f"{where}: undecided"


def _facts(plan: Plan, file: str) -> RenderableType:
    rows = []
    if plan.has_placement:
        servers = len(plan.ranks) - plan.num_trainers
        ranks = count(plan.num_trainers, "rank") + (f" and {count(servers, 'server')}" if servers else "")
        bound = f"lower bound {microseconds(plan.lower_bound_us)}, gap {percent(plan.gap)}"
        rows = [
            ("predicted step", f"{microseconds(plan.step_time_us)}   {bound}"),
            ("throughput", f"{rate(plan.throughput_samples_per_s)}   {ranks} x {plan.question.model.local_batch_size:,} examples"),
            ("imbalance", f"{plan.imbalance:.3f}   slowest rank's own work / mean"),
        ]
        rows += [("hot rows", _hot(each)) for each in plan.hot_ranks or ()]
        if (drawn := _power(plan)) is not None:
            rows.append(("power", drawn))
        if plan.placement_gap is not None:
            rows.insert(1, ("placement decides", _decided(plan)))
        if (spread := step_range(plan)) is not None:
            rows.insert(1, ("not measured", f"{microseconds(spread.fast_us)} to {microseconds(spread.slow_us)} over the stack's ranges"))
    if plan.fewest is not None:
        rows.append(("fewest devices", _fewest(plan.fewest)))
    if plan.moved_bytes is not None:
        rows.append(
            ("moves", f"{show_gib(plan.moved_bytes)} from the start, which cost as much as {microseconds(plan.move_cost_us)} a step")
        )
    return facts(
        [
            *rows,
            ("figures", describe_cost_model(plan.question.cost_model)),
            *(("extrapolated", line) for line in plan.extrapolated),
            *([] if plan.proof is None else [("proof", f"{_proof(plan.proof)}; 'emplace audit {file} --proof' verifies it")]),
            _origin(plan.solver),
        ]
    )


def _hot(hot: HotRank) -> str:
    return f"rank {hot.rank} gets {hot.times_mean:.3g} times the mean lookups of {hot.table}"


def _power(plan: Plan) -> str | None:
    """What the job's servers draw; None where the host document does not say."""
    job, host = running(plan), plan.question.host
    if job.power_w is None or job.throughput_per_w is None:
        return None
    remote = host.remote_servers if job.parameter_servers else None
    by_use = host.node.idle_power_w is not None and (remote is None or remote.idle_power_w is not None)
    return f"{job.power_w:,.0f} W {'by utilisation' if by_use else 'at full load'}   {job.throughput_per_w:,.1f} examples/s a watt"


def _decided(plan: Plan) -> str:
    if awaited := waits_for(plan):
        decides = "nothing of the step but what fills the network" if awaited == "network" else "nothing of the step"
        return f"{decides}: devices wait {microseconds(beside_stages_us(plan))} of it for {awaited}"
    decided_us = (plan.step_time_us or 0.0) - constant_us(plan.sized_question, plan.topology())
    rest = "the rest is dense layers and overhead"
    return f"{microseconds(decided_us)}   {percent(decided_us / (plan.step_time_us or 1.0))} of the step, gap {percent(plan.placement_gap)}; {rest}"


def _proof(proof: Proof) -> str:
    if proof.bound_us is None:
        return "that there is no placement"
    return f"that no step is shorter than {microseconds(proof.bound_us)}"


def _fewest(fewest: FewestDevices) -> str:
    smaller = f"{count(len(fewest.impossible), 'smaller job')} proven impossible"
    if fewest.undecided:
        ranks = ", ".join(str(size.ranks) for size in fewest.undecided[:_MAX_SHOWN_RANKS])
        smaller += f", undecided with {ranks} ranks"
    return smaller if fewest.size is None else f"{count(fewest.size.ranks, 'rank')} on {count(fewest.size.nodes, 'node')}; {smaller}"


def _origin(solver: SolverRecord) -> tuple[str, str]:
    if solver.stopped_by is StoppedBy.IMPORTED:
        return "imported", f"a TorchRec plan, priced and bounded in {solver.seconds:.2f} s; bound: {solver.bound}"
    return "solved", f"in {solver.seconds:.2f} s, stopped by {_stopped_by(solver)}; bound: {solver.bound}; seed {solver.seed}"


def _stopped_by(solver: SolverRecord) -> str:
    if solver.stopped_by in (StoppedBy.TIME, StoppedBy.WORK):
        return f"the limit of {solver.limit:g} s of {solver.limit_kind}"
    return solver.stopped_by


def describe_cost_model(cost_model: CostModel) -> str:
    """Where predicted times come from."""
    if cost_model.source is CostSource.MEASURED:
        when = f" at {cost_model.measured_at}" if cost_model.measured_at else ""
        beside = f", {count(cost_model.ranks, 'rank')} side by side" if cost_model.ranks else ""
        return f"measured on this host{when}{beside}"
    reached = "assumed shares of them" if cost_model.stack is None else f"what {cost_model.stack.name} reaches of them"
    return f"datasheet rates and {reached}; nothing measured on this host ('emplace profile' does that)"


def _ranks(plan: Plan) -> RenderableType:
    shown = plan.ranks
    title = "ranks"
    if len(plan.ranks) > _MAX_SHOWN_RANKS:
        slowest = sorted(plan.ranks, key=lambda rank: (-rank.step_time_us, rank.rank))[:_MAX_SHOWN_RANKS]
        shown = tuple(sorted(slowest, key=lambda rank: rank.rank))
        title = f"ranks (the {_MAX_SHOWN_RANKS} slowest of {len(plan.ranks)})"
    longest = max(rank.step_time_us for rank in plan.ranks)
    table = plain_table("rank", "node", "device", "HBM", "used / capacity", "system memory", "own work", "", left=4)
    for rank in shown:
        table.add_row(
            str(rank.rank),
            str(rank.node),
            rank.device + (" (server)" if rank.is_server else ""),
            *_hbm(rank),
            show_gib(rank.ddr_bytes),
            microseconds(rank.step_time_us),
            bar(rank.step_time_us / longest if longest else 0.0, 10),
        )
    return section(title, table)


def _hbm(rank: RankLoad) -> tuple[str, str]:
    if not rank.hbm_capacity_bytes:
        return "none", "-"
    share = rank.hbm_bytes / rank.hbm_capacity_bytes
    return f"{bar(share)} {share:4.0%}", f"{show_gib(rank.hbm_bytes)} / {show_gib(rank.hbm_capacity_bytes)}"


def _nodes(nodes: tuple[NodeLoad, ...]) -> RenderableType:
    fullest = sorted(nodes, key=lambda node: -node.ddr_bytes / max(node.ddr_capacity_bytes, 1))[:_MAX_SHOWN_RANKS]
    title = "nodes" if len(nodes) <= _MAX_SHOWN_RANKS else f"nodes (the {_MAX_SHOWN_RANKS} fullest of {len(nodes)})"
    table = plain_table("node", "system memory", "used / capacity", left=2)
    for node in sorted(fullest, key=lambda node: node.node):
        share = node.ddr_bytes / max(node.ddr_capacity_bytes, 1)
        used = f"{show_gib(node.ddr_bytes)} / {show_gib(node.ddr_capacity_bytes)}"
        table.add_row(str(node.node), f"{bar(share)} {share:4.0%}", used)
    return section(title, table)


def _stages(plan: Plan) -> RenderableType:
    table = plain_table("stage", "slowest rank", "")
    slowest = {str(stage): max((rank.stages_us.get(stage, 0.0) for rank in plan.ranks), default=0.0) for stage in Stage}
    for stage, time_us in (slowest | {"overhead": beside_stages_us(plan)}).items():
        table.add_row(stage, microseconds(time_us), bar(time_us / (plan.step_time_us or 1.0)))
    return section("stages of a step, each waits for its slowest rank", table)


def _kinds(plan: Plan) -> RenderableType:
    table = plain_table("sharding type", "kernel", "tables", "shards", "HBM", "system memory", left=2)
    groups: dict[tuple[str, str], list[TablePlacement]] = defaultdict(list)
    for placement in plan.tables:
        groups[placement.sharding_type, placement.compute_kernel].append(placement)
    for (sharding_type, kernel), placements in sorted(groups.items(), key=lambda item: -len(item[1])):
        hbm, ddr = _bytes(placements)
        table.add_row(
            sharding_type, kernel, str(len(placements)), str(sum(len(each.shards) for each in placements)), show_gib(hbm), show_gib(ddr)
        )
    return section("tables by sharding type and kernel", table)


def _bytes(placements: list[TablePlacement]) -> tuple[int, int]:
    shards = [shard for placement in placements for shard in placement.shards]
    return sum(shard.hbm_bytes for shard in shards), sum(shard.ddr_bytes for shard in shards)


def _largest_tables(plan: Plan) -> RenderableType:
    ordered = sorted(plan.tables, key=lambda placement: (-sum(_bytes([placement])), placement.name))
    title = "tables" if len(ordered) <= _MAX_SHOWN_TABLES else f"tables (the {_MAX_SHOWN_TABLES} largest of {len(ordered)})"
    table = plain_table("table", "placement", "bytes at peak", left=2)
    for placement in ordered[:_MAX_SHOWN_TABLES]:
        table.add_row(placement.name, describe_placement(placement), show_gib(sum(_bytes([placement]))))
    return section(title, table)


def _next_commands(plan: Plan, file: str, *, is_kept: bool) -> RenderableType:
    run, how = f"emplace run {file}", "train under it here: predicted beside measured"
    if plan.question.host.fingerprint is None:
        run, how = f"{run} --emulate", "check it here, scaled down, on CPU ranks"
    commands = {
        f"emplace audit {file}": "check it again, without the solver",
        run: how,
        f"emplace diff old.json {file}": "say what changed",
    }
    wide = max(map(len, commands))
    first = "next:" if is_kept else f"next: keep it with --out {file}, then"
    return Text("\n".join([first, *(f"  {command:{wide}}   {what}" for command, what in commands.items())]))
