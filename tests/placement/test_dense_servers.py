"""Trainers that exchange dense parameters with servers: at every step, or averages every so many, over wires and cores of both ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host, builtin_stack
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.dense_part import dense_part
from emplace.placement.derived_loads import derive_loads
from emplace.placement.host import HostSpec
from emplace.placement.memory import row_bytes
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.stages import Stage
from emplace.studies.fleet import Demands, Fleet, Hogwild
from emplace.studies.power import running
from emplace.studies.resources import elasticities
from tests.placement.example_models import gpu_host_data, model
from tests.placement.naive_plan import naive_plan
from tests.placement.test_datasheet import scaled
from tests.prices import device_prices

CPUS = builtin_stack("cpu-caffe2-like")
WIRE = 25e9 / 8 * CPUS.network_share.typical
"""Bytes per second of a server."""
BYTES = dense_part(model()).parameters * 4


def host(*, nodes: int = 2, **dense: Any) -> HostSpec:
    """Nodes of four devices; dense servers where something is said of them."""
    servers = {"count": 1, "memory_bandwidth": "100GB/s", "network": "25Gbit/s"} | dense
    data = gpu_host_data(nodes=nodes) | ({"dense_servers": servers} if dense else {})
    data["node"]["cores"] = 32
    return HostSpec.model_validate(data)


def placed(where: HostSpec, kind: ShardingType = ShardingType.TABLE_WISE, **changes: Any) -> Plan:
    spec = model(**changes)
    kernel = ComputeKernel.DENSE if kind is ShardingType.DATA_PARALLEL else ComputeKernel.FUSED
    return naive_plan(spec, where, [(kind, kernel, None)] * len(spec.tables), cost_model=device_prices(where))


def reduced_us(plan: Plan) -> float:
    return max(rank.stages_us[Stage.ALL_REDUCE] for rank in plan.ranks)


@pytest.mark.parametrize("kind", [ShardingType.TABLE_WISE, ShardingType.DATA_PARALLEL])
@pytest.mark.parametrize("every", [1, 16])
def test_the_audit_derives_the_same(every: int, kind: ShardingType) -> None:
    assert audit(placed(host(every=every, cores=40), kind)) == []


def test_gradients_go_to_the_servers_and_parameters_come_back() -> None:
    """Two nodes send all parameters over one server's wire, twice one after the other."""
    at_every_step, all_reduced = placed(host(count=1)), placed(host())
    wires_us = 2 * 2 * BYTES / WIRE * 1e6
    assert reduced_us(at_every_step) > wires_us + 2 * CPUS.collective_us.typical
    assert reduced_us(at_every_step) > reduced_us(all_reduced)
    others = [stage for stage in Stage if stage is not Stage.ALL_REDUCE]
    for one, other in zip(at_every_step.ranks, all_reduced.ranks, strict=True):
        assert [one.stages_us.get(stage) for stage in others] == [other.stages_us.get(stage) for stage in others]


def test_averages_are_rarer_and_cross_the_wires_both_ways_at_once() -> None:
    found = [reduced_us(placed(host(every=every), bottom_mlp=[1024, 1024, 16])) for every in (1, 2, 4, 64)]
    assert all(rarer < each for each, rarer in pairwise(found))
    own = datasheet_cost_model(host(every=2)).dense_servers
    assert own is not None
    once, twice = own.model_copy(update={"every": 2}).time_us(1e9, 1, 2, 4), own.model_copy(update={"every": 1}).time_us(1e9, 1, 2, 4)
    assert 2 * once < twice < 4 * once


def test_replicated_tables_go_the_same_way() -> None:
    spec_bytes = sum(table.num_embeddings * row_bytes(table.data_type, table.embedding_dim) for table in model().tables)
    more_us = reduced_us(placed(host(count=1), ShardingType.DATA_PARALLEL)) - reduced_us(placed(host(count=1)))
    assert more_us > 2 * 2 * spec_bytes / WIRE * 1e6


@pytest.mark.parametrize(
    ("key", "values"),
    [("count", [1, 2, 8, 100, 1000]), ("cores", [1, 8, 64]), ("network", ["1Gbit/s", "25Gbit/s", "100GB/s"])],
)
@pytest.mark.parametrize("every", [1, 16])
def test_more_of_the_servers_never_slows_a_step(key: str, values: list[Any], every: int) -> None:
    steps = [placed(host(**{"every": every, "cores": 4, key: value})).step_time_us or 0.0 for value in values]
    assert all(more <= less for less, more in pairwise(steps))
    assert steps[-1] < steps[0]


def test_no_exchange_beats_its_messages_or_a_trainers_wires() -> None:
    layers = len(dense_part(model()).layers)
    assert CPUS.message_core_us is not None
    few_cores, many = placed(host(cores=1)), placed(host(count=10_000, network="1TB/s", cores=10_000))
    assert reduced_us(few_cores) > 2 * layers * 8 * CPUS.message_core_us.typical
    of_node = 100e9 / 8 * builtin_stack("torchrec-eager").network_share.typical
    assert reduced_us(many) > 2 * BYTES / of_node * 1e6 + 2 * layers * CPUS.message_core_us.typical / (32 / 4)


