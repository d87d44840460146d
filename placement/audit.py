"""Checks a plan again, from its question and its tables alone, without the solver's code.

references -> ranks and nodes -> each table's layout and choices -> loads derived again, compared and held against capacities.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from emplace.placement.choice import choice_flaws
from emplace.placement.derived_loads import STAGES, DerivedLoads, derive_loads
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.hot_rows import hot_ranks
from emplace.placement.layout import layout_flaws
from emplace.placement.model import ShardingType
from emplace.placement.moving import move_cost_us, moved_bytes
from emplace.placement.placement_gap import placement_gap
from emplace.placement.plan import Explanation, FewestDevices, JobSize, LimitKind, Plan, PlanStatus, StoppedBy, job_sizes
from emplace.placement.step_costs import diagnosis_flaws
from emplace.placement.sums import imbalance
from emplace.placement.terms import OPTIMAL_GAP
from emplace.placement.topology import Topology
from emplace.placement.workload import Objective

_RELATIVE, _ABSOLUTE = 1e-6, 1e-6
"""Times and ratios may differ by rounding; bytes may not."""


class Violation(Document):
    """`where` is a JSON pointer into the plan; `what` says what is wrong there, with figures."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where or '(plan)'}: {self.what}"


def audit(plan: Plan) -> list[Violation]:
    """Every violation of the plan; an empty list for a sound one.

    Loads are derived only where all tables are laid out soundly: a table that is not whole has none.
    """
    found = [*_references(plan), *_record(plan), *_fewest(plan)]
    topology, unsound = _structure(plan)
    if topology is None:
        return found + unsound
    found += [*_together(plan), *_apart(plan)]
    if unsound:
        return found + unsound
    derived = derive_loads(plan.question, plan.tables, topology)
    return [
        *found,
        *_shard_bytes(plan, derived),
        *_rank_loads(plan, derived),
        *_capacities(plan, topology, derived),
        *_totals(plan, topology, derived),
        *_hot_ranks(plan),
        *(Violation(where=f"/diagnosis{pointer}", what=what) for pointer, what in diagnosis_flaws(plan, topology)),
    ]


def structural_violations(plan: Plan) -> list[Violation]:
    """The violations that leave a plan without a meaning: tables that are not whole or not the model's, ranks that the job doesn't have."""
    return _structure(plan)[1]


def _structure(plan: Plan) -> tuple[Topology | None, list[Violation]]:
    """The plan's ranks, None where it places nothing or can't have them, and what is wrong with its ranks and tables."""
    if not plan.has_placement:
        return None, list(_nothing_placed(plan))
    try:
        topology = plan.topology()
    except InvalidDocument as error:
        return None, [Violation(where=f"/question/{error.source}{broken.pointer}", what=broken.rule) for broken in error.broken_rules]
    return topology, [*_rank_identities(plan, topology), *_tables(plan, topology)]


def refuse(source: str, violations: list[Violation]) -> None:
    """Raises InvalidDocument naming every violation of the plan from `source`."""
    if violations:
        raise InvalidDocument(source, [BrokenRule(violation.where, "", violation.what) for violation in violations])


def _references(plan: Plan) -> Iterator[Violation]:
    question = plan.question
    for what, name, expected in (("model", plan.model.name, question.model.name), ("host", plan.host.name, question.host.name)):
        if name != expected:
            yield Violation(where=f"/{what}/name", what=f"is {name}, the question's {what} is {expected}")
    for what, digest, expected in (
        ("model", plan.model.digest, question.model.content_digest()),
        ("host", plan.host.digest, question.host.content_digest()),
        ("cost_model", plan.cost_model.digest, question.cost_model.content_digest()),
    ):
        if digest != expected:
            yield Violation(where=f"/{what}/digest", what=f"is {digest}, the question's {what} has {expected}")
    if plan.cost_model.source is not question.cost_model.source:
        yield Violation(
            where="/cost_model/source", what=f"is {plan.cost_model.source}, the question's cost model is {question.cost_model.source}"
        )


def _record(plan: Plan) -> Iterator[Violation]:
    options = plan.question.options
    if plan.solver.seed != options.seed:
        yield Violation(where="/solver/seed", what=f"is {plan.solver.seed}, the question asks for {options.seed}")
    kind, asked = plan.solver.limit_kind, options.limits.get(plan.solver.limit_kind)
    if asked is None:
        yield Violation(where="/solver/limit_kind", what=f"is {kind}, the question sets no {kind}_limit")
    elif plan.solver.limit != asked:
        yield Violation(where="/solver/limit", what=f"is {plan.solver.limit:g}, the question's {kind}_limit is {asked:g}")
    if (contradiction := _contradiction(plan)) is not None:
        yield Violation(where="/solver/stopped_by", what=f"is {plan.solver.stopped_by}, but {contradiction}")


