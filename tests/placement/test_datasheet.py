"""Prices that follow from datasheets: nothing beats its bytes, its flops or its launches, and more of a rate is never slower."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.audit import audit
from emplace.placement.beside_stages import waits_for
from emplace.placement.catalog import builtin_host, builtin_model, builtin_stack, host_names, stack_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.dense_part import dense_part
from emplace.placement.derived_loads import derive_loads
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, Optimizer, Precision, ShardingType
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.price_range import step_range
from emplace.placement.stack import Cost, Pace, Share, Stack
from emplace.placement.stages import Stage, sharding_type_stages_us
from emplace.placement.topology import build_topology
from emplace.solver.solve import solve_question
from tests.placement.example_models import gpu_host, gpu_host_data, model, model_data
from tests.placement.naive_plan import Choice, naive_plan

FUSED: Choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
UVM: Choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED_UVM, None)
REPLICATED: Choice = (ShardingType.DATA_PARALLEL, ComputeKernel.DENSE, None)
ROWS: Choice = (ShardingType.ROW_WISE, ComputeKernel.FUSED, None)
STACKS = [name for name in stack_names() if name != "cpu-caffe2-like"]


def cached(load_factor: float) -> Choice:
    return ShardingType.TABLE_WISE, ComputeKernel.FUSED_UVM_CACHING, load_factor


def priced(spec: ModelSpec, host: HostSpec, choice: Choice, stack: Stack | None = None, **changes: Any) -> Plan:
    prices = datasheet_cost_model(host, stack).model_copy(update=changes)
    return naive_plan(spec, host, [choice] * len(spec.tables), cost_model=prices)


def step_us(plan: Plan) -> float:
    assert plan.step_time_us is not None
    return plan.step_time_us


def stage_us(plan: Plan, stage: Stage) -> float:
    return max(rank.stages_us.get(stage, 0.0) for rank in plan.ranks)


def one_table(*, rows: int = 100_000, ids: int = 20, access: Any = "uniform", data_type: str = "fp32", **changes: Any) -> ModelSpec:
    table = {
        "data_type": data_type,
        "name": "t",
        "num_embeddings": rows,
        "embedding_dim": 64,
        "access": access,
        "features": [{"name": "f", "length": {"fixed": ids}}],
    }
    return model(**{"tables": [table], "together": None, "apart": None} | changes)


@pytest.mark.parametrize("choice", [FUSED, UVM, ROWS, REPLICATED, cached(0.25)], ids=lambda choice: choice[1])
def test_a_step_is_no_shorter_than_its_launches_and_the_audit_says_so(choice: Choice) -> None:
    plan = priced(model(), gpu_host(), choice)
    launched_us = plan.question.cost_model.floor(plan.question.model).time_us
    assert launched_us > 3000
    assert step_us(plan) == pytest.approx(launched_us)
    assert audit(plan) == []
    shorter = plan.model_copy(update={"step_time_us": launched_us / 2})
    assert "/step_time_us" in {violation.where for violation in audit(shorter)}


@pytest.mark.parametrize("choice", [FUSED, UVM, cached(0.2)])
@pytest.mark.parametrize("optimizer", [Optimizer.ADAGRAD, Optimizer.ADAM])
def test_state_is_as_much_to_read_and_write_whatever_the_rows_are_stored_in(choice: Choice, optimizer: Optimizer) -> None:
    """FBGEMM keeps it in fp32."""

    def of_state_us(data_type: str) -> float:
        with_it, without = (
            priced(one_table(data_type=data_type, optimizer=each), gpu_host(nodes=1), choice) for each in (optimizer, Optimizer.SGD)
        )
        return stage_us(with_it, Stage.LOOKUP_BACKWARD) - stage_us(without, Stage.LOOKUP_BACKWARD)

    assert of_state_us("fp16") == pytest.approx(of_state_us("fp32"))
    assert of_state_us("bf16") == pytest.approx(of_state_us("fp32"))


def test_a_step_is_no_shorter_than_its_input_takes_to_arrive() -> None:
    data = gpu_host_data(nodes=1)
    data["node"]["network"] = "1Gbit/s"
    spec, slow = model(local_batch_size=4096), HostSpec.model_validate(data)
    plan = priced(spec, slow, FUSED)
    ids = sum(feature.lengths.mean for table in spec.tables for feature in table.features)
    batch_bytes = 4096 * (8 * ids + 4 * spec.num_features + 4 * (spec.dense_features + 1))
    share = builtin_stack("torchrec-eager").network_share.typical
    assert step_us(plan) == pytest.approx(batch_bytes * slow.devices_per_node / (1e9 / 8 * share) * 1e6)
    assert plan.question.cost_model.floor(spec).name == "input"
    assert audit(plan) == []
    at_hand = HostSpec.model_validate(data | {"fingerprint": "this machine"})
    assert step_us(priced(spec, at_hand, FUSED)) < step_us(plan) / 2


@pytest.mark.parametrize(("choice", "with_servers"), [(FUSED, False), (FUSED, True), (ROWS, False), (REPLICATED, False)])
def test_input_and_exchanges_share_a_wire(choice: Choice, with_servers: bool) -> None:
    """Neither alone needs as long, nor do all stages one after the other: bytes that arrive at a node take longest."""
    data = gpu_host_data()
    data["node"]["network"] = "8Gbit/s"
    data["remote_servers"]["network"] = "1000Gbit/s"
    data["node"]["devices"][0]["hbm_capacity"] = "2GiB"
    spec, host = model(local_batch_size=65_536), HostSpec.model_validate(data)
    prices = datasheet_cost_model(host).model_copy(update={"launches": None})
    plan = naive_plan(spec, host, [choice] * len(spec.tables), cost_model=prices, with_servers=with_servers)
    assert audit(plan) == []
    share = builtin_stack("torchrec-eager").network_share.typical
    ids = sum(feature.lengths.mean for table in spec.tables for feature in table.features)
    batch_bytes = 65_536 * (8 * ids + 4 * spec.num_features + 4 * (spec.dense_features + 1))
    vector_bytes = sum(table.embedding_dim * len(table.features) for table in spec.tables) * 4 * 65_536
    away = {FUSED: 1.0 if with_servers else 0.5, ROWS: 0.5, REPLICATED: 0.0}[choice]
    least_us = (batch_bytes + away * vector_bytes) * host.devices_per_node / (8e9 / 8 * share) * 1e6
    rounding = 1 + 1e-12  # sums in another order
    assert step_us(plan) * rounding >= least_us
    assert least_us * rounding >= prices.floor(spec).time_us
    assert waits_for(plan) == ("" if step_us(plan) == pytest.approx(worked_us(plan)) else "network")


def test_a_wire_that_input_and_exchanges_fill_is_what_a_step_waits_for() -> None:
    data = gpu_host_data(remote_servers=None)
    data["node"]["network"] = "20Gbit/s"
    spec, host = one_table(ids=400, local_batch_size=16_384), HostSpec.model_validate(data)
    for table in (limited := spec.to_data())["tables"]:
        table["constraints"] = {"sharding_types": ["row_wise", "table_wise"], "tiers": ["hbm"]}
    made = solve_question(
        Question(model=ModelSpec.model_validate(limited), host=host, cost_model=datasheet_cost_model(host), options=PlanOptions())
    )
    assert audit(made) == []
    assert waits_for(made) == "network"
    assert worked_us(made) < step_us(made)
    assert made.question.cost_model.floor(spec).time_us < step_us(made)
    assert (made.lower_bound_us or 0.0) < step_us(made)


def worked_us(plan: Plan) -> float:
    stages = [[rank.stages_us.get(stage, 0.0) for stage in Stage] for rank in plan.ranks]
    return float(plan.question.cost_model.step_overhead_us + sum(max(of_stage) for of_stage in zip(*stages, strict=True)))


def test_few_cores_and_a_shared_link_hold_the_input_up() -> None:
    spec, steps = model(local_batch_size=65_536), []
    for change in ({}, {"cores": 4}, {"cores": 1}):
        data = gpu_host_data()
        data["node"] |= {"network": "10TB/s"} | change
        steps.append(priced(spec, HostSpec.model_validate(data), FUSED).question.cost_model.floor(spec).time_us)
    assert steps[0] < steps[1] == pytest.approx(steps[2] / 4)


def test_links_to_system_memory_are_shared_behind_switches_and_no_faster_than_the_memory() -> None:
    def uvm_us(**changes: Any) -> float:
        data = gpu_host_data()
        devices_per_link = changes.pop("devices_per_link", None)
        data["node"] |= changes
        data["node"]["devices"][0]["devices_per_link"] = devices_per_link
        return stage_us(priced(one_table(ids=50), HostSpec.model_validate(data), UVM), Stage.LOOKUP_BACKWARD)

    alone, shared, scarce = uvm_us(), uvm_us(devices_per_link=2), uvm_us(ddr_bandwidth="16GB/s")
    assert alone < shared < 2 * alone
    assert shared < scarce
    assert uvm_us(ddr_bandwidth="1TB/s") == alone


def test_what_crosses_more_links_takes_longer_and_so_do_more_peers() -> None:
    def exchange_us(count: int = 4, **node: Any) -> float:
        data = gpu_host_data(nodes=1)
        data["node"]["devices"][0]["count"] = count
        data["node"] |= node
        return stage_us(priced(one_table(ids=50), HostSpec.model_validate(data), FUSED), Stage.OUTPUT_DIST)

    stack = builtin_stack("torchrec-eager")
    direct, staged = exchange_us(), exchange_us(intra_node_hops=2.0)
    start_us = stack.collective_us.typical + 3 * stack.peer_us.typical
    assert staged - start_us == pytest.approx(2 * (direct - start_us))


def test_servers_that_hold_nothing_get_no_messages() -> None:
    fixed = []
    for servers in (2, 80):
        data = gpu_host_data()
        data["remote_servers"]["count"] = servers
        host = HostSpec.model_validate(data)
        topology = build_topology(host, None, None, with_servers=True)
        fixed.append(sharding_type_stages_us(datasheet_cost_model(host), ShardingType.TABLE_WISE, topology))
    assert fixed[0] == fixed[1]
    assert fixed[0][Stage.INPUT_DIST] > builtin_stack("torchrec-eager").collective_us.typical


def test_throughput_saturates_with_the_batch() -> None:
    def rate(batch: int) -> float:
        return batch / step_us(priced(model(local_batch_size=batch), gpu_host(), FUSED))

    doubled = [rate(2 * batch) / rate(batch) for batch in (64, 4096, 262_144)]
    assert doubled[0] == pytest.approx(2)
    assert doubled[0] > doubled[1] > doubled[2] > 0.99
    assert doubled[2] < 1.1


def test_a_process_that_makes_batches_itself_is_no_faster_than_that() -> None:
    inline = builtin_stack("torchrec-eager-inline-reader")
    spec, host = model(local_batch_size=65_536), builtin_host("dgx-a100-40g")
    least_us = spec.local_batch_size * spec.dense_features * inline.step_value_us.typical
    assert step_us(priced(spec, host, FUSED, inline)) > least_us > step_us(priced(spec, host, FUSED))


@pytest.mark.parametrize("name", STACKS)
def test_no_plan_beats_its_flops_and_bytes(name: str) -> None:
    spec, host = model(local_batch_size=32_768), builtin_host("dgx-a100-40g")
    plan = priced(spec, host, FUSED, builtin_stack(name))
    (device,) = host.node.devices
    peak = max(device.fp32_flops, device.tf32_flops or 0.0, device.fp16_flops or 0.0)
    assert stage_us(plan, Stage.DENSE) > dense_part(spec).training_flops * spec.local_batch_size / peak * 1e6
    written = spec.local_batch_size * sum(len(table.features) * table.embedding_dim * 4 for table in spec.tables)
    assert stage_us(plan, Stage.LOOKUP_FORWARD) > written / device.memory_bandwidth * 1e6


def test_different_rows_cost_and_rows_that_come_again_cost_less() -> None:
    skewed, even = (priced(one_table(access=access), gpu_host(), FUSED) for access in ({"zipf": 1.5}, "uniform"))
    for stage in (Stage.LOOKUP_FORWARD, Stage.LOOKUP_BACKWARD):
        assert stage_us(skewed, stage) < stage_us(even, stage)


def test_a_backward_reads_and_writes_state_too() -> None:
    spent = {
        optimizer: stage_us(priced(one_table(optimizer=optimizer), gpu_host(), FUSED), Stage.LOOKUP_BACKWARD) for optimizer in Optimizer
    }
    assert spent[Optimizer.SGD] == spent[Optimizer.ROWWISE_ADAGRAD] < spent[Optimizer.ADAGRAD] < spent[Optimizer.ADAM]


def test_replicated_tables_and_dense_layers_are_updated_whole() -> None:
    few, many = (priced(one_table(rows=rows), gpu_host(), REPLICATED) for rows in (1_000, 100_000))
    assert stage_us(many, Stage.ALL_REDUCE) > stage_us(few, Stage.ALL_REDUCE) > 0
    assert datasheet_cost_model(gpu_host()).update_us(Optimizer.SGD, 4.0) > 0


def test_a_cache_fetches_what_misses_in_the_forward_and_leaves_state_of_each_value_in_system_memory() -> None:
    def lookups(optimizer: str, choice: Choice) -> tuple[float, float]:
        plan = priced(one_table(access={"zipf": 1.05}, optimizer=optimizer), gpu_host(), choice)
        return stage_us(plan, Stage.LOOKUP_FORWARD), stage_us(plan, Stage.LOOKUP_BACKWARD)

    device, small, large, whole = (lookups("sgd", choice) for choice in (FUSED, cached(0.05), cached(0.5), cached(1.0)))
    assert small[0] > large[0] > whole[0] > device[0]
    assert large[1] == whole[1] == device[1]
    for_hits_too = lookups("adagrad", cached(1.0))[1]
    assert for_hits_too > lookups("adagrad", FUSED)[1]


def test_rows_of_a_batch_that_a_cache_has_no_room_for_are_updated_where_they_lie() -> None:
    """As on an H200: with 5% cached the backward of uniform lookups took 5.2 ms, 6.6 without a cache and 0.66 in the device's memory."""
    spec = one_table(rows=100_000, ids=8, local_batch_size=4096)
    device, apart, none, some, all_rows = (
        stage_us(priced(spec, gpu_host(), choice), Stage.LOOKUP_BACKWARD)
        for choice in (FUSED, UVM, cached(1e-5), cached(0.1), cached(0.95))
    )
    assert apart < none < apart + device
    assert device < some < none
    assert all_rows == device


