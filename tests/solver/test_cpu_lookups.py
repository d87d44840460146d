"""Plans with tables that a GPU host's own CPUs look up."""

from __future__ import annotations

from typing import Any

import pytest

import emplace
from emplace.placement.audit import audit
from emplace.placement.model import Tier
from emplace.placement.plan import Plan, PlanStatus

WORK: dict[str, Any] = {"nodes": 1, "work_limit": 1.0, "gap": 0.05}


@pytest.fixture(scope="module")
def zion() -> dict[Tier, Plan]:
    """m3 on Zion, with all tables looked up by CPUs, and by devices over their links."""
    return {tier: emplace.plan("m3", "zion", tiers=[tier], **WORK) for tier in (Tier.CPU, Tier.DDR)}


def test_zions_cpus_look_up_faster_than_its_devices_do_over_pcie(zion: dict[Tier, Plan]) -> None:
    by_cpus, by_devices = zion[Tier.CPU], zion[Tier.DDR]
    assert by_cpus.step_time_us is not None
    assert by_devices.lower_bound_us is not None
    assert by_cpus.step_time_us < by_devices.lower_bound_us


def test_zion_beats_big_basin_for_a_model_that_does_not_fit_the_devices(zion: dict[Tier, Plan]) -> None:
    near = emplace.plan("m3", "big-basin-16g", tiers=[Tier.HBM, Tier.CPU], **WORK)
    assert near.status is PlanStatus.INFEASIBLE
    remote = emplace.plan("m3", "big-basin-16g", tiers=[Tier.REMOTE], **WORK)
    assert remote.lower_bound_us is not None
    assert (zion[Tier.CPU].step_time_us or 0.0) < remote.lower_bound_us


def test_tables_that_overflow_device_memory_go_to_the_cpus() -> None:
    plan = emplace.plan("m3", "zion", tiers=[Tier.HBM, Tier.CPU], proof=True, **WORK)
    assert audit(plan) == []
    assert emplace.audit(plan, proof=True) == []
    held = {plan.ranks[shard.rank].is_server for table in plan.tables for shard in table.shards}
    assert held == {False, True}
    assert [node.ddr_bytes > 0 for node in plan.nodes] == [True]
