"""TorchRec's ShardingPlans as Plans: placed, priced, and compared with the best that any plan could do."""

from __future__ import annotations

import time
from importlib.metadata import version

from emplace.executor.imported import TheirPlan, placements
from emplace.placement.cost_model import CostModel
from emplace.placement.derived_loads import constant_us
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.extrapolation import beyond_measured
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.placement_gap import placement_gap
from emplace.placement.plan import Plan, PlanOptions
from emplace.planning import build_question
from emplace.solver.driver.lower_bound import lower_bound

_ROUNDING = 1e-9


def import_plan(
    theirs: TheirPlan, source: str, model: ModelSpec, host: HostSpec, options: PlanOptions, cost_model: CostModel | None = None
) -> Plan:
    """`theirs` on `host` as a Plan. Nodes and ranks come from the options, else from the file, else from the host.

    Its lower bound is the solver's. A plan outside the solver's program, because it doesn't fit or splits tables in ways that
    Emplace doesn't consider, may be faster than that; its bound is then the step without tables.

    Raises InvalidDocument naming everything that is not soundly placed. Capacities are left for the audit.
    """
    started = time.perf_counter()
    question = build_question(model, host, _ranks(theirs, source, options), cost_model)
    topology = question.topology(with_servers=False)
    if theirs.world_size not in (None, len(topology.ranks)):
        rule = f"the plan is for {theirs.world_size} ranks, {host.name} is asked for {len(topology.ranks)}"
        raise InvalidDocument(source, [BrokenRule("/world_size", str(theirs.world_size), rule)])
    placed = placements(theirs, source, question, topology)
    record = imported_record(question, version("emplace"))
    plan = derive_plan(question, placed, topology, record)
    bound_us, name = lower_bound(question)
    step_us = plan.step_time_us or 0.0
    if bound_us > step_us * (1 + _ROUNDING):
        bound_us, name = plan.lower_bound_us or 0.0, record.bound
    bound_us = min(bound_us, step_us)
    record = record.model_copy(update={"seconds": time.perf_counter() - started, "bound": name})
    of_placement = placement_gap(step_us, bound_us, constant_us(question, topology))
    known = {"lower_bound_us": bound_us, "gap": 1.0 - bound_us / step_us, "placement_gap": of_placement, "solver": record}
    return plan.model_copy(update=known | {"extrapolated": beyond_measured(plan)})


def _ranks(theirs: TheirPlan, source: str, options: PlanOptions) -> PlanOptions:
    """The options, with the file's ranks and nodes where none are given."""
    world, local = theirs.world_size, theirs.local_world_size
    if world is not None and local is not None and world % local:
        raise InvalidDocument(source, [BrokenRule("/local_world_size", str(local), f"must divide the world size, {world}")])
    nodes = world // local if world is not None and local is not None else None
    given = {"ranks": options.ranks or world, "nodes": options.nodes or nodes}
    return options.model_copy(update=given)
