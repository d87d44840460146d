"""Patches of a question's hardware (solver/infeasibility/merge_patch.py): of each device, and of the number of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emplace.placement.host import DeviceKind, DeviceType, HostSpec
from emplace.placement.plan import Question


def devices_patch(host: HostSpec, changed: Callable[[DeviceKind], DeviceKind]) -> dict[str, Any]:
    """Every kind of device of a node as `changed` gives it."""
    return {"host": {"node": {"devices": [changed(device).to_data() for device in host.node.devices]}}}


def more_hbm(device: DeviceKind, extra_bytes: int) -> DeviceKind:
    """A CUDA device with so much more memory; any other as it is."""
    if device.type is not DeviceType.CUDA:
        return device
    return device.model_copy(update={"hbm_capacity": (device.hbm_capacity or 0) + extra_bytes})


def nodes_patch(question: Question, nodes: int) -> dict[str, Any]:
    """So many nodes, with as many ranks on each as before."""
    options, before = question.options, question.options.nodes or question.host.nodes
    ranks = {} if options.ranks is None else {"ranks": options.ranks // before * nodes}
    return {"options": {"nodes": nodes} | ranks}
