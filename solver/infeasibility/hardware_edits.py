"""More hardware that may make a question feasible: memory per device and node, nodes, remote servers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from emplace.placement.errors import InvalidDocument
from emplace.placement.host import DeviceType
from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.placement.units import format_size
from emplace.solver.infeasibility.hardware_patches import devices_patch, more_hbm, nodes_patch
from emplace.solver.infeasibility.merge_patch import Edit, patched
from emplace.solver.infeasibility.shortage import Case, cases

_GIB = 2**30
_MARGINS = (1.0, 1.02, 1.1, 1.5)
"""What sums ask for is necessary, not sufficient: times these."""
_MAX_SEARCH = 12
"""Sizes that are tried before the first that is not provably short."""
_MAX_NODES = 4096
"""The most that a document may have."""


def hbm_edits(question: Question, found: list[Case]) -> Iterator[Edit]:
    """More memory on every CUDA device."""
    devices = [device for device in question.host.node.devices if device.type is DeviceType.CUDA]
    if Tier.HBM not in question.allowed_tiers or not devices:
        return
    nodes = question.options.nodes or question.host.nodes

    def edit(extra: int) -> Edit:
        patch = devices_patch(question.host, lambda device: more_hbm(device, extra * _GIB))
        sizes = " and ".join(
            f"give each {device.kind} {format_size((device.hbm_capacity or 0) + extra * _GIB)} of HBM instead of {format_size(device.hbm_capacity or 0)}"
            for device in devices
        )
        added = extra * _GIB * nodes * sum(device.count for device in devices)
        return Edit(f"{sizes} (hbm_capacity in the host document)", "hbm", patch, added)

    yield from _smallest(question, found, edit, units_bytes=_GIB * nodes * sum(device.count for device in devices))


def system_memory_edits(question: Question, found: list[Case]) -> Iterator[Edit]:
    """More system memory in every node."""
    if question.allowed_tiers.isdisjoint({Tier.DDR, Tier.CPU}):
        return
    nodes = question.options.nodes or question.host.nodes

    def edit(extra: int) -> Edit:
        size = format_size(question.host.node.ddr_capacity + extra * _GIB)
        now = format_size(question.host.node.ddr_capacity)
        change = f"give each node {size} of system memory instead of {now} (ddr_capacity in the host document)"
        return Edit(change, "ddr", {"host": {"node": {"ddr_capacity": size}}}, extra * _GIB * nodes)

    yield from _smallest(question, found, edit, units_bytes=_GIB * nodes)


def server_edits(question: Question, found: list[Case]) -> Iterator[Edit]:
    """More remote servers."""
    remote = question.host.remote_servers
    if remote is None or Tier.REMOTE not in question.allowed_tiers:
        return

    def edit(extra: int) -> Edit:
        patch = {"host": {"remote_servers": {"count": remote.count + extra}}}
        change = f"use {remote.count + extra} remote servers instead of {remote.count} (remote_servers.count in the host document)"
        return Edit(change, "remote_servers", patch, extra * remote.ddr_capacity)

    yield from _smallest(question, found, edit, units_bytes=remote.ddr_capacity - remote.ddr_reserve)


def node_edits(question: Question, found: list[Case]) -> Iterator[Edit]:
    """More nodes, with as many ranks on each as before."""
    options, host = question.options, question.host
    nodes = options.nodes or host.nodes
    hbm = sum((device.hbm_capacity or 0) * device.count for device in host.node.devices)
    tiers = question.allowed_tiers
    per_node = hbm * (Tier.HBM in tiers) + host.node.ddr_capacity * (Tier.DDR in tiers)
    if not per_node or Tier.CPU in tiers:
        return

    def edit(extra: int) -> Edit:
        patch = nodes_patch(question, nodes + extra)
        command = " ".join(f"--{key} {value}" for key, value in patch["options"].items())
        change = f"use {nodes + extra} nodes instead of {nodes}: {command}"
        return Edit(change, "nodes", patch, extra * (hbm + host.node.ddr_capacity))

    yield from _smallest(question, found, edit, units_bytes=per_node, most=_MAX_NODES - nodes)


def _smallest(question: Question, found: list[Case], edit: Callable[[int], Edit], *, units_bytes: int, most: int = 2**20) -> Iterator[Edit]:
    """Edits of the smallest size (in units of `units_bytes`, at least 1) at which nothing is provably short, then larger ones.

    `found` is what the question itself lacks. No unit is worth more than `units_bytes`, so nothing smaller than what is missing would do.
    """
    size, lacked = max(1, _missing_units(found, units_bytes, 0)), found
    for _ in range(_MAX_SEARCH):
        if size > most:
            return
        try:
            tried = cases(patched(question, edit(size).patch))
        except InvalidDocument:
            return  # more than a host can have
        missing = _missing_units(tried, units_bytes, size)
        if not missing:
            break
        if _is_beside_the_point(lacked, tried):
            return
        size, lacked = size + missing, tried
    else:
        return
    for wanted in dict.fromkeys(math.ceil(size * margin) for margin in _MARGINS):
        if wanted <= most:
            yield edit(wanted)


def _missing_units(found: list[Case], units_bytes: int, size: int) -> int:
    """Units to add before trying again: what the sums lack, or half as much again where single tables or ranks lack room."""
    if any(not case.is_short for case in found):
        return 0
    over = min((case.sums[0].over_bytes for case in found if case.sums), default=0)
    return max(-(-over // units_bytes), 0 if over else -(-size // 2))


def _is_beside_the_point(before: list[Case], after: list[Case]) -> bool:
    """Whether every program lacks on some rank, or in some tiers together, no less than it did with less hardware."""
    then = {case.name: case for case in before}
    return all(case.name in then and _lacks_no_less(then[case.name], case) for case in after)


def _lacks_no_less(then: Case, now: Case) -> bool:
    over_bytes = {short.tiers: short.over_bytes for short in then.sums}
    return bool(set(then.ranks) & set(now.ranks)) or any(short.over_bytes >= over_bytes.get(short.tiers, math.inf) for short in now.sums)
