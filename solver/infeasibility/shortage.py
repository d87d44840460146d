"""What is too much: sums over whole tiers and single tables that no plan can get around.

These are necessary conditions, so each one that fails proves that no plan exists and says by how many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from emplace.placement.choice import table_refusal, tiers_of
from emplace.placement.host import DeviceType
from emplace.placement.model import ComputeKernel, Constraints, DataType, Table, Tier
from emplace.placement.modules import Pooling
from emplace.placement.plan import Question
from emplace.placement.units import show_gib
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price_bytes
from emplace.solver.model.indexing import devices_covered, unit_option
from emplace.solver.model.layouts import Layout, permits, trains_fused
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Ints, Problem

_SHOWN_TABLES = 5
_NO_FUSED_ADAM = "with the optimizer adam CPU devices have no fused kernel"
_MEMORY = {Tier.HBM: "HBM", Tier.DDR: "system memory", Tier.CPU: "system memory that CPUs look up", Tier.REMOTE: "remote servers' memory"}


@dataclass(frozen=True)
class Shortage:
    """`needed_bytes` at least are needed in `tiers` together, `capacity_bytes` are there."""

    tiers: tuple[Tier, ...]
    needed_bytes: int
    capacity_bytes: int
    per_table_bytes: Ints
    """[items] the least that each takes there."""

    @property
    def over_bytes(self) -> int:
        """How much more is needed than is there."""
        return self.needed_bytes - self.capacity_bytes


@dataclass(frozen=True)
class Case:
    """One of a question's programs with everything about it that is provably too much. `priced` holds the bytes of all options,
    also of those that fit nowhere, and no times."""

    name: str
    priced: PricedQuestion
    ranks: tuple[str, ...]
    """Why ranks have too little even without tables."""
    tables: tuple[tuple[str, str], ...]
    """(name, why) of tables that fit nowhere."""
    sums: tuple[Shortage, ...]

    @property
    def is_short(self) -> bool:
        """Whether anything is provably too much."""
        return bool(self.ranks or self.tables or self.sums)


def cases(question: Question) -> list[Case]:
    """One for each program of the question. Raises InvalidDocument for ranks that the host can't have."""
    found = []
    for variant in variants(question):
        priced = price_bytes(question, variant.topology, variant.tiers)
        without = tuple(table_reasons(priced))
        found.append(Case(variant.name, priced, tuple(rank_reasons(priced)), without, tuple(shortages(priced))))
    return found


def shortages(priced: PricedQuestion) -> list[Shortage]:
    """Every set of tiers that is over, the one furthest over first; none where a table has no option at all."""
    if _without_option(priced):
        return []  # a table without an option has no least bytes
    served = priced.topology.served_tier or Tier.REMOTE
    taken, capacity = _taken_bytes(priced.problem, served), _capacity_bytes(priced.problem, served)
    first = np.flatnonzero(np.diff(priced.problem.option_table, prepend=-1))
    items, found = len(priced.items), []
    for size in range(1, len(taken) + 1):
        for tiers in combinations(taken, size):
            together = np.sum([taken[tier] for tier in tiers], axis=0)
            least = np.minimum.reduceat(together, first)[:items] if len(first) else np.empty(0, np.int64)
            found.append(Shortage(tiers, int(least.sum()), sum(capacity[tier] for tier in tiers), least))
    return sorted((each for each in found if each.over_bytes > 0), key=lambda each: (-each.over_bytes, len(each.tiers)))


def _taken_bytes(problem: Problem, served: Tier) -> dict[Tier, Ints]:
    """[O] bytes of each option over all devices it covers, in each tier; `served` is that of servers."""
    covered = devices_covered(problem)[unit_option(problem)]
    is_server = np.ones(problem.num_kinds, dtype=bool)
    is_server[problem.device_kind[problem.device_is_trainer]] = False
    taken = {
        Tier.HBM: covered * problem.unit_hbm_bytes,
        Tier.DDR: covered * problem.unit_ddr_bytes * ~is_server,
        served: covered * problem.unit_ddr_bytes * is_server,
    }
    starts = problem.option_first_unit[:-1]
    present = {Tier.HBM: (problem.hbm_capacity > 0).any(), Tier.DDR: served is not Tier.CPU, served: is_server.any()}
    return {
        tier: np.add.reduceat(per_unit.sum(axis=1), starts) if len(starts) else np.empty(0, np.int64)
        for tier, per_unit in taken.items()
        if present[tier]
    }


def _capacity_bytes(problem: Problem, served: Tier) -> dict[Tier, int]:
    pools, is_trainer = np.arange(len(problem.ddr_capacity)), problem.device_is_trainer
    of_trainers, of_servers = (np.isin(pools, problem.device_pool[who]) for who in (is_trainer, ~is_trainer))
    return {
        Tier.HBM: int(problem.hbm_capacity.sum()),
        Tier.DDR: int(problem.ddr_capacity[of_trainers].sum()),
        served: int(problem.ddr_capacity[of_servers].sum()),
    }


