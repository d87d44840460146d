"""A plan document that was committed beside a training program, used as long as the model is the one it was made for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchrec.distributed.planner.types import Topology

from emplace.placement.audit import audit
from emplace.placement.errors import BrokenRule, EmplaceError, InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.torchrec.hosts import same_job

_MOST_SHOWN = 20


class CommittedPlanRefused(InvalidDocument):
    """A committed plan that can't be used: it can't be read, fails the audit, or is for another job."""


class AnotherModel(CommittedPlanRefused):
    """A committed plan that was made for another model than the one at hand."""


def committed_plan(path: Path, model: ModelSpec, topology: Topology) -> Plan:
    """The plan in the file, audited. Raises CommittedPlanRefused, AnotherModel naming what changed."""
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
        broken.append(BrokenRule("/status", plan.status, "has no placement"))
    elif not same_job(plan.sized_question.options, plan.question.host, topology):
        rule = f"must be for the topology's {topology.world_size} ranks, {topology.local_world_size} a node; plan again for this job"
        broken.append(BrokenRule("/ranks", str(len(plan.ranks)), rule))
    broken += [BrokenRule(violation.where, "", violation.what) for violation in audit(plan)[:_MOST_SHOWN]]
    if broken:
        raise CommittedPlanRefused(str(path), broken)
    return plan


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
