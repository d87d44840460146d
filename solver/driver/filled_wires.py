"""Jobs whose input fills their network, so that what else crosses it makes steps longer, whatever the devices need.

A step is as long as the devices take, or the wire for input and vectors (placement/arriving.py). So for any weight w from 0 to 1 no
step is shorter than (1 - w) devices + w (input + vectors), and that is a step of the integer program, but for a constant, where servers'
vectors are dearer. Its best plan has little on the wire, and on one node its bound holds for all plans. With several nodes more than
servers' vectors crosses wires, each of which has its own: plans with little on them are looked for likewise, and the bound is the devices'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.solver.budget import FLOOR_SHARE, MET, enough_gap
from emplace.solver.driver.as_placed import as_placed
from emplace.solver.driver.at_once import Programs
from emplace.solver.driver.packing import quick_placement
from emplace.solver.driver.solve_variants import Searches, solve_searches, solve_variants, type_searches
from emplace.solver.model.extract import Placement
from emplace.solver.model.warm_start import Placed
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result

WEIGHT = 0.95
"""The wire's part in the mean."""
_HALF = 0.5


def solve_devices_and_wires(
    question: Question, monitor: Monitor, warm_start: Placed | None, offered: Programs | None = None
) -> Result[Placement]:
    """The best plan found and a bound; for the devices alone, where these take longer than the input or a target is asked for.

    A little of the limit is for a plan whose step is as short as without tables, half of it for plans with little on the wire. Where the
    best of these waits for its devices and is not close to the bound, the rest is for the devices alone. So is all of it where pricing took
    so much of a limit of time that there is none to price anew. `offered` as in `solve_variants`.
    """
    input_us = _input_us(question)
    if input_us > 0 and monitor.target_us is None and question.topology(with_servers=False).trainer_nodes > 1:
        return _on_several_nodes(question, input_us, monitor, warm_start, offered)
    if input_us == 0 or monitor.target_us is not None:
        return solve_variants(question, monitor, warm_start, offered)
    before_s, of_devices = monitor.clock.left_s, monitor.part(has_incumbents=False)
    devices = type_searches(question, of_devices, warm_start, offered)
    lowest_us = min(types.lowest_us() for _, types in devices)
    pricing_s = before_s - monitor.clock.left_s
    if lowest_us > input_us:
        return solve_searches(question, devices, monitor)
    found = _best_of(question, (types.first_plan for _, types in devices), input_us)
    monitor.tell(found.objective_us, found.lower_bound_us, "first plan")
    if (at_floor := _at_floor(question, devices, input_us, monitor)) is not None:
        return at_floor
    if not monitor.clock.is_set or pricing_s < _HALF * monitor.clock.left_s:
        light = _with_light_wires(question, input_us, monitor, warm_start)
        if light.is_infeasible:
            return light
        found = light.merged_with(found)
        monitor.tell(found.objective_us, found.lower_bound_us, "wires")
    if found.gap > enough_gap(question.options.gap) and found.limit is not Limit.INTERRUPTED and _waits_for_devices(question, found):
        last = _as_it_is(question, solve_searches(_with_share(question, _HALF), devices, of_devices))
        if last.is_infeasible:
            return last
        found = replace(found.merged_with(last), limit=last.limit, moves=found.moves + last.moves)
    return replace(found, limit=_limit(found, question))


def _on_several_nodes(
    question: Question, input_us: float, monitor: Monitor, warm_start: Placed | None, offered: Programs | None
) -> Result[Placement]:
    """The best plan found; half of the limit is for plans with little on the wires, where a packed one waits for them."""
    devices = type_searches(question, monitor, warm_start, offered)
    packed = [types.first_plan or quick_placement(types.priced) for _, types in devices if types.others_us < math.inf]
    first = _best_of(question, packed, input_us)
    if first.solution is None or _waits_for_devices(question, first):
        return solve_searches(question, devices, monitor)
    found = solve_searches(_with_share(question, _HALF), devices, monitor.sharing(_HALF))
    if found.is_infeasible:
        return found
    found = _as_it_is(question, found).merged_with(first)
    if found.limit is Limit.INTERRUPTED or found.gap <= enough_gap(question.options.gap) or monitor.stopped():
        return found
    light = solve_variants(_with_dear_wires(_with_share(question, _HALF)), monitor.silent(), warm_start)
    found = found.merged_with(_as_it_is(question, replace(light, lower_bound_us=0.0)))
    return replace(found, limit=max(found.limit, light.limit, key=list(Limit).index), moves=found.moves + light.moves)


def _best_of(question: Question, plans: Iterable[Placement | None], input_us: float) -> Result[Placement]:
    """The best of plans that were there before any search; no step is shorter than the input."""
    none = Result[Placement](None, math.inf, input_us, "network", Limit.WORK)
    firsts = [replace(none, solution=plan) for plan in plans if plan is not None]
    return min([none, *(_as_it_is(question, each) for each in firsts)], key=lambda each: each.objective_us)


