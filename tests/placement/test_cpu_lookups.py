"""Tables in system memory that a node's own CPUs look up for its devices: their bytes, their times, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HOST_CPUS, HostSpec
from emplace.placement.memory import rank_bytes
from emplace.placement.model import ComputeKernel, ShardingType, Tier
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.price_range import step_range
from emplace.placement.stages import Stage
from emplace.placement.topology import allowed_tiers, build_topology, host_tiers
from emplace.placement.units import parse_size
from emplace.placement.workload import Objective, model_loads
from tests.placement.example_models import gpu_host_data, model
from tests.placement.naive_plan import Choice, naive_plan

FUSED: Choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
UVM: Choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED_UVM, None)
DIST = (Stage.INPUT_DIST, Stage.OUTPUT_DIST, Stage.GRADIENT_DIST)
LOOKUPS = (Stage.LOOKUP_FORWARD, Stage.LOOKUP_BACKWARD)


def host(*, devices_per_link: int | None = None, **node: Any) -> HostSpec:
    """One node of two devices, whose CPUs can be priced."""
    data = gpu_host_data(nodes=1)
    data["node"] |= {"cores": 40, "ddr_bandwidth": "256GB/s"} | node
    if devices_per_link is not None:
        data["node"]["devices"][0]["devices_per_link"] = devices_per_link
    return HostSpec.model_validate(data)


def placed(where: HostSpec, *, on_cpus: bool = True, choice: Choice = FUSED, **changes: Any) -> Plan:
    spec = model(**changes)
    tiers = (Tier.HBM, Tier.CPU) if on_cpus else (Tier.HBM, Tier.DDR)
    prices = datasheet_cost_model(where).model_copy(update={"launches": None, "ingest": None})
    return naive_plan(spec, where, [choice] * len(spec.tables), PlanOptions(tiers=tiers), cost_model=prices, with_servers=on_cpus)


def us(plan: Plan, *stages: Stage) -> float:
    """How long these stages last."""
    return sum(max(rank.stages_us.get(stage, 0.0) for rank in plan.ranks) for stage in stages)


def test_the_cpus_are_a_rank_on_the_node_of_the_devices_and_their_tables_fill_its_memory() -> None:
    plan = placed(host())
    assert audit(plan) == []
    assert [(rank.device, rank.node, rank.is_server) for rank in plan.ranks][-1] == (HOST_CPUS, 0, True)
    assert [node.ddr_capacity_bytes for node in plan.nodes] == [parse_size("3GiB")]
    own = rank_bytes(plan.question.model, model_loads(plan.question.model, plan.topology(), Objective.MEAN), is_server=True, on_cuda=False)
    held = sum(shard.ddr_bytes for table in plan.tables for shard in table.shards)
    assert held > 0
    assert plan.nodes[0].ddr_bytes == own + held
    assert all(shard.hbm_bytes == 0 for table in plan.tables for shard in table.shards)


def test_pooled_vectors_and_ids_cross_the_devices_links_and_shared_ones_twice_as_slowly() -> None:
    own, shared = placed(host()), placed(host(devices_per_link=2))
    load = model_loads(own.question.model, own.topology(), Objective.MEAN)
    vectors = sum(each.global_bags * table.embedding_dim * 4 for each, table in zip(load, own.question.model.tables, strict=True))
    link = own.question.host.node.devices[0].system_link
    assert link is not None
    least_us = vectors / len(own.topology().trainers) / link * 1e6
    fixed_us = own.question.cost_model.all_to_all.start_us(len(own.topology().trainers))
    assert least_us < us(own, Stage.OUTPUT_DIST) - fixed_us < 2 * least_us
    assert us(shared, Stage.OUTPUT_DIST) - fixed_us == pytest.approx(2 * (us(own, Stage.OUTPUT_DIST) - fixed_us))
    assert us(shared, *LOOKUPS) == us(own, *LOOKUPS)


def test_the_network_of_remote_servers_is_not_crossed() -> None:
    assert us(placed(host(network="1Gbit/s")), *DIST) == us(placed(host()), *DIST)


@pytest.mark.parametrize(("key", "more"), [("ddr_bandwidth", "1TB/s"), ("cores", 160)])
def test_more_memory_bandwidth_and_more_cores_speed_lookups_up_by_cpus_alone(key: str, more: Any) -> None:
    assert us(placed(host(**{key: more})), *LOOKUPS) < us(placed(host()), *LOOKUPS)
    assert (placed(host(**{key: more})).step_time_us or 0.0) < (placed(host()).step_time_us or 0.0)
    on_devices = [placed(where, on_cpus=False) for where in (host(), host(**{key: more}))]
    assert on_devices[0].step_time_us == on_devices[1].step_time_us


def test_no_lookup_is_faster_than_its_bytes_and_its_work_on_all_cores() -> None:
    plan = placed(host())
    loads = model_loads(plan.question.model, plan.topology(), Objective.MEAN)
    tables = plan.question.model.tables
    read = sum(load.global_unique_rows * table.embedding_dim * 2 for load, table in zip(loads, tables, strict=True))
    worked_us = sum(load.global_lookups for load in loads) * 10e-3 / 40
    assert us(plan, Stage.LOOKUP_FORWARD) > read / 256e9 * 1e6 + worked_us


def test_hash_size_does_not_slow_cpus() -> None:
    def forward_us(rows: int) -> float:
        table = {"name": "t", "num_embeddings": rows, "embedding_dim": 64, "features": [{"name": "f", "length": {"fixed": 20}}]}
        return us(placed(host(ddr_capacity="4TiB"), tables=[table]), Stage.LOOKUP_FORWARD)

    assert forward_us(100_000_000) == pytest.approx(forward_us(10_000_000), rel=0.05)


def test_cpus_that_look_up_have_a_range_of_their_own() -> None:
    where = host()
    plan = placed(where)
    question = plan.question.model_copy(update={"cost_model": datasheet_cost_model(where)})
    spread = step_range(plan.model_copy(update={"question": question}))
    assert spread is not None
    assert spread.fast_us < spread.slow_us


def test_cpu_lookups_are_asked_for() -> None:
    assert Tier.CPU in host_tiers(host())
    assert allowed_tiers(host(), None) == (Tier.HBM, Tier.DDR, Tier.REMOTE)
    assert not PlanOptions().allows(Tier.CPU)
    assert {rank.serves for rank in PlanOptions().topology(host(), with_servers=True).servers} == {Tier.REMOTE}


@pytest.mark.parametrize(
    ("where", "nodes", "said"),
    [
        (host(cores=None), None, "needs the cores and the ddr_bandwidth"),
        (host(ddr_bandwidth=None), None, "needs the cores and the ddr_bandwidth"),
        (host(), 2, "on one node, here are 2"),
    ],
)
def test_what_cpus_can_not_be_priced_for_is_refused(where: HostSpec, nodes: int | None, said: str) -> None:
    with pytest.raises(InvalidDocument, match=said):
        build_topology(where, nodes, None, with_servers=False, cpu_lookups=True)


def test_trainers_that_are_cpus_are_told_where_their_tables_are() -> None:
    cpu = {"kind": "cpu", "type": "cpu", "count": 2, "memory_bandwidth": "100GB/s", "fp32_flops": "1TFLOP/s"}
    with pytest.raises(InvalidDocument, match="are in the tier ddr"):
        build_topology(host(devices=[cpu]), None, None, with_servers=False, cpu_lookups=True)


@pytest.mark.parametrize("other", [Tier.DDR, Tier.REMOTE])
def test_system_memory_is_looked_up_by_cpus_or_by_devices(other: Tier) -> None:
    with pytest.raises(ValidationError, match="cpu goes with hbm alone"):
        PlanOptions(tiers=(Tier.HBM, Tier.CPU, other))


def test_prices_without_cpus_are_refused() -> None:
    plan = placed(host())
    known = tuple(each for each in plan.question.cost_model.kernels if each.device != HOST_CPUS)
    data = plan.question.model_copy(update={"cost_model": plan.question.cost_model.model_copy(update={"kernels": known})}).to_data()
    with pytest.raises(ValidationError, match="has no prices of host-cpus"):
        Question.model_validate(data)


@pytest.mark.parametrize("part", ["devices", "remote_servers"])
def test_no_device_and_no_server_has_the_name_of_the_cpus(part: str) -> None:
    data = gpu_host_data(nodes=1)
    (data["node"]["devices"][0] if part == "devices" else data["remote_servers"])["kind"] = HOST_CPUS
    with pytest.raises(ValidationError, match="is what the CPUs of a node are called"):
        HostSpec.model_validate(data)