def test_a_cache_fetches_no_row_twice() -> None:
    spec = one_table(rows=1_000, ids=50, local_batch_size=4096)
    (device,) = gpu_host().node.devices
    link_us = 1_000 * 64 * 4 / ((device.system_link or 0.0) * builtin_stack("torchrec-eager").link_share.typical) * 1e6
    small, whole = (stage_us(priced(spec, gpu_host(), cached(share)), Stage.LOOKUP_FORWARD) for share in (0.01, 1.0))
    assert small - whole == pytest.approx(link_us, rel=1e-3)


def test_only_a_stack_that_multiplies_in_tf32_is_faster_for_it() -> None:
    spec = model(local_batch_size=32_768)
    a100, without = builtin_host("dgx-a100-40g"), builtin_host("dgx-a100-40g").to_data()
    del without["node"]["devices"][0]["tf32_flops"]
    bare = HostSpec.model_validate(without)
    for name, is_faster in (("torchrec-eager", False), ("tensorflow-distributed-embeddings", True)):
        with_it, without_it = (stage_us(priced(spec, host, FUSED, builtin_stack(name)), Stage.DENSE) for host in (a100, bare))
        assert (with_it < without_it) is is_faster


def test_dense_layers_are_priced_at_the_precision_that_the_model_says() -> None:
    def spent(host: str) -> dict[Precision | None, float]:
        choices = (None, *Precision)
        plans = (priced(square_layers(4096, dense_precision=each), builtin_host(host), FUSED) for each in choices)
        return {each: stage_us(plan, Stage.DENSE) for each, plan in zip(choices, plans, strict=True)}

    h100, a100 = spent("dgx-h100"), spent("dgx-a100-40g")
    assert h100[None] == h100[Precision.FP32] > h100[Precision.TF32] > h100[Precision.FP16] == h100[Precision.BF16] > h100[Precision.FP8]
    assert a100[Precision.FP8] == a100[Precision.FP32] > a100[Precision.FP16]


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("precision", Precision)
def test_the_rate_that_products_reach_rises_with_their_size(name: str, precision: Precision) -> None:
    (device,) = (host := builtin_host("dgx-h100")).node.devices
    peaks = {Precision.FP32: device.fp32_flops, Precision.TF32: device.tf32_flops, Precision.FP8: device.fp8_flops}
    peak, stack = peaks.get(precision, device.fp16_flops), builtin_stack(name)
    assert peak is not None

    def reached(width: int, batch: int) -> float:
        spec = square_layers(width, local_batch_size=batch, dense_precision=precision)
        return dense_part(spec).training_flops * batch / stage_us(priced(spec, host, FUSED, stack), Stage.DENSE) * 1e6 / peak

    share = (stack.flops_share if precision is Precision.FP32 else stack.matrix_flops_share).typical
    by_width, by_batch = ([reached(*size) for size in sizes] for sizes in (SQUARES, [(1024, batch) for batch in (8, 256, 8192, 262_144)]))
    for rates in (by_width, by_batch):
        assert rates == sorted(rates)
        assert rates[0] < share / 10
    assert share * 0.8 < by_width[-1] < share