def describe(shortage: Shortage, priced: PricedQuestion) -> str:
    """For people: what is over, by how much, and the largest tables."""
    where = " and ".join(_MEMORY[tier] for tier in shortage.tiers)
    named = ", ".join(f"{priced.item_name(index)} ({show_gib(int(shortage.per_table_bytes[index]))})" for index in largest(shortage))
    together = " together" if len(shortage.tiers) > 1 else ""
    pinned = " and pinned tables" if priced.fixed.placements else ""
    return (
        f"{where}{together}: the tables need at least {show_gib(shortage.needed_bytes)}, {show_gib(shortage.capacity_bytes)} are there "
        f"beside what every rank holds anyway{pinned}: {show_gib(shortage.over_bytes)} over; the largest tables are {named}"
    )


def largest(shortage: Shortage) -> list[int]:
    """The items that take most, the largest first."""
    order: list[int] = np.argsort(-shortage.per_table_bytes, kind="stable")[:_SHOWN_TABLES].tolist()
    return order


def rank_reasons(priced: PricedQuestion) -> Iterator[str]:
    """Ranks whose dense layers and batch alone are too much, or those with the tables that are pinned to them."""
    pinned_hbm, pinned_ddr = priced.fixed_bytes
    hbm, ddr = priced.problem.hbm_capacity + pinned_hbm, priced.problem.ddr_capacity.copy()
    np.add.at(ddr, priced.problem.device_pool, pinned_ddr)
    for kind in dict.fromkeys(rank.device for rank in priced.topology.ranks):
        index = next(index for index, rank in enumerate(priced.topology.ranks) if rank.device == kind)
        rank, own = priced.topology.ranks[index], int(priced.pricer.rank_bytes[index])
        on_cuda = rank.type is DeviceType.CUDA
        left = int(hbm[index] if on_cuda else ddr[rank.node])
        if left < 0:
            yield (
                f"each rank on {kind} holds {show_gib(own)} beside its tables (dense layers, batch, activations): "
                f"{show_gib(-left)} more than {'its HBM has' if on_cuda else 'the system memory of its node has for all its ranks'}; "
                "a smaller local_batch_size or smaller dense layers would help"
            )
    for index in np.flatnonzero((pinned_hbm > hbm) & (hbm >= 0)).tolist():
        yield f"rank {index}: the tables pinned to it need {show_gib(int(pinned_hbm[index]))} of HBM, {show_gib(int(pinned_hbm[index] - hbm[index]))} over"
    for pool in np.flatnonzero((priced.problem.ddr_capacity < 0) & (ddr >= 0)).tolist():
        over = -int(priced.problem.ddr_capacity[pool])
        yield f"node {pool}: the tables pinned to its ranks need {show_gib(over)} more system memory than it has"


def table_reasons(priced: PricedQuestion) -> Iterator[tuple[str, str]]:
    """(table, why) of every table that has no option on its own."""
    problem = priced.problem
    over = _least_overshoot(problem)
    yield from priced.fixed.conflicts
    stuck = {name for name, _ in priced.fixed.conflicts}
    for index, item in enumerate(priced.items):
        table, name = priced.question.model.tables[item[0]], priced.item_name(index)
        if name in stuck:
            continue
        options = slice(*np.searchsorted(problem.option_table, [index, index + 1]))
        if options.start == options.stop:
            yield name, "no kind of device can hold all of them" if len(item) > 1 else _conflict(table, priced)
        elif len(item) > 1 and problem.allowed is not None and not problem.allowed[index].any():
            yield name, "must be together, but no rank is allowed for all of them"
        elif not _has_rank(table, len(priced.topology.ranks)):
            yield (
                name,
                f"its constraints allow only ranks {list(table.constraints.ranks or ())}, the job has 0..{len(priced.topology.ranks) - 1}",
            )
        elif (least := int(over[options].min())) > 0:
            layout = priced.layouts_of(options.start + int(over[options].argmin()))[0]
            form = f"even its most split form ({layout.sharding_type}, {layout.kernel})" if len(item) == 1 else "them together"
            yield name, f"no device has room for {form}: {show_gib(least)} over{_or_split_rows(table, priced)}"


def _or_split_rows(table: Table, priced: PricedQuestion) -> str:
    """A remedy for a table that keeps its rows whole because it pools means."""
    module = priced.question.model.module_of(table)
    keeps_whole = module.pooling is Pooling.MEAN and not module.splits_rows
    return f"; with splits_rows in its module {module.path} all tables there are split by rows" if keeps_whole else ""


