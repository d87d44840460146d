"""Bytes alone: what infeasible questions are sized by."""

from __future__ import annotations

import numpy as np
import pytest

from emplace.placement.host import HostSpec
from emplace.solver.driver.variants import variants
from emplace.solver.infeasibility.shortage import cases
from emplace.solver.model import costing
from emplace.solver.model.build import price, price_bytes
from tests.solver.questions import cpu_host, gpu_host, question, table

HOSTS = [gpu_host(2, hbm="64GiB"), gpu_host(2, hbm="64GiB", ddr="64GiB", servers=2), cpu_host(2)]


@pytest.mark.parametrize("host", HOSTS, ids=["trainers", "servers", "cpu"])
def test_they_are_those_of_the_program(host: HostSpec) -> None:
    asked = question(host, [table("a", 10_000, dim=64), table("b", 20_001, dim=32)])
    for variant in variants(asked):
        whole = price(asked, variant.topology, variant.tiers, may_be_concrete=False, with_cover=False)
        sized = price_bytes(asked, variant.topology, variant.tiers)
        assert sized.problem.num_stages == 0
        assert sized.layouts == whole.layouts
        for name in (
            "option_table",
            "option_kind",
            "option_first_unit",
            "unit_hbm_bytes",
            "unit_ddr_bytes",
            "hbm_capacity",
            "ddr_capacity",
        ):
            np.testing.assert_array_equal(getattr(sized.problem, name), getattr(whole.problem, name), name)


def test_no_times_are_priced_to_find_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def priced(*_: object) -> None:
        raise AssertionError("a time was priced")

    asked = question(gpu_host(2, hbm="32MiB", servers=1), [table(f"t{index}", 300_000, dim=64) for index in range(6)])
    monkeypatch.setattr(costing, "shard_stages_us", priced)
    monkeypatch.setattr(costing, "served_stages_us", priced)
    assert [case.name for case in cases(asked)] == ["trainers", "trainers and servers"]
