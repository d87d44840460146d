"""A program solved from its likely ways: those that tables have in the relaxations of the cases with the lowest bounds.

A table of tens of GiB that is on servers and belongs into caches displaces so much on the way that no search gets there by moves that
each better something. The cases of the bound know: in each, the relaxation takes one way for nearly every table. With these alone
a search is short.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np

from emplace.solver.budget import LIKELY_SHARE, MOST_LIKELY, Budget
from emplace.solver.driver.solve_program import solve_program
from emplace.solver.driver.type_search import TypeProgram, with_only
from emplace.solver.model.cover import Cover, Way
from emplace.solver.model.extract import Placement
from emplace.solver.model.indexing import first_option, or_all
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Bools
from emplace.solver.model.warm_start import with_warm_start
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.by_cases import BoundedCase
from emplace.solver.result import Limit, Result

Ways = frozenset[tuple[int, Way]]
"""(table of a cover, way)"""


def solve_likely_first(program: TypeProgram, budget: Budget, monitor: Monitor) -> Result[Placement]:
    """The best placement of the program that is found, and its bound: first with likely ways alone, then with all from the best of these.

    A warm start has ways already.
    """
    priced, likely = program.priced, _likely_ways(program)
    if not likely or priced.problem.warm_start is not None:
        return solve_program(priced, budget, monitor, program.bound_us, program.bounder)
    best, left = Result[Placement](None, np.inf, program.bound_us, program.bound, Limit.WORK), 1.0
    for ways, bound_us in islice(likely.items(), MOST_LIKELY):
        if bound_us >= best.objective_us * (1 - budget.gap):
            break
        here = monitor.part(others_best_us=best.objective_us).sharing(LIKELY_SHARE / left)
        best = best.united_with(solve_program(_with_ways(priced, ways), budget.share(LIKELY_SHARE), here, program.bound_us))
        left -= LIKELY_SHARE
        if best.limit is Limit.INTERRUPTED or best.gap <= budget.gap or monitor.is_answered(best.objective_us, best.lower_bound_us):
            return best
    if best.solution is not None:
        priced = with_warm_start(priced, {table.name: table for table in best.solution.tables})
    found = solve_program(priced, budget.share(left), monitor.part(others_best_us=best.objective_us), program.bound_us)
    return replace(found.merged_with(best), moves=found.moves + best.moves)


def _likely_ways(program: TypeProgram) -> dict[Ways, float]:
    """What tables have in the relaxations of the cases, the lowest bound first, with the bound of the first case that has it."""
    found: dict[Ways, float] = {}
    for case in program.cases:
        if math.isfinite(case.bound_us) and program.priced.cover is not None:
            found.setdefault(_taken_ways(program.priced.cover, case), case.bound_us)
    return found


def _taken_ways(cover: Cover, case: BoundedCase) -> Ways:
    taken = np.flatnonzero((case.taken > 0) & (cover.way >= 0))
    return frozenset((int(cover.option_table[option]), cover.ways[cover.way[option]]) for option in taken)


def _with_ways(priced: PricedQuestion, ways: Ways) -> PricedQuestion:
    """The program with these ways; a table that is offered none of its ways keeps all."""
    kept = _of_ways(priced, ways)
    return with_only(priced, or_all(first_option(priced.problem), kept, np.ones_like(kept)))


def _of_ways(priced: PricedQuestion, ways: Ways) -> Bools:
    """[O] whether all tables of an option have one of their `ways`; what fixed tables load has."""
    place = {table: number for number, table in enumerate(sorted(table for item in priced.items for table in item))}
    kept = np.ones(priced.problem.num_options, dtype=bool)
    for option in np.flatnonzero(priced.option_layout >= 0).tolist():
        item = priced.items[priced.problem.option_table[option]]
        has = (
            (place[table], Way(each.sharding_type, each.kernel, each.on_server))
            for table, each in zip(item, priced.layouts_of(option), strict=True)
        )
        kept[option] = all(one in ways for one in has)
    return kept