def _least_overshoot(problem: Problem) -> Ints:
    """[O] bytes by which the largest unit of each option exceeds the roomiest device of each kind."""
    kinds = range(problem.num_kinds)
    hbm = np.array([problem.hbm_capacity[problem.device_kind == kind].max() for kind in kinds])
    ddr = np.array([problem.ddr_capacity[problem.device_pool[problem.device_kind == kind]].max() for kind in kinds])
    worst = np.maximum(problem.unit_hbm_bytes - hbm, problem.unit_ddr_bytes - ddr)
    worst = np.where((problem.unit_hbm_bytes > 0) | (problem.unit_ddr_bytes > 0), worst, 0).max(axis=1, initial=0)
    starts = problem.option_first_unit[:-1]
    return np.asarray(np.maximum.reduceat(worst, starts)) if len(starts) else np.empty(0, np.int64)


def _without_option(priced: PricedQuestion) -> bool:
    return bool(priced.fixed.conflicts) or not np.isin(np.arange(len(priced.items)), priced.problem.option_table).all()


def _has_rank(table: Table, num_ranks: int) -> bool:
    return table.constraints.ranks is None or any(rank < num_ranks for rank in table.constraints.ranks)


def _conflict(table: Table, priced: PricedQuestion) -> str:
    """Which constraint, or what of the table itself, leaves nothing."""
    limits, refusal = priced.question.model.limits(table), _dense_refusal(table, priced)
    offered = [layout for layout in priced.layouts if refusal is None or layout.kernel is not ComputeKernel.DENSE]
    if not offered and _lacks_fused_kernels(priced):
        why = _NO_FUSED_ADAM if refusal is None else f"{_NO_FUSED_ADAM}, and {refusal}"
        return f"{why}; use another optimizer{_or_another_type(table, priced)}"
    if not offered:
        return "the target offers no kernel for it within the allowed tiers"
    permitted = [layout for layout in priced.layouts if permits(limits, layout)]
    if permitted and not any(layout in offered for layout in permitted):
        remedy = f"allow another sharding type{_or_another_type(table, priced)}"
        return f"its constraints ({_spelled(limits)}) leave only data_parallel: {refusal}; {remedy}"
    for what, allowed, fits in (
        ("tiers", limits.tiers, [layout for layout in offered if limits.tiers and layout.tiers <= set(limits.tiers)]),
        ("sharding types", limits.sharding_types, [layout for layout in offered if layout.sharding_type in (limits.sharding_types or ())]),
        ("compute kernels", limits.compute_kernels, [layout for layout in offered if layout.kernel in (limits.compute_kernels or ())]),
    ):
        if allowed is not None and not fits:
            there = sorted({value for layout in offered for value in _values(what, layout)})
            return f"its constraints allow only {what} {', '.join(allowed)}; this target offers {', '.join(there)}"
    if not permitted:
        return f"its constraints together leave no way to place it ({_spelled(limits)}); allow more of one of them"
    size = f"{table.num_embeddings} x {table.embedding_dim}"
    return f"its constraints ({_spelled(limits)}) leave no cut of {size} that is looked for; allow another sharding type"


def _dense_refusal(table: Table, priced: PricedQuestion) -> str | None:
    """Why the table can't be data_parallel on all trainers, or None."""
    refusals = (table_refusal(ComputeKernel.DENSE, rank, priced.question.model, table) for rank in priced.topology.trainers)
    return next((refusal for refusal in refusals if refusal is not None), None)


def _or_another_type(table: Table, priced: PricedQuestion) -> str:
    """A remedy where the table could be data_parallel but for its data type."""
    in_fp32 = table.model_copy(update={"data_type": DataType.FP32})
    helps = _dense_refusal(table, priced) is not None and _dense_refusal(in_fp32, priced) is None
    return ", or use data_type fp32, fp16 or bf16" if helps else ""


def _lacks_fused_kernels(priced: PricedQuestion) -> bool:
    """Whether no rank that holds tables in the allowed tiers trains any with a fused kernel."""
    allowed = set(priced.question.allowed_tiers)
    holders = [rank for rank in priced.topology.ranks if any(tiers_of(kernel, rank) <= allowed for kernel in ComputeKernel)]
    return not any(trains_fused(rank.type, priced.question.model.optimizer) for rank in holders)


def _values(what: str, layout: Layout) -> set[str]:
    match what:
        case "tiers":
            return {str(tier) for tier in layout.tiers}
        case "sharding types":
            return {str(layout.sharding_type)}
    return {str(layout.kernel)}


def _spelled(limits: Constraints) -> str:
    return ", ".join(f"{key}: {', '.join(map(str, value))}" for key, value in limits.to_data().items())