def _contradiction(plan: Plan) -> str | None:
    """What a plan says that its search can't have ended so."""
    word, most = plan.solver.stopped_by, {StoppedBy.EXACT: OPTIMAL_GAP, StoppedBy.GAP: max(plan.question.options.gap, OPTIMAL_GAP)}
    if word is StoppedBy.TIME and plan.solver.limit_kind is not LimitKind.TIME:
        return f"the limit is of {plan.solver.limit_kind}"
    if (word is StoppedBy.PROOF) != (plan.status is PlanStatus.INFEASIBLE):
        return f"the plan is {plan.status}"
    # What moves cost is no step's: the bound of a plan that starts from another is that of a free one.
    if plan.gap is not None and plan.question.options.start is None and plan.gap > most.get(word, 1.0):
        return f"the gap is {plan.gap:.2g}"
    return None


def _fewest(plan: Plan) -> Iterator[Violation]:
    """A plan for the fewest devices must name each smaller size once, as impossible or undecided."""
    record = plan.fewest
    if (plan.question.options.objective is Objective.DEVICES) != (record is not None):
        yield Violation(where="/fewest", what="belongs to the objective devices and to no other")
    if record is None:
        return
    try:
        sizes = job_sizes(plan.question)
    except InvalidDocument:
        return  # said of the options themselves
    if foreign := [(where, size) for where, size in _sizes_named(record) if size not in sizes]:
        yield from (Violation(where=where, what=f"is {_spelled(size)}, which the question doesn't offer") for where, size in foreign)
    elif (record.size is not None) != plan.has_placement:
        yield Violation(where="/fewest/size", what=f"must be there exactly where there is a placement, the plan is {plan.status}")
    else:
        smaller = sizes if record.size is None else sizes[: sizes.index(record.size)]
        if sorted([*record.impossible, *record.undecided], key=sizes.index) != smaller:
            yield Violation(where="/fewest", what=f"must name each of the {len(smaller)} smaller sizes once, as impossible or undecided")
        if record.undecided and plan.status in (PlanStatus.OPTIMAL, PlanStatus.INFEASIBLE):
            yield Violation(where="/status", what=f"is {plan.status}, but {_spelled(record.undecided[0])} is undecided")


def _sizes_named(record: FewestDevices) -> Iterator[tuple[str, JobSize]]:
    """Every size of the record with its pointer."""
    if record.size is not None:
        yield "/fewest/size", record.size
    for key, sizes in (("impossible", record.impossible), ("undecided", record.undecided)):
        yield from ((f"/fewest/{key}/{index}", size) for index, size in enumerate(sizes))


def _spelled(size: JobSize) -> str:
    return f"{size.ranks} ranks on {size.nodes} nodes"


def _nothing_placed(plan: Plan) -> Iterator[Violation]:
    for key in ("tables", "ranks", "nodes"):
        if getattr(plan, key):
            yield Violation(where=f"/{key}", what=f"must be empty in a plan that is {plan.status}")
    for key in (
        "step_time_us",
        "throughput_samples_per_s",
        "imbalance",
        "gap",
        "placement_gap",
        "diagnosis",
        "hot_ranks",
        "moved_bytes",
        "move_cost_us",
    ):
        if getattr(plan, key) is not None:
            yield Violation(where=f"/{key}", what=f"must be absent in a plan that is {plan.status}")
    if plan.status is not PlanStatus.INFEASIBLE:
        return
    if plan.lower_bound_us is not None:
        yield Violation(where="/lower_bound_us", what="must be absent in a plan that is infeasible")
    if plan.explanation is None or not plan.explanation.reasons:
        yield Violation(where="/explanation", what="an infeasible plan must say why")
    else:
        yield from _explained(plan.explanation, {table.name for table in plan.question.model.tables})


def _explained(explanation: Explanation, tables: set[str]) -> Iterator[Violation]:
    for name in explanation.tables or ():
        if name not in tables:
            yield Violation(where="/explanation/tables", what=f"names {name}, which the model hasn't")
    for index, fix in enumerate(explanation.fixes):
        if fix.verified and not fix.patch:
            yield Violation(where=f"/explanation/fixes/{index}/patch", what="is empty, and the fix is said to be verified")


