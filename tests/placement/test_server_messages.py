"""What remote servers take of CPUs: of cores at both ends for each message, byte and lookup, and of a trainer's link to its device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host, builtin_stack, host_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import derive_loads
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ShardingType, Tier
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.price_range import step_range
from emplace.placement.stages import Stage
from emplace.placement.workload import Objective, model_loads
from tests.placement.example_models import gpu_host_data, model
from tests.placement.naive_plan import naive_plan
from tests.placement.test_datasheet import scaled
from tests.prices import device_prices

EXCHANGES = (Stage.INPUT_DIST, Stage.OUTPUT_DIST, Stage.GRADIENT_DIST)
LOOKUPS = (Stage.LOOKUP_FORWARD, Stage.LOOKUP_BACKWARD)
CPUS = builtin_stack("cpu-caffe2-like")


def host(*, servers: int = 3, cores: int | None = 40, server_cores: int | None = 40, **network: str) -> HostSpec:
    """Two nodes of four devices, and as many servers as there are tables or more."""
    data = gpu_host_data()
    data["node"] |= {"cores": cores} | network
    data["remote_servers"] |= {"count": servers, "cores": server_cores} | network
    return HostSpec.model_validate(data)


def served(where: HostSpec, kind: ShardingType = ShardingType.TABLE_WISE, **changes: Any) -> Plan:
    """All tables on servers, each on one of its own where they are whole."""
    spec = model(**changes)
    choices = [(kind, ComputeKernel.FUSED, None)] * len(spec.tables)
    return naive_plan(spec, where, choices, PlanOptions(tiers=(Tier.REMOTE,)), cost_model=device_prices(where), with_servers=True)


def us(plan: Plan, *stages: Stage) -> float:
    """How long these stages last."""
    return sum(max(rank.stages_us.get(stage, 0.0) for rank in plan.ranks) for stage in stages)


@pytest.mark.parametrize("kind", [ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE])
def test_messages_and_bytes_take_time_of_cores_at_both_ends(kind: ShardingType) -> None:
    with_cores, without = served(host(), kind), served(host(cores=None, server_cores=None), kind)
    assert audit(with_cores) == audit(without) == []
    trainers = with_cores.num_trainers
    shards = [shard for table in with_cores.tables for shard in table.shards]
    assert CPUS.message_core_us is not None
    for stage in EXCHANGES:
        of_trainer = with_cores.ranks[0].stages_us[stage] - without.ranks[0].stages_us[stage]
        assert of_trainer > len(shards) * CPUS.message_core_us.typical / (40 / 4)
        of_server = with_cores.ranks[trainers].stages_us[stage] - without.ranks[trainers].stages_us[stage]
        its = sum(shard.rank == trainers for shard in shards)
        assert its
        assert of_server > its * trainers * CPUS.message_core_us.typical / 40
    assert us(with_cores, Stage.ALL_REDUCE, Stage.DENSE) == us(without, Stage.ALL_REDUCE, Stage.DENSE)


def test_vectors_of_servers_cross_the_link_to_the_device_too() -> None:
    slow, fast = host().to_data(), host().to_data()
    fast["node"]["devices"][0]["system_link"] = "10TB/s"
    plans = [served(HostSpec.model_validate(data)) for data in (slow, fast)]
    load = model_loads(plans[0].question.model, plans[0].topology(), Objective.MEAN)
    vectors = sum(each.global_bags * table.embedding_dim * 4 for each, table in zip(load, plans[0].question.model.tables, strict=True))
    link_us = vectors / 8 / (16e9 * builtin_stack("torchrec-eager").link_share.typical) * 1e6
    spent = [plan.ranks[0].stages_us[Stage.OUTPUT_DIST] for plan in plans]
    assert spent[0] - spent[1] == pytest.approx(link_us, rel=0.01)


def test_lookups_of_servers_are_work_of_their_cores() -> None:
    few, many = served(host(server_cores=2)), served(host(server_cores=200))
    assert CPUS.lookup_core_ns is not None
    loads = model_loads(few.question.model, few.topology(), Objective.MEAN)
    for stage in LOOKUPS:
        busiest_us = max(load.global_lookups for load in loads) * CPUS.lookup_core_ns.typical / 1e3 / 2
        assert us(few, stage) > busiest_us > us(few, stage) - us(many, stage) > 0.9 * busiest_us


def test_no_exchange_beats_its_messages_and_its_bytes() -> None:
    plan = served(host(cores=8, server_cores=8), local_batch_size=16)
    loads = model_loads(plan.question.model, plan.topology(), Objective.MEAN)
    assert CPUS.message_core_us is not None
    least_us = [8 * CPUS.message_core_us.typical / 8]
    least_us += [len(loads) * CPUS.message_core_us.typical * 4 / 8]
    wire = 1e6 / (25e9 / 8 * CPUS.network_share.high)
    for load, table in zip(loads, plan.question.model.tables, strict=True):
        least_us.append(load.global_bags * table.embedding_dim * 4 * wire + least_us[0])
    for stage in (Stage.OUTPUT_DIST, Stage.GRADIENT_DIST):
        assert us(plan, stage) > max(least_us)


@pytest.mark.parametrize("key", ["cores", "server_cores", "network"])
def test_more_of_either_end_never_slows_a_step(key: str) -> None:
    values: dict[str, list[Any]] = {"cores": [1, 4, 16, 64], "server_cores": [1, 4, 16, 64], "network": ["1Gbit/s", "25Gbit/s", "125GB/s"]}
    steps = [served(host(**{key: value})).step_time_us or 0.0 for value in values[key]]
    assert all(more <= less for less, more in pairwise(steps))
    assert steps[-1] < steps[0]


def test_servers_that_hold_nothing_get_no_messages() -> None:
    few, many = served(host(servers=3)), served(host(servers=80))
    assert few.step_time_us == many.step_time_us


@settings(max_examples=8)
@given(times=st.floats(0.1, 10.0), kind=st.sampled_from([ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE]))
def test_a_step_with_servers_is_as_many_times_as_long_as_all_its_constants(times: float, kind: ShardingType) -> None:
    plan = served(host(), kind)
    data = scaled(plan.question.cost_model.to_data(), times)
    data["per_updated_byte_us"] = {key: each * times for key, each in data["per_updated_byte_us"].items()}
    slower = plan.question.model_copy(update={"cost_model": CostModel.model_validate(data | {"stack": None})})
    assert derive_loads(slower, plan.tables, plan.topology()).step_time_us == pytest.approx((plan.step_time_us or 0.0) * times, rel=1e-6)


def test_messages_have_a_range_of_their_own() -> None:
    where = host(cores=2, server_cores=2)
    plan = served(where, local_batch_size=2)
    question = plan.question.model_copy(update={"cost_model": datasheet_cost_model(where)})
    spread = step_range(plan.model_copy(update={"question": question}))
    assert spread is not None
    assert spread.fast_us < spread.slow_us


def test_only_jobs_with_remote_servers_have_messages() -> None:
    for name in host_names():
        where = builtin_host(name)
        assert (datasheet_cost_model(where).server_messages is None) == (where.remote_servers is None)
