"""Steps that are no shorter than a floor, whatever devices need: launches and input take their time beside them (CostModel.floor).

A plan whose step is no longer than without any table is a best one, and no search or bound of devices says more. But floors are predicted
too, and where they are lower than that, devices are what a step waits for. So a little of the limit still goes into devices that are done
sooner: with only the options that are offered, whose bounds take a moment.
"""

from __future__ import annotations

from dataclasses import replace

from emplace.placement.cost_model import Floor
from emplace.placement.derived_loads import constant_us, derive_loads
from emplace.placement.derived_plan import NO_TABLES
from emplace.placement.plan import Question
from emplace.solver.budget import FLOOR_SHARE, MET, MOST_FLOOR_SECONDS
from emplace.solver.driver.as_placed import earlier_placement
from emplace.solver.driver.at_once import Programs
from emplace.solver.driver.even_spread import even_spread_us
from emplace.solver.driver.filled_wires import solve_devices_and_wires
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.solve_variants import budget_of, offered_variants, solve_types, type_search
from emplace.solver.driver.variants import Variant
from emplace.solver.model.extract import Placement
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.warm_start import Placed, with_warm_start
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

Bound = tuple[float, str]
"""Microseconds that no plan takes less than, and the name of what proves them."""


def solve_above_floor(question: Question, monitor: Monitor, warm_start: Placed | None) -> Result[Placement]:
    """The best plan found of the devices' times and a bound; without a target the search ends where the step is as short as its floor."""
    if monitor.has_target:
        return solve_devices_and_wires(question, monitor, warm_start)
    offered = offered_variants(question)
    if (packed := _packed_at_floor(question, offered, monitor, warm_start)) is not None:
        return packed
    floor_us = question.cost_model.floor(question.model).time_us if _wires_are_given(question, offered) else 0.0
    found = solve_devices_and_wires(question, monitor.above(floor_us), warm_start, offered)
    is_at_floor = floor_us > 0 and found.solution is not None and _is_at_floor(question, found.solution)
    return _with_devices_done_sooner(found, offered, monitor) if is_at_floor else found


def stay_at_floor(question: Question) -> Result[Placement] | None:
    """The plan to start from, where its step is as short as its floor: nothing costs less than not to move. Else None."""
    stays = earlier_placement(question, {table.name: table for table in question.options.start or ()})
    return None if stays is None or not _is_at_floor(question, stays) else _answer(stays)


def raised_to_floor(found: Result[Placement], question: Question) -> Result[Placement]:
    """What was found of the devices' times, with steps that are no shorter than their launches, their input and their wires.

    Launches and input are the same for every placement, so the best one is a best one still. Wires are not: where input and exchanges
    fill them, and where moves have a price, the bound is looser than it could be.
    """
    floor = question.cost_model.floor(question.model)
    if found.is_infeasible or floor.time_us == 0:
        return found
    raw = found.solution
    step_us, without_tables_us = (0.0, 0.0) if raw is None else _as_derived(question, raw)
    bound_us, name = raised_bound((found.lower_bound_us, found.bound), floor, without_tables_us)
    found = replace(found, lower_bound_us=bound_us, bound=name)
    if raw is None:
        return found
    placed = replace(raw, step_time_us=step_us, constant_us=without_tables_us)
    return replace(found, solution=placed, objective_us=placed.cost_us)


def raised_bound(of_devices: Bound, floor: Floor, without_tables_us: float) -> Bound:
    """The bound of the devices' times, or what every step takes where that is more; of equal ones the floor's, which needs no search."""
    if floor.time_us == 0:
        return of_devices
    return max((floor.time_us, floor.name), of_devices, (without_tables_us, "network"), key=lambda bound: bound[0])


def _packed_at_floor(question: Question, offered: Programs, monitor: Monitor, warm_start: Placed | None) -> Result[Placement] | None:
    """A packed plan at the floor, its devices done sooner; None where packing finds none."""
    for variant, priced in offered:
        least_us = constant_us(question, variant.topology)
        if not priced.may_have_a_plan or even_spread_us(priced) > least_us:
            continue  # none of the program's plans is at the floor
        packed = quick_placement(priced)
        if packed is not None and _is_at_floor(question, packed):
            monitor.tell(least_us, least_us, "first plan")
            started = priced if warm_start is None else with_warm_start(priced, warm_start)
            return _best_at_floor(_answer(packed), variant, started, monitor)
    return None


def _with_devices_done_sooner(found: Result[Placement], offered: Programs, monitor: Monitor) -> Result[Placement]:
    """What a search found that ended at the floor, bettered from there."""
    assert found.solution is not None
    ranks, tables = len(found.solution.ranks), {table.name: table for table in found.solution.tables}
    variant, priced = next((variant, priced) for variant, priced in offered if len(variant.topology.ranks) == ranks)
    return _best_at_floor(found, variant, with_warm_start(priced, tables), monitor)


def _best_at_floor(first: Result[Placement], variant: Variant, priced: PricedQuestion, monitor: Monitor) -> Result[Placement]:
    """The plan at the floor whose devices are done first: this one, or one that a little of the limit finds."""
    question, here = priced.question, monitor.silent()
    if here.clock.is_set:
        here = here.within(min(FLOOR_SHARE * here.clock.left_s, MOST_FLOOR_SECONDS))
    # What devices need alone: all plans at the floor are equally good with their launches.
    alone = question.model_copy(update={"cost_model": question.cost_model.model_copy(update={"launches": None})})
    types = type_search(replace(priced, question=alone), here)
    budget = budget_of(question, [(variant, types)], monitor)
    later = solve_types(types, budget.of(min(FLOOR_SHARE * budget.seconds, MOST_FLOOR_SECONDS)), here)
    is_better = later.solution is not None and later.objective_us < first.objective_us and _is_at_floor(question, later.solution)
    best = later if is_better else first
    limit = Limit.INTERRUPTED if later.limit is Limit.INTERRUPTED else Limit.GAP
    return replace(first, solution=best.solution, objective_us=best.objective_us, limit=limit, moves=first.moves + later.moves)


def _answer(placement: Placement) -> Result[Placement]:
    return Result(placement, placement.cost_us, placement.constant_us, NO_TABLES, Limit.GAP)


def _wires_are_given(question: Question, offered: Programs) -> bool:
    """Whether what arrives on wires is the same for every placement, or counts nowhere."""
    ingest = question.cost_model.ingest
    has_input = ingest is not None and ingest.network_us(question.model) > 0
    return not has_input or all(variant.topology.trainer_nodes == 1 and not variant.topology.servers for variant, _ in offered)


def _is_at_floor(question: Question, placement: Placement) -> bool:
    """Whether its step is no longer than one without tables."""
    step_us, without_tables_us = _as_derived(question, placement)
    return step_us <= without_tables_us * (1 + MET)


def _as_derived(question: Question, placement: Placement) -> tuple[float, float]:
    """(its step, a step without tables), floors and wires included."""
    topology = question.topology(with_servers=any(rank.is_server for rank in placement.ranks))
    derived = derive_loads(question, placement.tables, topology)
    return derived.step_time_us, derived.constant_us
