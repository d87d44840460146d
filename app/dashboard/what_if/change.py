"""A plan's question with other hardware, batch or data type, and the plan's own placement in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from emplace.placement.audit import audit
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import DeviceType
from emplace.placement.memory_use import fullest_memory
from emplace.placement.model import DataType
from emplace.placement.plan import Plan, Question
from emplace.placement.units import format_size, parse_size, show_gib
from emplace.placement.workload import Objective
from emplace.solver.infeasibility.hardware_patches import devices_patch, nodes_patch
from emplace.solver.infeasibility.merge_patch import Edit
from emplace.solver.sensitivity.hardware_changes import changed

_SHOWN = 40
"""Characters of what was typed that a message repeats."""


@dataclass(frozen=True)
class Wish:
    """What to change; an empty text leaves it as it is."""

    hbm: str = ""
    nodes: str = ""
    batch: str = ""
    data_type: str = ""


@dataclass(frozen=True)
class WhatIfOutcome:
    """The plan's placement under the change. `violations` are empty where it still fits; without `step_time_us` there is none to keep."""

    violations: tuple[str, ...]
    step_time_us: float | None
    throughput_samples_per_s: float | None
    memory_share: float | None
    why_not: str | None = None


def wished(question: Question, wish: Wish) -> Question:
    """Raises InvalidDocument, its pointers the names of the fields."""
    patch: dict[str, Any] = {}
    if wish.hbm:
        patch |= _more_memory(question, wish.hbm)
    if wish.nodes:
        patch |= nodes_patch(question, _whole("nodes", wish.nodes))
    model: dict[str, Any] = {}
    if wish.batch:
        model["local_batch_size"] = _whole("batch", wish.batch)
    if wish.data_type:
        if wish.data_type not in list(DataType):
            raise _wrong("/data_type", wish.data_type, f"must be one of {', '.join(DataType)}")
        model["tables"] = {table.name: {"data_type": wish.data_type} for table in question.model.tables}
    if model:
        patch["model"] = model
    after = changed(question, Edit("what if", "what-if", patch)) if patch else question
    after.topology(with_servers=False)
    return after


def outcome(plan: Plan, after: Question) -> WhatIfOutcome:
    """Audited at once: nothing is solved."""
    with_servers = any(rank.is_server for rank in plan.ranks)
    topology = after.topology(with_servers=with_servers)
    if len(topology.ranks) != len(plan.ranks):
        why = f"it has {len(plan.ranks)} ranks and the changed job {len(topology.ranks)}: tables have to be placed anew"
        return WhatIfOutcome((), None, None, None, why)
    judged = _of_one_size(after)
    kept = derive_plan(judged, plan.tables, topology, imported_record(judged, version("emplace")))
    fullest = fullest_memory(kept)
    share = None if fullest is None else fullest.share
    violations = (*_over(kept), *(str(each) for each in audit(kept) if not each.where.endswith("_bytes")))
    return WhatIfOutcome(violations, kept.step_time_us, kept.throughput_samples_per_s, share)


def _wrong(pointer: str, text: str, rule: str) -> InvalidDocument:
    return InvalidDocument("form", [BrokenRule(pointer, text[:_SHOWN], rule)])


def _of_one_size(question: Question) -> Question:
    """The question about its own size alone: which sizes are too small is nothing that a kept placement knows."""
    if question.options.objective is not Objective.DEVICES:
        return question
    return question.model_copy(update={"options": question.options.model_copy(update={"objective": Objective.MEAN})})


def _over(plan: Plan) -> Iterator[str]:
    """The memories that hold more than there is room for, in figures that people read."""
    for rank in plan.ranks:
        if rank.hbm_capacity_bytes and rank.hbm_bytes > rank.hbm_capacity_bytes:
            yield f"rank {rank.rank} needs {show_gib(rank.hbm_bytes)} of device memory and has {show_gib(rank.hbm_capacity_bytes)}"
    for node in plan.nodes:
        if node.ddr_bytes > node.ddr_capacity_bytes:
            yield f"node {node.node} needs {show_gib(node.ddr_bytes)} of system memory and has {show_gib(node.ddr_capacity_bytes)}"


def _more_memory(question: Question, text: str) -> dict[str, Any]:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise _wrong("/hbm", text, str(error)) from None
    if not question.host.has_cuda:
        raise _wrong("/hbm", text, "the host's devices have no memory of their own")
    reserves = [device.hbm_reserve or 0 for device in question.host.node.devices]
    if size <= max(reserves):
        raise _wrong("/hbm", text, f"must be more than the reserve, {format_size(max(reserves))}")
    return devices_patch(
        question.host, lambda device: device.model_copy(update={"hbm_capacity": size}) if device.type is DeviceType.CUDA else device
    )


def _whole(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,8}", text) or not 0 < int(text) <= 10_000_000:
        raise _wrong(f"/{name}", text, "must be a whole number from 1 on")
    return int(text)
