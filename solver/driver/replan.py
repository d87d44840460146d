"""Planning a job that runs already: the least step time plus the price of the bytes that have to move.

The program knows no such price. So several plans are made and the cheapest is taken:

    free     planned as if nothing were anywhere, with ranks renamed to hold what they hold already where they can
    stay     every table that still may lies where it is
    partly   as stay, but the tables that load the busiest ranks most for their bytes are free, in two sizes

and each is then improved table by table: any of the places that a table has in these plans, as long as that costs less.
The price is never negative, so the bound of the free plan holds for every plan with its price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.moving import move_cost_us, moved_bytes
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.topology import Topology
from emplace.solver.budget import FREE_REPLAN_SHARE, STAY_REPLAN_SHARE, Budget
from emplace.solver.driver.relabel_ranks import relabelled
from emplace.solver.driver.replan_local_search import ReplanLocalSearch
from emplace.solver.driver.solve_variants import NO_TIER, budget_of, solve_types, type_search, type_searches
from emplace.solver.driver.type_search import TypeSearch
from emplace.solver.driver.variants import Variant
from emplace.solver.model.build import price
from emplace.solver.model.extract import Placement, assemble
from emplace.solver.model.fixed import Fixed, misfit
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Assignment
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

FREED = (1 / 16, 1 / 4)
"""Shares of the tables that are free in a partly free plan."""


def replan(question: Question, monitor: Monitor) -> Result[Placement]:
    """Solve every variant of a question with a start."""
    # The step time of a plan whose moves have no price yet says nothing about the answer.
    monitor = monitor.part(has_incumbents=False)
    searches = type_searches(question, monitor)
    budget, whole = budget_of(question, searches, monitor), NO_TIER
    for number, (variant, types) in enumerate(searches):
        others_us = min([whole.lower_bound_us, *(later.others_us for _, later in searches[number + 1 :])])
        here = monitor.part(others_bound_us=others_us, phase=f"{variant.name}: ").sharing(1 / (len(searches) - number))
        whole = whole.united_with(_Replanner(question, variant, budget, here).run(types))
    return whole


def held_tables(question: Question, topology: Topology) -> dict[str, TablePlacement]:
    """Tables of the start that may stay where they are: of a group kept together all or none, of one kept apart the largest
    on each rank."""
    tables = {table.name: table for table in question.model.tables}
    start = {each.name: each for each in question.options.start or () if each.name in tables}
    held = {name: each for name, each in start.items() if misfit(question, tables[name], each, topology) is None}
    for group in question.model.together or ():
        ranks = {tuple(shard.rank for shard in held[name].shards) for name in group if name in held}
        if len(ranks) > 1 or any(name not in held for name in group):
            held = {name: each for name, each in held.items() if name not in group}
    for group in question.model.apart or ():
        taken: set[int] = set()
        sizes = {name: -tables[name].num_embeddings * tables[name].embedding_dim for name in group if name in held}
        for name in sorted(sizes, key=sizes.__getitem__):
            here = {shard.rank for shard in held[name].shards}
            if here & taken:
                del held[name]
            taken |= here
    return held


@dataclass
class _Replanner:
    """One program."""

    question: Question
    variant: Variant
    budget: Budget
    monitor: Monitor

    def run(self, types: TypeSearch) -> Result[Placement]:
        """The cheapest of all plans that are made, with the bound of the free one."""
        priced = types.priced
        free = solve_types(types, self.budget.share(FREE_REPLAN_SHARE), self.monitor.sharing(FREE_REPLAN_SHARE))
        if free.is_infeasible:
            return free
        held = held_tables(self.question, self.variant.topology)
        plans = [*self._free_plans(free, priced, held), *self._held_plans(priced, held)]
        if not plans:
            return free
        local_search = ReplanLocalSearch(
            priced, self.question.options.start or (), self.question.options.move_price_us_per_gib or 0.0, plans, held
        )
        mixed = [self._exact(tables) for tables in (local_search.improved(plan) for plan in plans)]
        cost, best = min(((self._cost_us(plan), index) for index, plan in enumerate(mixed) if plan.fits), default=(math.inf, -1))
        if best < 0:
            return free
        placement = replace(mixed[best], move_cost_us=cost - mixed[best].step_time_us)
        limit = Limit.GAP if free.lower_bound_us >= cost * (1 - self.budget.gap) else Limit.WORK
        if free.limit is Limit.INTERRUPTED:
            limit = Limit.INTERRUPTED
        return replace(free, solution=placement, objective_us=placement.cost_us, limit=limit)

    def _free_plans(
        self, free: Result[Placement], priced: PricedQuestion, held: Mapping[str, TablePlacement]
    ) -> Iterator[tuple[TablePlacement, ...]]:
        if free.solution is not None:
            yield free.solution.tables
            bound_to_ranks = priced.fixed.placements or any(table.constraints.ranks for table in self.question.model.tables)
            if not bound_to_ranks:
                tables = relabelled(self.question, free.solution.tables, held, self.variant.topology)
                if self._exact(tables).fits:
                    yield tables

    def _held_plans(self, priced: PricedQuestion, held: dict[str, TablePlacement]) -> Iterator[tuple[TablePlacement, ...]]:
        if not held:
            return
        order = _most_relief_first(priced, held)
        left = 1 - FREE_REPLAN_SHARE
        rest = (left - STAY_REPLAN_SHARE) / len(FREED)
        for freed, share in ((0.0, STAY_REPLAN_SHARE), *((each, rest) for each in FREED)):
            names = set(order[: math.ceil(len(order) * freed)])
            groups = [group for group in self.question.model.together or () if names & set(group)]
            names.update(name for group in groups for name in group)
            partly = self._priced({name: each for name, each in held.items() if name not in names})
            if not partly.items:
                tables = assemble(partly, Assignment(np.empty(0, np.int64), ()))
                if tables.fits:
                    yield tables.tables
            else:
                quiet = self.monitor.silent().sharing(share / left)
                found = solve_types(type_search(partly, quiet), self.budget.share(share), quiet)
                if found.solution is not None:
                    yield found.solution.tables
            left -= share

    def _priced(self, held: Mapping[str, TablePlacement]) -> PricedQuestion:
        return price(self.question, self.variant.topology, self.variant.tiers, held=held)

    def _exact(self, tables: tuple[TablePlacement, ...]) -> Placement:
        return assemble(self._priced({each.name: each for each in tables}), Assignment(np.empty(0, np.int64), ()))

    def _cost_us(self, placement: Placement) -> float:
        options = self.question.options
        moved = moved_bytes(self.question.model, options.start or (), placement.tables)
        return placement.step_time_us + move_cost_us(moved, options.move_price_us_per_gib or 0.0)


def _most_relief_first(priced: PricedQuestion, held: dict[str, TablePlacement]) -> list[str]:
    """Tables by what they add to the busiest ranks for each of their bytes; first those on ranks with too little memory."""
    index = {table.name: number for number, table in enumerate(priced.question.model.tables)}
    loads = {name: priced.pricer.fixed_load(Fixed({index[name]: each}, ())) for name, each in held.items()}
    time_us = priced.problem.stage_base_us + sum(load.time_us for load in loads.values())
    busy = time_us >= 0.9 * time_us.max(axis=0)
    hbm = sum(load.hbm_bytes for load in loads.values())
    over = hbm > priced.problem.hbm_capacity
    return sorted(
        held,
        key=lambda name: (
            -int(loads[name].hbm_bytes[over].sum()),
            -float((loads[name].time_us * busy).sum() / (loads[name].hbm_bytes.sum() + loads[name].ddr_bytes.sum() + 1)),
        ),
    )