def _rank_identities(plan: Plan, topology: Topology) -> Iterator[Violation]:
    if len(plan.ranks) != len(topology.ranks):
        yield Violation(where="/ranks", what=f"lists {len(plan.ranks)} ranks, the job has {len(topology.ranks)}")
    for index, (load, rank) in enumerate(zip(plan.ranks, topology.ranks, strict=False)):
        for key in ("rank", "node", "device", "is_server", "hbm_capacity_bytes"):
            said, expected = getattr(load, key), getattr(rank, key)
            if said != expected:
                yield Violation(where=f"/ranks/{index}/{key}", what=f"is {said}, the host gives {expected}")
    if len(plan.nodes) != len(topology.node_ddr_capacity_bytes):
        yield Violation(where="/nodes", what=f"lists {len(plan.nodes)} nodes, the job has {len(topology.node_ddr_capacity_bytes)}")
    for index, (node, capacity) in enumerate(zip(plan.nodes, topology.node_ddr_capacity_bytes, strict=False)):
        if node.node != index:
            yield Violation(where=f"/nodes/{index}/node", what=f"is {node.node}, must be {index}")
        if node.ddr_capacity_bytes != capacity:
            yield Violation(where=f"/nodes/{index}/ddr_capacity_bytes", what=f"is {node.ddr_capacity_bytes}, the host gives {capacity}")


def _tables(plan: Plan, topology: Topology) -> Iterator[Violation]:
    tables = {table.name: table for table in plan.question.model.tables}
    seen: set[str] = set()
    for index, placement in enumerate(plan.tables):
        where = f"/tables/{index}"
        table = tables.get(placement.name)
        if table is None:
            yield Violation(where=f"{where}/name", what=f"the model has no table {placement.name}")
        elif placement.name in seen:
            yield Violation(where=f"{where}/name", what=f"the table {placement.name} is placed twice")
        else:
            flaws = layout_flaws(table, placement, topology)
            flaws = flaws or choice_flaws(plan.question, table, placement, topology)
            yield from (Violation(where=where + pointer, what=f"table {table.name}: {what}") for pointer, what in flaws)
        seen.add(placement.name)
    for name in tables:
        if name not in seen:
            yield Violation(where="/tables", what=f"the table {name} is nowhere")


def _together(plan: Plan) -> Iterator[Violation]:
    """Tables that must share a device: each table_wise, all on one rank."""
    placed = {placement.name: placement for placement in plan.tables}
    for index, group in enumerate(plan.question.model.together or ()):
        here = [placed[name] for name in group if name in placed]
        split = [table.name for table in here if table.sharding_type is not ShardingType.TABLE_WISE]
        on = {table.name: sorted({shard.rank for shard in table.shards}) for table in here}
        where = f"/question/model/together/{index}"
        if split:
            yield Violation(where=where, what=f"{', '.join(split)} must be table_wise to be kept together")
        elif len({tuple(ranks) for ranks in on.values()}) > 1:
            spread = ", ".join(f"{name} on {'/'.join(map(str, ranks))}" for name, ranks in on.items())
            yield Violation(where=where, what=f"must be on one rank together: {spread}")


def _apart(plan: Plan) -> Iterator[Violation]:
    """Tables that may share no device."""
    ranks = {placement.name: {shard.rank for shard in placement.shards} for placement in plan.tables}
    for index, group in enumerate(plan.question.model.apart or ()):
        for one, other in combinations(group, 2):
            if shared := sorted(ranks.get(one, set()) & ranks.get(other, set())):
                named = ", ".join(map(str, shared[:8]))
                yield Violation(where=f"/question/model/apart/{index}", what=f"{one} and {other} must be apart, both are on rank {named}")


def _shard_bytes(plan: Plan, derived: DerivedLoads) -> Iterator[Violation]:
    for index, (placement, hbm, ddr) in enumerate(zip(plan.tables, derived.shard_hbm, derived.shard_ddr, strict=True)):
        for number, shard in enumerate(placement.shards):
            where, what = f"/tables/{index}/shards/{number}", f"table {placement.name}: "
            yield from _exact(f"{where}/hbm_bytes", shard.hbm_bytes, hbm[number], what)
            yield from _exact(f"{where}/ddr_bytes", shard.ddr_bytes, ddr[number], what)


def _rank_loads(plan: Plan, derived: DerivedLoads) -> Iterator[Violation]:
    for index, load in enumerate(plan.ranks):
        yield from _exact(f"/ranks/{index}/hbm_bytes", load.hbm_bytes, derived.rank_hbm[index])
        yield from _exact(f"/ranks/{index}/ddr_bytes", load.ddr_bytes, derived.rank_ddr[index])
        for stage, expected in zip(STAGES, derived.stages_us[index], strict=True):
            yield from _close(f"/ranks/{index}/stages_us/{stage}", load.stages_us.get(stage, 0.0), expected)
        yield from _close(f"/ranks/{index}/step_time_us", load.step_time_us, derived.stages_us[index].sum())
    for index, node in enumerate(plan.nodes):
        yield from _exact(f"/nodes/{index}/ddr_bytes", node.ddr_bytes, derived.node_ddr[index])


