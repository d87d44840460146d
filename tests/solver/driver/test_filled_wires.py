"""Plans where input fills the network of one node: what servers send over it decides, and the devices wait."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import pytest

from emplace.placement.audit import audit
from emplace.placement.beside_stages import waits_for
from emplace.placement.cost_model import LaunchCost
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import derive_loads
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType
from emplace.placement.modules import Module
from emplace.placement.plan import Plan, PlanOptions, Question, Shard, TablePlacement
from emplace.solver.driver.filled_wires import solve_devices_and_wires
from emplace.solver.driver.solve_variants import solve_variants
from emplace.solver.progress import Monitor, Progress
from emplace.solver.result import Limit
from emplace.solver.solve import solve_question
from tests.placement.example_models import gpu_host_data, model_data

TABLES = 5


@cache
def question(network: str = "1Gbit/s", memory: str = "5GB/s") -> Question:
    """Five tables of equal bytes, of which the devices hold some. Those with many ids have few vectors: they are for the devices to look up,
    and for the wire to bring."""
    data = gpu_host_data(nodes=1)
    data["node"] |= {"network": network}
    data["node"]["devices"][0] |= {"count": 2, "hbm_capacity": "600MiB"}
    data["remote_servers"] |= {"network": "100Gbit/s", "memory_bandwidth": memory}
    limits = {"sharding_types": ["table_wise"], "compute_kernels": ["fused"], "tiers": ["hbm", "remote"]}
    tables = [
        {
            "name": f"t{index}",
            "num_embeddings": 1_500_000,
            "embedding_dim": 32,
            "features": [
                {"name": f"f{index}-{number}", "length": {"fixed": 200 if index < 3 else 3}} for number in range(1 if index < 3 else 12)
            ],
            "constraints": limits,
        }
        for index in range(TABLES)
    ]
    spec = model_data(tables=tables, interaction="cat", local_batch_size=4096, together=None, apart=None)
    host = HostSpec.model_validate(data)
    prices = datasheet_cost_model(host).model_copy(update={"launches": None})
    return Question(model=ModelSpec.model_validate(spec), host=host, cost_model=prices, options=PlanOptions(work_limit=1.0))


def best_of_all(asked: Question) -> float:
    """Every table on each device and server. The devices are alike, and so are the servers: the first table is on the first of either."""
    topology, least_us = asked.topology(with_servers=True), math.inf
    first = (0, next(number for number, rank in enumerate(topology.ranks) if rank.is_server))
    for ranks in product(first, *[range(len(topology.ranks))] * (TABLES - 1)):
        tables = tuple(_on(asked, index, rank) for index, rank in enumerate(ranks))
        loads = derive_loads(asked, tables, topology)
        if all(held <= rank.hbm_capacity_bytes for held, rank in zip(loads.rank_hbm.tolist(), topology.ranks, strict=True)):
            least_us = min(least_us, loads.step_time_us)
    return least_us


def _on(asked: Question, index: int, rank: int) -> TablePlacement:
    table = asked.model.tables[index]
    whole = Shard(rank=rank, rows=(0, table.num_embeddings), columns=(0, table.embedding_dim), hbm_bytes=0, ddr_bytes=0)
    return TablePlacement(name=table.name, sharding_type=ShardingType.TABLE_WISE, compute_kernel=ComputeKernel.FUSED, shards=(whole,))


def planned(asked: Question) -> Plan:
    plan = solve_question(asked)
    assert audit(plan) == []
    return plan


@pytest.mark.parametrize(("memory", "awaited"), [("3GB/s", "network"), ("4GB/s", ""), ("10GB/s", "network")])
def test_a_plan_is_the_best_with_its_wire_and_its_bound_holds_for_all(memory: str, awaited: str) -> None:
    asked = question(memory=memory)
    plan, best_us = planned(asked), best_of_all(asked)
    assert waits_for(plan) == awaited
    assert plan.lower_bound_us is not None
    assert plan.step_time_us == pytest.approx(best_us)
    assert asked.cost_model.floor(asked.model).time_us < plan.lower_bound_us <= best_us


def test_the_devices_alone_would_have_chosen_otherwise() -> None:
    found = solve_variants(question(), Monitor())
    assert found.solution is not None
    step_us = derive_loads(question(), found.solution.tables, question().topology(with_servers=True)).step_time_us
    assert step_us > 1.2 * (planned(question()).step_time_us or 0.0)


def test_where_devices_take_longer_than_the_input_nothing_is_dear() -> None:
    fast = question("400Gbit/s")
    assert solve_devices_and_wires(fast, Monitor(), None) == solve_variants(fast, Monitor())
    assert waits_for(planned(fast)) == ""


def test_a_target_is_answered_without() -> None:
    wanting = Monitor().wanting(1.0)
    assert solve_devices_and_wires(question(), wanting, None) == solve_variants(question(), wanting)


def test_it_is_told_how_far_the_wires_are() -> None:
    told = list[Progress]()
    plan = solve_question(question(), Monitor.of(told.append))
    assert [each.phase for each in told if each.phase == "wires"] == ["wires"]
    incumbents_us = [each.incumbent_us for each in told if each.incumbent_us is not None]
    assert min(incumbents_us) == pytest.approx(plan.step_time_us)


def test_who_asks_to_stop_is_told_so() -> None:
    told = list[Progress]()
    plan = solve_question(question(), Monitor.of(told.append, lambda: any(each.phase == "wires" for each in told)))
    assert plan.solver.stopped_by == "cancelled"
    assert audit(plan) == []


@pytest.mark.parametrize("backward", ["fp8", "fp32"])
def test_the_bound_holds_where_gradients_are_narrower_or_wider_than_vectors(backward: str) -> None:
    asked = question(memory="10GB/s")
    module = Module.model_validate({"path": "ebc", "output_data_type": "fp16", "qcomm": {"backward_precision": backward}})
    asked = asked.model_copy(update={"model": asked.model.model_copy(update={"modules": (module,)})})
    plan, best_us = planned(asked), best_of_all(asked)
    assert plan.lower_bound_us is not None
    assert plan.lower_bound_us <= best_us
    assert plan.step_time_us == pytest.approx(best_us)


def phases(asked: Question) -> list[str]:
    """What is told of the search for devices and wires, without what ends the search at a floor before."""
    told = list[Progress]()
    solve_devices_and_wires(asked, Monitor.of(told.append), None)
    return [each.phase for each in told]


def test_it_ends_with_a_plan_that_launches_take_longer_than() -> None:
    launches = LaunchCost(fixed_us=1e7)
    asked = question().model_copy(update={"cost_model": question().cost_model.model_copy(update={"launches": launches})})
    assert "wires" in phases(question())
    assert "wires" not in phases(asked)
    found = solve_devices_and_wires(asked, Monitor(), None)
    assert found.solution is not None
    assert found.solution.step_time_us == found.solution.constant_us == 1e7
    assert found.limit is Limit.GAP


@pytest.mark.parametrize(("memory", "devices_last"), [("4GB/s", True), ("10GB/s", False)])
def test_devices_are_searched_alone_where_the_plan_waits_for_them(memory: str, devices_last: bool) -> None:
    told = phases(question(memory=memory))
    assert (told[-1] != "wires") is devices_last
    assert (planned(question(memory=memory)).gap or 0.0) > 0.01