SQUARES = [(64, 512), (256, 2048), (1024, 8192), (16_384, 131_072)]
"""(width, examples)"""


def square_layers(width: int, **changes: Any) -> ModelSpec:
    """Four dense layers of a width, but for what comes in and goes out."""
    return model(**({"bottom_mlp": [], "dense_features": width, "top_mlp": [width] * 4 + [1]} | {"local_batch_size": 32_768} | changes))


FASTER = ("memory_bandwidth", "system_link", "fp32_flops")


@pytest.mark.parametrize("choice", [FUSED, UVM, ROWS, REPLICATED, cached(0.25)], ids=lambda choice: choice[1])
@pytest.mark.parametrize("what", [*FASTER, "intra_node_link", "network"])
def test_more_of_a_rate_never_slows_a_placement(what: str, choice: Choice) -> None:
    slow, fast = gpu_host_data(), gpu_host_data()
    node = fast["node"]
    for part in node["devices"] if what in FASTER else [node]:
        number, unit = "".join(filter(lambda c: c.isdigit() or c == ".", part[what])), part[what].lstrip("0123456789.")
        part[what] = f"{float(number) * 3:g}{unit}"
    steps = [step_us(priced(model(), HostSpec.model_validate(data), choice, launches=None, ingest=None)) for data in (slow, fast)]
    assert steps[1] <= steps[0]


