"""A plan document that was committed beside a training program, used as long as model and job are those it was made for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from emplace.placement.audit import audit
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.placement.topology import Topology
from emplace.placement.units import show_gib

_MOST_SHOWN = 20
_AGAIN = "plan again for this job"


class CommittedPlanRefused(InvalidDocument):
    """A committed plan that can't be used: it can't be read, fails the audit, or is for another job."""


class AnotherModel(CommittedPlanRefused):
    """A committed plan that was made for another model than the one at hand."""


def committed_plan(path: Path, model: ModelSpec, job: Topology) -> Plan:
    """The plan in the file, audited, for the ranks of a job. Raises CommittedPlanRefused, AnotherModel naming what changed."""
    try:
        plan = read_file(path, Plan)
    except EmplaceError as error:
        raise CommittedPlanRefused(str(path), [BrokenRule("", "", str(error))]) from None
    broken = [BrokenRule("/question/model", "", what) for what in _changes(plan.question.model, model)]
    if broken:
        more = [BrokenRule("/question/model", "", f"and {len(broken) - _MOST_SHOWN} more changes")] if len(broken) > _MOST_SHOWN else []
        raise AnotherModel(
            str(path), [*broken[:_MOST_SHOWN], *more, BrokenRule("", "", "was made for another model: plan again, and commit")]
        )
    if not plan.has_placement:
        broken = [BrokenRule("/status", plan.status, "has no placement")]
    else:
        unsound = [BrokenRule(violation.where, "", violation.what) for violation in audit(plan)[:_MOST_SHOWN]]
        broken = unsound or list(_misfits(plan, job))
    if broken:
        raise CommittedPlanRefused(str(path), broken)
    return plan


def _misfits(plan: Plan, job: Topology) -> Iterator[BrokenRule]:
    """What a sound plan can't have in the job: other ranks, other devices, or the memory where most is missing."""
    planned = plan.topology()
    if [rank.node for rank in planned.ranks] != [rank.node for rank in job.ranks]:
        rule = f"must be for the topology's {len(job.ranks)} ranks, {job.trainers_per_node} a node; {_AGAIN}"
        yield BrokenRule("/ranks", str(len(planned.ranks)), rule)
    elif (kinds := {rank.type for rank in planned.ranks}) != (theirs := {rank.type for rank in job.ranks}):
        rule = f"must be for the topology's devices, {', '.join(theirs)}; {_AGAIN}"
        yield BrokenRule("/question/host/node/devices", ", ".join(sorted(kinds)), rule)
    else:
        where, needed, left = max(_memories(plan, job), key=lambda each: each[1] - each[2])
        if needed > left:
            rule = f"must be at most the {show_gib(left)} that topology and reservation leave; {_AGAIN}"
            yield BrokenRule(where, show_gib(needed), rule)


def _memories(plan: Plan, job: Topology) -> Iterator[tuple[str, int, int]]:
    """(JSON pointer into the plan, bytes it needs there, bytes that the job has) of every memory."""
    for index, (used, rank) in enumerate(zip(plan.ranks, job.ranks, strict=True)):
        yield f"/ranks/{index}/hbm_bytes", used.hbm_bytes, rank.hbm_capacity_bytes
    for index, (held, capacity) in enumerate(zip(plan.nodes, job.node_ddr_capacity_bytes, strict=True)):
        yield f"/nodes/{index}/ddr_bytes", held.ddr_bytes, capacity


def _changes(before: ModelSpec, after: ModelSpec) -> Iterator[str]:
    """What differs between two models, in words; nothing where their digests are equal."""
    if before.content_digest() == after.content_digest():
        return
    old, new = ({table.name: table.to_data() for table in model.tables} for model in (before, after))
    yield from (f"the table {name} is new" for name in new if name not in old)
    yield from (f"the table {name} is gone" for name in old if name not in new)
    for name in (name for name in old if name in new):
        for key in sorted({*old[name], *new[name]}):
            if old[name].get(key) != new[name].get(key):
                yield f"{key} of the table {name} was {old[name].get(key)} and is {new[name].get(key)}"
    first, second = before.to_data(), after.to_data()
    for key in sorted({*first, *second} - {"tables"}):
        if first.get(key) != second.get(key):
            yield f"{key} was {first.get(key)} and is {second.get(key)}"
    if [*old] != [*new] and old.keys() == new.keys():
        yield "the tables stand in another order"