def _capacities(plan: Plan, topology: Topology, derived: DerivedLoads) -> Iterator[Violation]:
    for index, rank in enumerate(topology.ranks):
        if derived.rank_hbm[index] > rank.hbm_capacity_bytes:
            yield _over(f"/ranks/{index}/hbm_bytes", f"rank {rank.rank}", int(derived.rank_hbm[index]), rank.hbm_capacity_bytes)
    for index, (node, capacity) in enumerate(zip(plan.nodes, topology.node_ddr_capacity_bytes, strict=True)):
        if derived.node_ddr[index] > capacity:
            yield _over(f"/nodes/{index}/ddr_bytes", f"node {node.node}", int(derived.node_ddr[index]), capacity)


def _hot_ranks(plan: Plan) -> Iterator[Violation]:
    said, derived = plan.hot_ranks or (), hot_ranks(plan) or ()
    if [(each.table, each.rank) for each in said] != [(each.table, each.rank) for each in derived]:
        hot = ", ".join(f"rank {each.rank} for {each.table}" for each in derived) or "none"
        yield Violation(where="/hot_ranks", what=f"is not what follows from the plan's tables: {hot}")
        return
    for index, (each, expected) in enumerate(zip(said, derived, strict=True)):
        yield from _close(f"/hot_ranks/{index}/times_mean", each.times_mean, expected.times_mean)


def _over(where: str, who: str, needed: int, capacity: int) -> Violation:
    return Violation(where=where, what=f"{who} needs {needed} bytes and has {capacity}: {needed - capacity} over")


def _totals(plan: Plan, topology: Topology, derived: DerivedLoads) -> Iterator[Violation]:
    trainer_times = derived.stages_us[: len(topology.trainers)].sum(axis=1)
    examples = plan.question.model.local_batch_size * len(topology.trainers)
    expected = {
        "step_time_us": derived.step_time_us,
        "throughput_samples_per_s": examples * 1e6 / derived.step_time_us,
        "imbalance": imbalance(trainer_times.tolist()),
    }
    for key, value in expected.items():
        yield from _close(f"/{key}", getattr(plan, key), value)
    yield from _moves(plan)
    cost_us = derived.step_time_us + (plan.move_cost_us or 0.0)
    if plan.lower_bound_us is None or not 0 <= plan.lower_bound_us <= derived.step_time_us * (1 + _RELATIVE):
        yield Violation(
            where="/lower_bound_us", what=f"is {plan.lower_bound_us}, must be between 0 and the step time {derived.step_time_us}"
        )
        return
    yield from _close("/gap", plan.gap, max(0.0, 1 - plan.lower_bound_us / cost_us))
    if plan.placement_gap is not None:
        yield from _close("/placement_gap", plan.placement_gap, placement_gap(cost_us, plan.lower_bound_us, derived.constant_us))
        if plan.gap is not None and plan.placement_gap < plan.gap - _RELATIVE:
            what = f"is {plan.placement_gap}, less than the gap of the whole step, {plan.gap}: a plan that decides nothing is a best one"
            yield Violation(where="/placement_gap", what=what)
    if plan.status is PlanStatus.OPTIMAL and plan.gap is not None and plan.gap > OPTIMAL_GAP + _RELATIVE:
        yield Violation(where="/status", what=f"is optimal with a gap of {plan.gap}, must be feasible above {OPTIMAL_GAP}")


def _moves(plan: Plan) -> Iterator[Violation]:
    options = plan.question.options
    if options.start is None or options.move_price_us_per_gib is None:
        for key in ("moved_bytes", "move_cost_us"):
            if getattr(plan, key) is not None:
                yield Violation(where=f"/{key}", what="must be absent: the question has no start")
        return
    moved = moved_bytes(plan.question.model, options.start, plan.tables)
    if plan.moved_bytes is None:
        yield Violation(where="/moved_bytes", what=f"is missing, must be {moved}")
        return
    yield from _exact("/moved_bytes", plan.moved_bytes, moved)
    yield from _close("/move_cost_us", plan.move_cost_us, move_cost_us(moved, options.move_price_us_per_gib))


def _exact(where: str, said: int, expected: Any, what: str = "") -> Iterator[Violation]:
    if said != expected:
        yield Violation(where=where, what=f"{what}is {said}, must be {int(expected)}")


def _close(where: str, said: float | None, expected: float) -> Iterator[Violation]:
    if said is None or abs(said - expected) > _RELATIVE * abs(expected) + _ABSOLUTE:
        yield Violation(where=where, what=f"is {said}, must be {float(expected):.9g}")