def scaled(value: Any, times: float) -> Any:
    """A cost model's data with every time constant so many times as long."""
    if isinstance(value, dict):
        return {
            key: each * times if key.endswith("_us") and isinstance(each, float) else scaled(each, times) for key, each in value.items()
        }
    return [scaled(each, times) for each in value] if isinstance(value, list) else value


@given(times=st.floats(0.1, 10.0), choice=st.sampled_from([FUSED, UVM, ROWS, REPLICATED, cached(0.25)]))
def test_a_step_is_as_many_times_as_long_as_all_its_constants(times: float, choice: Choice) -> None:
    plan = naive_plan(model(), gpu_host(), [choice] * len(model().tables), cost_model=datasheet_cost_model(gpu_host()))
    data = scaled(plan.question.cost_model.to_data(), times)
    data["per_updated_byte_us"] = {key: each * times for key, each in data["per_updated_byte_us"].items()}
    slower = plan.question.model_copy(update={"cost_model": CostModel.model_validate(data | {"stack": None})})
    assert derive_loads(slower, plan.tables, plan.topology()).step_time_us == pytest.approx(step_us(plan) * times, rel=1e-6)


@pytest.mark.parametrize("name", STACKS)
def test_every_figure_slows_a_step_towards_its_slow_end(name: str) -> None:
    stack = builtin_stack(name)
    figures = {key: value for key, value in stack if isinstance(value, Share | Cost)}
    assert len(figures) == len(keys_of_figures(stack))
    for figure in figures.values():
        assert figure.source
    plan = priced(model(local_batch_size=16_384), gpu_host(), cached(0.25), stack)
    spread = step_range(plan)
    assert spread is not None
    assert spread.fast_us < step_us(plan) < spread.slow_us < 2.2 * spread.fast_us


