"""Ranks that share cores: the work of all of them counts, not that of the slowest alone (placement.stages.stage_lengths_us).

A stage lasts at least as long as the mean of its ranks' loads, and that is a sum over tables: no placement takes less than the
sum of every table's cheapest option. A placement with such options only, balanced within the number of ranks to a core, takes
just that. So the search keeps to options that are close to the cheapest, and balances them as always.
"""

from __future__ import annotations

import numpy as np

from emplace.placement.stages import slowest_share
from emplace.solver.model.indexing import devices_covered, sum_by_option
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Bools, Floats, Problem
from emplace.solver.relaxation.aggregate import counts

SHARED_BOUND = "least work and slowest rank"
"""The name of the bound where ranks share cores."""
SPARE = 0.02
"""Share of a table's least work that an option may take more and still be searched."""


def option_work_us(problem: Problem) -> Floats:
    """[O] the mean over devices of what an option adds to them, all stages together."""
    # All trainer nodes have equally many devices, of the same kinds.
    work = sum_by_option(problem, problem.unit_time_us.sum(axis=2)) * devices_covered(problem)
    return np.asarray(work.sum(axis=1) * counts(problem) / problem.num_devices)


def least_work_us(problem: Problem) -> float:
    """No placement's stages last less, whatever fits."""
    first = np.searchsorted(problem.option_table, np.unique(problem.option_table))
    least = np.minimum.reduceat(option_work_us(problem), first)
    return float(problem.constant_us + problem.stage_base_us.sum() + least.sum())


def shared_bound_us(priced: PricedQuestion, slowest_us: float) -> float:
    """On the step of every plan, where no plan's slowest ranks take less than `slowest_us`: the two count in parts."""
    share, least_us = slowest_share(priced.question.cost_model, len(priced.topology.ranks)), least_work_us(priced.relaxed)
    return max(least_us, (1 - share) * least_us + share * slowest_us)


def cheap_options(problem: Problem) -> Bools:
    """[O] whose work is close to the least of their table."""
    work = option_work_us(problem)
    tables, of_option = np.unique(problem.option_table, return_inverse=True)
    least = np.full(len(tables), np.inf)
    np.minimum.at(least, of_option, work)
    return np.asarray(work <= least[of_option] * (1 + SPARE))
