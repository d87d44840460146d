"""Both planners on DLRMv4's sequences."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_ranks_hold_equal_parts_of_dlrmv4() -> None:
    from torchrec.distributed.planner import Topology

    from benchmarks.torchrec_sequences import compared

    defaults, told, ours = compared(Topology(world_size=8, local_world_size=8, compute_device="cuda", hbm_cap=260 * 2**30))
    assert ours["max_over_mean"] <= 1.05 < told["max_over_mean"] < defaults["max_over_mean"]
    assert sum(ours["gib"]) == pytest.approx(sum(defaults["gib"]), rel=0.01)
    assert max(defaults["gib"]) > 95