def keys_of_figures(stack: Stack) -> list[str]:
    """Keys of figures: those that stand below a source in the document."""
    return [key for key, value in stack.to_data().items() if isinstance(value, dict)]


def test_prices_of_a_person_have_no_range() -> None:
    plan = priced(model(), gpu_host(), FUSED, step_overhead_us=17.0)
    assert not follows_datasheet(plan.question.cost_model, plan.question.host)
    assert step_range(plan) is None


def test_a_stack_of_other_devices_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="runs on cpu devices"):
        datasheet_cost_model(gpu_host(), builtin_stack("cpu-caffe2-like"))
    with pytest.raises(InvalidDocument, match="runs on cuda devices"):
        datasheet_cost_model(builtin_host("cpu-dual-socket"), builtin_stack("hugectr-graph"))


def test_a_node_of_cpus_and_gpus_has_prices_of_both_in_any_order() -> None:
    data = gpu_host_data()
    cpu = {"kind": "cpu", "type": "cpu", "count": 1, "memory_bandwidth": "100GB/s", "fp32_flops": "1TFLOP/s"}
    (gpu,) = data["node"]["devices"]
    for devices in ([cpu, gpu], [gpu, cpu]):
        host = HostSpec.model_validate(gpu_host_data() | {"node": data["node"] | {"devices": devices}})
        cost = datasheet_cost_model(host)
        assert cost.stack is not None
        assert cost.stack.name == "torchrec-eager"
        assert cost.dense_cost("cpu").per_flop_us > cost.dense_cost("gpu").per_flop_us