def test_one_trainer_pays_for_it_too() -> None:
    data = host(nodes=1, count=2).to_data()
    data["node"]["devices"][0]["count"] = 1
    assert reduced_us(placed(HostSpec.model_validate(data))) > 2 * BYTES / 2 / WIRE * 1e6
    assert audit(placed(HostSpec.model_validate(data), ShardingType.DATA_PARALLEL)) == []


@pytest.mark.parametrize("every", [1, 16])
def test_a_step_is_as_many_times_as_long_as_all_its_constants(every: int) -> None:
    plan = placed(host(every=every, cores=8), ShardingType.DATA_PARALLEL)
    data = scaled(plan.question.cost_model.to_data(), 3.0)
    for part in (data, data["dense_servers"]):
        part["per_updated_byte_us"] = {key: each * 3.0 for key, each in part["per_updated_byte_us"].items()}
    slower = plan.question.model_copy(update={"cost_model": CostModel.model_validate(data | {"stack": None})})
    assert derive_loads(slower, plan.tables, plan.topology()).step_time_us == pytest.approx((plan.step_time_us or 0.0) * 3.0, rel=1e-6)


def test_a_fleet_averages_at_the_same_price() -> None:
    base = builtin_host("cpu-dual-socket")
    rates = {key: base.to_data()["remote_servers"][key] for key in ("memory_bandwidth", "network", "cores")}
    where = HostSpec.model_validate(base.to_data() | {"dense_servers": {"count": 1, "every": 16} | rates})
    spec, cost = model(), datasheet_cost_model(where)
    fleet = Fleet(spec, where, cost, Hogwild(batch=64, threads=1, tau=16))
    servers, asked = cost.dense_servers, fleet.demands(served_by_one(fleet))
    assert servers is not None
    assert asked.dense_network_us == pytest.approx(BYTES / 16 * servers.per_server_byte_us)
    never = Fleet(spec, where, cost, Hogwild(batch=64, threads=1, tau=1_000_000)).demands(served_by_one(fleet))
    messages_us = 2 * len(dense_part(spec).layers) * servers.messages.per_trainer_message_us / 16
    # Both sockets of a node share its bytes.
    on_cores_us = (asked.trainer_cpu_us - never.trainer_cpu_us - messages_us) / 2
    many = servers.model_copy(update={"count": 1_000_000})
    assert asked.trainer_network_us - never.trainer_network_us + on_cores_us == pytest.approx(many.time_us(BYTES, 0, 1, 2), rel=1e-3)


def served_by_one(fleet: Fleet) -> Plan:
    """All tables of a fleet on one sparse server."""
    question = fleet.placement_question(1, PlanOptions())
    choices = [(ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)] * len(fleet.model.tables)
    return naive_plan(fleet.model, question.host, choices, question.options, cost_model=fleet.cost_model, with_servers=True)


def test_a_fleet_pays_for_messages_with_cores_of_either_end() -> None:
    def demands(node_cores: int, server_cores: int) -> Demands:
        data = builtin_host("cpu-dual-socket").to_data()
        data["node"]["cores"], data["remote_servers"]["cores"] = node_cores, server_cores
        where = HostSpec.model_validate(data)
        fleet = Fleet(model(), where, datasheet_cost_model(where), Hogwild(batch=64))
        return fleet.demands(served_by_one(fleet))

    many, of_node, of_server = demands(40, 40), demands(2, 40), demands(40, 2)
    assert CPUS.message_core_us is not None
    each_us = 3 * len(model().tables) * CPUS.message_core_us.typical
    assert of_node.trainer_cpu_us - many.trainer_cpu_us > each_us * (1 - 1 / 20)
    assert of_node.sparse_cpu_us == many.sparse_cpu_us
    assert of_server.sparse_cpu_us[0] - many.sparse_cpu_us[0] > each_us * (1 / 2 - 1 / 40)
    assert of_server.trainer_cpu_us == many.trainer_cpu_us


def test_a_faster_network_of_theirs_is_worth_something() -> None:
    gains = {each.path: each.percent for each in elasticities(placed(host(count=1)))}
    assert gains["/dense_servers/network"] > 0


def test_their_watts_count() -> None:
    data = host(count=3, power_w=400.0).to_data()
    data["node"]["power_w"] = 2000
    job = running(placed(HostSpec.model_validate(data)))
    assert (job.nodes, job.dense_servers, job.servers, job.power_w) == (2, 3, 5, 2 * 2000 + 3 * 400)


def test_prices_that_know_nothing_of_them_are_refused() -> None:
    with_them, without = placed(host(count=2)).question, placed(host()).question
    for cost in (without.cost_model, datasheet_cost_model(host(count=3)), datasheet_cost_model(host(count=2, every=4))):
        with pytest.raises(ValidationError, match="must be of the host's dense_servers"):
            Question.model_validate(with_them.to_data() | {"cost_model": cost.to_data()})
    with pytest.raises(ValidationError, match="TorchRec trains, which all-reduces"):
        HostSpec.model_validate(host(count=2).to_data() | {"fingerprint": "this machine"})
