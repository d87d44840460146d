"""Which changes there are for which questions, and that they are what they say."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.cost_model import CostSource
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, Question
from emplace.solver.infeasibility.merge_patch import Edit
from emplace.solver.sensitivity.hardware_changes import SAME_RANKS, changed, hardware_changes
from emplace.solver.solve import solve_question
from tests.prices import device_prices
from tests.solver.questions import at_datasheet_prices, cpu_host, gpu_host, question, table

UVM = {"compute_kernels": ["fused_uvm"]}


def asked_of(host: HostSpec, constraints: dict[str, list[str]] | None = None, rows: int = 20_000, **options: Any) -> Question:
    some = [table(f"t{index}", rows, constraints=constraints or {}) for index in range(4)]
    return at_datasheet_prices(question(host, some, work_limit=0.08, **options))


def changes_of(asked: Question) -> dict[str, Edit]:
    return {edit.kind: edit for edit in hardware_changes(asked, solve_question(asked))}


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        (asked_of(gpu_host(2)), {"hbm", "nodes", "memory_bandwidth", "intra_node_link"}),
        (asked_of(gpu_host(2), UVM), {"hbm", "nodes", "memory_bandwidth", "intra_node_link", "system_link"}),
        (asked_of(gpu_host(1)), {"hbm", "nodes", "memory_bandwidth"}),
        (asked_of(gpu_host(2, nodes=2)), {"hbm", "nodes", "memory_bandwidth", "intra_node_link", "network"}),
        (asked_of(gpu_host(2), UVM, tiers=["ddr"]), {"nodes", "memory_bandwidth", "intra_node_link", "system_link"}),
        (asked_of(cpu_host(2)), {"nodes", "memory_bandwidth", "intra_node_link"}),
        (asked_of(gpu_host(1, servers=1)), {"hbm", "nodes", "remote_servers", "memory_bandwidth"}),
        (
            asked_of(gpu_host(1, hbm="8MiB", servers=1), rows=60_000, tiers=["remote"]),
            {"nodes", "remote_servers", "memory_bandwidth", "network", "server_bandwidth", "server_network"},
        ),
    ],
)
def test_only_what_the_plan_may_depend_on_is_changed(asked: Question, kinds: set[str]) -> None:
    assert set(changes_of(asked)) == kinds


def test_system_memory_is_added_where_it_is_full() -> None:
    asked = asked_of(gpu_host(2, hbm="4MiB", ddr="14MiB"), rows=25_000, constraints=UVM)
    plan = solve_question(asked)
    assert plan.nodes[0].ddr_bytes > 0.9 * plan.nodes[0].ddr_capacity_bytes
    full = [node.model_copy(update={"ddr_bytes": node.ddr_capacity_bytes}) for node in plan.nodes]
    edit = next(edit for edit in hardware_changes(asked, plan.model_copy(update={"nodes": tuple(full)})) if edit.kind == "ddr")
    assert changed(asked, edit).host.node.ddr_capacity == 14 * 2**20 + 2**30


def test_changes_are_what_they_say_and_prices_follow() -> None:
    asked = asked_of(gpu_host(2, nodes=2), UVM, nodes=2, ranks=4)
    found = {kind: changed(asked, edit) for kind, edit in changes_of(asked).items()}
    node = asked.host.node
    assert found["hbm"].host.node.devices[0].hbm_capacity == (node.devices[0].hbm_capacity or 0) + 2**30
    assert found["hbm"].cost_model == asked.cost_model
    assert (found["nodes"].options.nodes, found["nodes"].options.ranks) == (3, 6)
    for kind in ("memory_bandwidth", "system_link"):
        assert getattr(found[kind].host.node.devices[0], kind) == pytest.approx(1.1 * getattr(node.devices[0], kind))
    for kind in ("intra_node_link", "network"):
        assert getattr(found[kind].host.node, kind) == pytest.approx(1.1 * getattr(node, kind))
    for kind in set(found) - {"hbm", "nodes"}:
        assert found[kind].cost_model == device_prices(found[kind].host) != asked.cost_model
    assert "+90 GB/s of HBM of each gpu, 990" in {edit.change for edit in changes_of(asked).values()}


def test_measured_prices_do_not_follow_from_rates_so_those_are_left_out() -> None:
    asked = asked_of(gpu_host(2, nodes=2), UVM)
    measured = asked.cost_model.model_copy(update={"source": CostSource.MEASURED})
    priced = asked.model_copy(update={"cost_model": measured})
    assert set(changes_of(priced)) == {"hbm", "nodes"}
    assert changed(priced, changes_of(priced)["hbm"]).cost_model == measured


def test_where_ranks_stay_the_placement_stays_one() -> None:
    asked = asked_of(gpu_host(2, nodes=2), UVM)
    plan: Plan = solve_question(asked)
    for edit in hardware_changes(asked, plan):
        ranks = changed(asked, edit).topology(with_servers=False).ranks
        assert (len(ranks) == len(plan.ranks)) is (edit.kind in SAME_RANKS)