@pytest.mark.parametrize("pace", Pace)
def test_every_built_in_host_has_prices_at_every_pace(pace: Pace) -> None:
    for name in host_names():
        cost = datasheet_cost_model(builtin_host(name), None, pace)
        assert cost.floor(builtin_model("m1")).time_us > 0 or cost.step_overhead_us > 0


def test_ranges_that_fall_are_refused() -> None:
    data = builtin_stack("torchrec-eager").to_data()
    data["step_us"]["low"] = 1e6
    with pytest.raises(ValueError, match="must not fall"):
        Stack.model_validate(data)


def test_hash_size_does_not_slow_a_cpu_host() -> None:
    host = builtin_host("cpu-dual-socket")
    steps = [step_us(priced(one_table(rows=rows, ids=1, access={"zipf": 1.5}), host, FUSED)) for rows in (10**5, 10**6)]
    assert steps[1] == pytest.approx(steps[0], rel=0.1)


def test_the_example_of_a_plan_reads_back() -> None:
    plan = priced(ModelSpec.model_validate(model_data()), gpu_host(), FUSED)
    assert Plan.model_validate_json(plan.canonical_json()) == plan


def test_an_all_reduce_of_more_trainers_takes_more_steps_of_its_tree() -> None:
    cost = datasheet_cost_model(gpu_host())
    hop_us = builtin_stack("torchrec-eager").hop_us
    assert hop_us is not None
    starts = [cost.all_reduce.start_us(ranks) for ranks in (2, 16, 128)]
    assert starts[1] - starts[0] == starts[2] - starts[1] == pytest.approx(3 * 2 * hop_us.typical)
    assert starts[0] == pytest.approx(builtin_stack("torchrec-eager").collective_us.typical + 2 * hop_us.typical)
