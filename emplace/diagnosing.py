"""Why a plan is no faster: what its step is made of, and what more hardware would bring, estimated and then solved."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.cost_model import CostSource
from emplace.placement.datasheet import follows_datasheet
from emplace.placement.derived_loads import derive_loads
from emplace.placement.diagnosis import HardwareChange
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.step_costs import step_costs
from emplace.placement.workload import Objective
from emplace.planning import answer
from emplace.solver.infeasibility.merge_patch import Edit
from emplace.solver.progress import Monitor
from emplace.solver.sensitivity.dual_prices import DualPrices
from emplace.solver.sensitivity.hardware_changes import SAME_RANKS, changed, hardware_changes

DATASHEET = "prices are a datasheet's, which nobody measured: trust what is dear more than how dear it is"
OTHER_PRICES = "prices do not follow from the host's rates (they are measured, or given): faster memories and links are left out"
UNMEASURED_NETWORK = "prices are measured on one node: what more nodes exchange is priced by the host document's network"
_ROUNDING = 1e-9
"""Share of a bound that its sums may be off by."""


def diagnosed(plan: Plan, monitor: Monitor | None = None) -> Plan:
    """The plan with its diagnosis; one without a placement as it is: its explanation says what there is to say.

    Every change is solved with the limits of the plan's own question, those that promise most first. When the monitor is told to stop,
    changes that are left keep their estimates.
    """
    if not plan.has_placement:
        return plan
    question, monitor = _fixed_size(plan), monitor or Monitor()
    made_of = step_costs(question, plan.tables, plan.topology())
    estimated = sorted(_estimated(question, plan), key=lambda each: each[1].estimated_us or 0.0)
    changes = tuple(_solved(question, plan, estimated, monitor))
    notes = list(_notes(question))
    if monitor.interrupted():
        unsolved = sum(change.fits is None and change.lower_bound_us is None for change in changes)
        notes.append(f"interrupted: {unsolved} of {len(changes)} changes are not solved")
    return plan.model_copy(update={"diagnosis": made_of.model_copy(update={"changes": changes, "notes": tuple(notes)})})


def num_changes(plan: Plan) -> int:
    """How many changes are solved, each with the limits of the plan's question; 0 without a placement."""
    return sum(1 for _ in hardware_changes(_fixed_size(plan), plan)) if plan.has_placement else 0


def _fixed_size(plan: Plan) -> Question:
    """The plan's question with the size of job that it is for, which no change is to make smaller."""
    question = plan.sized_question
    if question.options.objective is not Objective.DEVICES:
        return question
    return question.model_copy(update={"options": question.options.model_copy(update={"objective": Objective.MEAN})})


def _notes(question: Question) -> Iterator[str]:
    if question.cost_model.source is CostSource.DATASHEET:
        yield DATASHEET
    if not follows_datasheet(question.cost_model, question.host):
        yield OTHER_PRICES
    if question.cost_model.source is CostSource.MEASURED:
        yield UNMEASURED_NETWORK


def _estimated(question: Question, plan: Plan) -> Iterator[tuple[Edit, HardwareChange]]:
    """Every change that the question can have, and by how much the bound moves with it at its dual prices."""
    types = frozenset(table.sharding_type for table in plan.tables)
    floor_us = question.cost_model.floor(question.model).time_us
    prices = DualPrices.of(question, types, with_servers=any(rank.is_server for rank in plan.ranks))
    for edit in hardware_changes(question, plan):
        try:
            after = changed(question, edit)
            after.topology(with_servers=False)
        except InvalidDocument:
            continue  # more than a host or a job can have
        bound_us = None if prices is None else prices.bound_of(after)
        moved_us = None
        if prices is not None and bound_us is not None:  # devices that wait for launches or input gain nothing by being faster
            after_us = max(bound_us, after.cost_model.floor(after.model).time_us)
            moved_us = _but_for_rounding(after_us - max(prices.bound_us, floor_us), bound_us)
        yield edit, HardwareChange(change=edit.change, kind=edit.kind, patch=edit.patch, estimated_us=moved_us)


def _but_for_rounding(moved_us: float, bound_us: float) -> float:
    return 0.0 if abs(moved_us) <= _ROUNDING * bound_us else moved_us


def _solved(question: Question, plan: Plan, estimated: list[tuple[Edit, HardwareChange]], monitor: Monitor) -> Iterator[HardwareChange]:
    for number, (edit, change) in enumerate(estimated):
        found = None
        if not monitor.interrupted():
            here = monitor.of_another(f"change {number + 1} of {len(estimated)}, {edit.change}: ")
            found = answer(changed(question, edit), here)
        yield change if found is None or monitor.interrupted() else change.model_copy(update=_found(edit, plan, found))


def _found(edit: Edit, plan: Plan, found: Plan) -> dict[str, object]:
    """What solving with a change found. Where ranks stay, the plan's own placement is there too: a search may miss it."""
    steps_us = [] if found.step_time_us is None else [found.step_time_us]
    if edit.kind in SAME_RANKS:
        steps_us.append(derive_loads(found.question, plan.tables, plan.topology()).step_time_us)
    if not steps_us:
        return {"fits": False if found.status is PlanStatus.INFEASIBLE else None, "lower_bound_us": found.lower_bound_us}
    step_us = min(steps_us)
    examples = found.question.model.local_batch_size * len(found.question.topology(with_servers=False).trainers)
    return {
        "fits": True,
        "step_time_us": step_us,
        "lower_bound_us": min(found.lower_bound_us or 0.0, step_us),
        "throughput_samples_per_s": examples * 1e6 / step_us,
    }