def _at_floor(question: Question, devices: Searches, input_us: float, monitor: Monitor) -> Result[Placement] | None:
    """A plan whose step is no longer than without tables; None where a little of the limit finds none whose devices are done by then."""
    floor_us = question.cost_model.floor(question.model).time_us
    here = monitor.silent().sharing(FLOOR_SHARE).wanting(floor_us)
    searches = [(variant, types.from_here()) for variant, types in devices]
    found = _as_it_is(question, solve_searches(_with_share(question, FLOOR_SHARE), searches, here))
    if found.solution is None or found.solution.step_time_us > found.solution.constant_us * (1 + MET):
        return None
    return replace(found, lower_bound_us=input_us, bound="network", limit=Limit.GAP)


def _with_light_wires(question: Question, input_us: float, monitor: Monitor, warm_start: Placed | None) -> Result[Placement]:
    """The best plan with little on the wire, and the bound of the mean of devices and wires."""
    dear = _with_dear_vectors(_with_share(question, _HALF))
    light = solve_variants(dear, monitor.sharing(_HALF).silent(), warm_start)
    if light.is_infeasible:
        return light
    bound_us = (1 - WEIGHT) * light.lower_bound_us + WEIGHT * input_us
    return _as_it_is(question, replace(light, lower_bound_us=max(input_us, bound_us), bound="network"))


def _waits_for_devices(question: Question, found: Result[Placement]) -> bool:
    """Whether a step of the plan found is as long as its devices take; else what makes it shorter has less on the wire."""
    without_wires = question.model_copy(update={"cost_model": question.cost_model.model_copy(update={"ingest": None})})
    return _as_it_is(without_wires, found).objective_us >= found.objective_us * (1 - MET)


def _limit(found: Result[Placement], question: Question) -> Limit:
    if found.limit is Limit.INTERRUPTED:
        return found.limit
    return Limit.GAP if found.gap <= enough_gap(question.options.gap) else Limit.WORK


def _input_us(question: Question) -> float:
    """Microseconds of the input on the network, where something that depends on the plan crosses it too; else 0."""
    ingest, alone = question.cost_model.ingest, question.topology(with_servers=False)
    if ingest is None or (alone.trainer_nodes == 1 and Tier.REMOTE not in question.allowed_tiers):
        return 0.0
    return ingest.network_us(question.model)


def _with_share(question: Question, share: float) -> Question:
    """With so much of the limit of work, if it has one."""
    limit = question.options.work_limit
    less = {} if limit is None else {"work_limit": share * limit}
    return question.model_copy(update={"options": question.options.model_copy(update=less)})


def _with_dear_vectors(question: Question) -> Question:
    """Each of a server's vectors costs WEIGHT / (1 - WEIGHT) of its time on the wire more, at most: gradients go the other way."""
    sent = [module.sent_in for module in question.model.modules or ()]
    # At least as much back: what is put out in fewer bytes is sent in no more, either way.
    there_and_back = 1 + max([1.0, *(each.backward_precision.value_bytes / each.forward_precision.value_bytes for each in sent)])
    links, more = question.cost_model.all_to_all, WEIGHT / (1 - WEIGHT) / there_and_back
    dear = links.model_copy(update={"per_inter_node_byte_us": links.per_inter_node_byte_us * (1 + more)})
    # Ids cost what they did.
    prices = question.cost_model.model_copy(update={"all_to_all": dear, "input_dist": question.cost_model.id_exchange})
    return question.model_copy(update={"cost_model": prices})


def _with_dear_wires(question: Question) -> Question:
    """Each byte between nodes costs WEIGHT / (1 - WEIGHT) of its time more."""
    cost, more = question.cost_model, 1 + WEIGHT / (1 - WEIGHT)
    links = {
        "input_dist": cost.id_exchange,
        "all_to_all": cost.all_to_all,
        "reduce_scatter": cost.reduce_scatter,
        "all_reduce": cost.all_reduce,
    }
    dear = {name: each.model_copy(update={"per_inter_node_byte_us": each.per_inter_node_byte_us * more}) for name, each in links.items()}
    return question.model_copy(update={"cost_model": cost.model_copy(update=dear)})


def _as_it_is(question: Question, found: Result[Placement]) -> Result[Placement]:
    """The plan found as the question prices it, wires and all."""
    if found.solution is None:
        return replace(found, objective_us=math.inf)
    topology = question.topology(with_servers=any(rank.is_server for rank in found.solution.ranks))
    placed = as_placed(question, found.solution.tables, topology)
    return replace(found, solution=placed, objective_us=placed.cost_us, lower_bound_us=min(found.lower_bound_us, placed.cost_us))
