"""The planner in one process: plans that TorchRec takes, constraints that are kept or refused by name, and errors with their types.

The cases that have their like in TorchRec's own planner tests are named after them: valid plans of every sharding type, ranks assigned,
table-wise and hidden row-wise solutions, never fit, fail then rerun, no sharders, some parameters shardable, info of the constraints
passed through, contradicting constraints; a fixed absolute reservation is in test_reservation. Not applicable, as they test parts of
TorchRec's search that are refused here: proposers and their feedback, partitioners, performance models, enumerators and their estimates of
storage, plan loaders and the extraction of loaded options, the hash of a planner's context, the check of compute kernels (which the audit
makes). Not applicable, as Emplace refuses such modules or topologies: embedding towers, feature processors, managed collisions, key-value
and virtual tables, quantized modules, ranks of unequal memory.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints
from torchrec.distributed.planner.planners import validate_modules_inclusion_in_sharding_plan, validate_rank_assignment
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType, ShardingOption, Stats
from torchrec.distributed.types import BoundsCheckMode, CacheAlgorithm, CacheParams, ShardingPlan
from torchrec.modules.embedding_configs import DataType
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection

from emplace.placement.audit import audit
from emplace.torchrec import EmplaceShardingPlanner
from tests.torchrec.models import META, Model, collection, config, model, planner, sequence, sequences, sharders, shards, topology

pytestmark = pytest.mark.torch

GIB = 2**30


def _plan(module: nn.Module, **arguments: Any) -> ShardingPlan:
    return planner(**arguments).plan(module, sharders())


def _refused(module: nn.Module, error_type: PlannerErrorType, **arguments: Any) -> str:
    with pytest.raises(PlannerError) as error:
        _plan(module, **arguments)
    assert error.value.error_type is error_type
    return str(error.value)


def _covered(sharding: Any) -> int:
    return sum(rows * columns for rows, columns in (shard.shard_sizes for shard in sharding.sharding_spec.shards))


def test_every_table_is_whole_and_every_shard_on_a_rank() -> None:
    module = Model(left=collection(config("a", 300_000, 64), config("b")), right=collection(config("a", 500, features=["other"])))
    made = planner(topology(4, local_world_size=2))
    plan = made.plan(module, sharders())
    validate_modules_inclusion_in_sharding_plan(plan, module, sharders())
    validate_rank_assignment(plan, topology(4))
    assert {path: list(tables) for path, tables in plan.plan.items()} == {"sparse.left": ["a", "b"], "sparse.right": ["a"]}
    sizes = {
        (path, name): _covered(sharding)
        for path, tables in plan.plan.items()
        for name, sharding in tables.items()
        if sharding.sharding_spec
    }
    assert sizes
    expected = {("sparse.left", "a"): 300_000 * 64, ("sparse.left", "b"): 16_000, ("sparse.right", "a"): 8000}
    assert sizes.items() <= expected.items()
    assert made.last_plan is not None
    assert audit(made.last_plan) == []
    assert [table.name for table in made.last_plan.tables] == ["sparse:left:a", "b", "sparse:right:a"]


@pytest.mark.parametrize(
    "kind", ["table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard", "data_parallel"]
)
def test_the_sharding_type_that_is_asked_for(kind: str) -> None:
    given = {"a": ParameterConstraints(sharding_types=[kind])}
    plan = _plan(model(config("a", 4000, 64)), of=topology(4, local_world_size=2), constraints=given)
    sharding = shards(plan)["a"]
    assert sharding.sharding_type == kind
    assert sharding.compute_kernel == ("dense" if kind == "data_parallel" else "fused")
    if kind == "data_parallel":
        assert (sharding.ranks, sharding.sharding_spec) == ([0, 1, 2, 3], None)
    else:
        assert _covered(sharding) == 4000 * 64
        assert [shard.placement.rank() for shard in sharding.sharding_spec.shards] == sharding.ranks


def test_the_same_tables_of_two_collections_are_each_where_the_plan_has_them() -> None:
    given = {"a": ParameterConstraints(sharding_types=["table_wise"])}
    made = planner(constraints=given)
    plan = made.plan(Model(left=collection(config("a", 3000)), right=collection(config("a", 500, features=["other"]))), sharders())
    assert made.last_plan is not None
    expected = {table.name: [shard.rank for shard in table.shards] for table in made.last_plan.tables}
    assert {f"{path.replace('.', ':')}:a": tables["a"].ranks for path, tables in plan.plan.items()} == expected


def test_table_wise_solution_with_ranks_assigned() -> None:
    """Ten equal tables, all lookups alike: each rank has as many, and every shard is on the rank that it names."""
    given = {f"t{number}": ParameterConstraints(sharding_types=["table_wise"]) for number in range(10)}
    plan = _plan(model(*(config(name, 4000, 64) for name in given)), constraints=given)
    ranks = [sharding.ranks for sharding in shards(plan).values()]
    assert sorted(rank for [rank] in ranks) == [0] * 5 + [1] * 5
    for sharding in shards(plan).values():
        assert [shard.placement.rank() for shard in sharding.sharding_spec.shards] == sharding.ranks


def test_hidden_row_wise_solution() -> None:
    """Tables of 0.75 GiB beside one of 1 GiB on two ranks of 1.5 GiB: only split rows fit, though whole tables are cheaper."""
    given = {
        f"t{number}": ParameterConstraints(sharding_types=["table_wise", "row_wise"], compute_kernels=["fused"]) for number in range(3)
    }
    tables = [config(name, 2**20 * (4 if name == "t0" else 3), 64) for name in given]
    made = planner(topology(hbm_cap=3 * GIB // 2), constraints=given)
    plan = made.plan(model(*tables), sharders())
    assert "row_wise" in {sharding.sharding_type for sharding in shards(plan).values()}
    assert made.last_plan is not None
    assert audit(made.last_plan) == []


def test_only_parameters_that_the_sharder_shards() -> None:
    class Some(EmbeddingBagCollectionSharder):  # type: ignore[misc]
        def shardable_parameters(self, module: Any) -> dict[str, nn.Parameter]:
            return {name: parameter for name, parameter in super().shardable_parameters(module).items() if name == "a"}

    plan = planner().plan(model(config("a"), config("b")), [Some()])
    assert list(shards(plan)) == ["a"]


def test_never_fit() -> None:
    """It names what is too much, and by how much; every fix was solved with."""
    text = _refused(model(*(config(f"t{n}", 10**9, 128) for n in range(4))), PlannerErrorType.INSUFFICIENT_STORAGE)
    assert "does not fit, that is proven" in text
    assert re.search(r"GiB\b.* over", text)
    assert "What makes it fit:\n  1) " in text


def test_fail_then_rerun() -> None:
    made = planner(topology(hbm_cap=GIB, ddr_cap=GIB))
    with pytest.raises(PlannerError):
        made.plan(model(config("big", 10**8)), sharders())
    assert made.last_plan is not None
    assert not made.last_plan.has_placement
    assert list(shards(made.plan(model(config("small")), sharders()))) == ["small"]


def test_constraints_that_shut_out_what_would_fit() -> None:
    """2.4 GiB on one rank of 1 GiB: not table_wise in HBM, but otherwise."""
    given = {"a": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])}
    text = _refused(model(config("a", 10**7, 64)), PlannerErrorType.STRICT_CONSTRAINTS, constraints=given, of=topology(4, hbm_cap=GIB))
    assert "table a" in text
    assert "constraints" in text


def test_no_sharders() -> None:
    """TorchRec returns an empty plan, under which every rank would hold every table."""
    with pytest.raises(PlannerError, match="no module in it has both a sharder and parameters to shard") as error:
        planner().plan(model(config("a")), [])
    assert error.value.error_type is PlannerErrorType.INPUT_VALIDATION


def test_a_module_that_emplace_does_not_know() -> None:
    weights = PositionWeightedModuleCollection({"page-ids": 9}, device=META)
    processed = FeatureProcessedEmbeddingBagCollection(collection(config("page"), is_weighted=True), weights)
    with pytest.raises(PlannerError, match="FeatureProcessedEmbeddingBagCollection") as error:
        planner().plan(processed, [FeatureProcessedEmbeddingBagCollectionSharder()])
    assert error.value.error_type is PlannerErrorType.INPUT_VALIDATION


@pytest.mark.parametrize(
    ("data_type", "device", "trained"), [(DataType.INT8, "cuda", "fp32, fp16, bf16"), (DataType.BF16, "cpu", "fp32, fp16")]
)
def test_tables_that_torchrec_can_not_train_are_refused_by_name(data_type: DataType, device: str, trained: str) -> None:
    """It makes the model, and fails when it shards it, or in the first forward, where other ranks wait for ever."""
    module = model(config("a"), config("odd", data_type=data_type))
    text = _refused(module, PlannerErrorType.INPUT_VALIDATION, of=topology(device=device))
    assert f"the data type of table odd must be one of {trained}: TorchRec trains no other on {device}" in text


def test_pooled_tables_and_sequences_in_one_plan() -> None:
    module = Model(ebc=collection(config("user")), history=sequences(sequence("item", 50_000, features=["seen", "candidate"])))
    made = planner(constraints={"item": ParameterConstraints(pooling_factors=[40.0, 1.0])})
    plan = made.plan(module, [*sharders(), EmbeddingCollectionSharder()])
    assert {path: list(tables) for path, tables in plan.plan.items()} == {"sparse.ebc": ["user"], "sparse.history": ["item"]}
    assert [(option.name, option.is_pooled) for option in made.get_selected_options()] == [("user", True), ("item", False)]
    assert made.last_plan is not None
    assert audit(made.last_plan) == []
    assert [module.pooling for module in made.last_plan.question.model.modules or ()] == ["sum", "none"]


def test_sequences_are_cut_into_pieces_of_one_width() -> None:
    """As wide as TorchRec's own planner cuts them."""
    named = [EmbeddingCollectionSharder()]
    given = {name: ParameterConstraints(sharding_types=["column_wise"], pooling_factors=[40.0]) for name in "ab"}
    made = planner(topology(8), constraints=given)
    plan = made.plan(nn.ModuleDict({"ec": sequences(sequence("a", dim=512), sequence("b", dim=512))}), named)
    widths = {tuple(shard.shard_sizes) for each in shards(plan).values() for shard in each.sharding_spec.shards}
    assert widths == {(1000, 128)}
    assert {len(each.ranks) for each in shards(plan).values()} == {4}
    narrow = planner(topology(8), constraints=given)
    with pytest.raises(PlannerError, match="column_wise where several pieces of min_partition columns, by default 128") as error:
        narrow.plan(nn.ModuleDict({"ec": sequences(sequence("a", dim=64))}), named)
    assert error.value.error_type is PlannerErrorType.STRICT_CONSTRAINTS


def test_info_of_the_constraints_is_passed_through() -> None:
    """What changes neither places nor bytes stands in the plan as it was given."""
    given = ParameterConstraints(
        sharding_types=["table_wise"],
        enforce_hbm=True,
        stochastic_rounding=False,
        bounds_check_mode=BoundsCheckMode.FATAL,
        output_dtype=DataType.FP16,
        feature_names=["a-ids"],
        cache_params=CacheParams(algorithm=CacheAlgorithm.LFU),
    )
    sharding = shards(_plan(model(config("a")), constraints={"a": given}))["a"]
    assert (sharding.enforce_hbm, sharding.stochastic_rounding, sharding.bounds_check_mode) == (True, False, BoundsCheckMode.FATAL)
    assert sharding.output_dtype is DataType.FP16
    assert sharding.cache_params.algorithm is CacheAlgorithm.LFU


def test_a_cache_gets_the_load_factor_of_the_plan() -> None:
    given = ParameterConstraints(compute_kernels=["fused_uvm_caching"], cache_params=CacheParams(algorithm=CacheAlgorithm.LFU))
    made = planner(constraints={"a": given})
    sharding = shards(made.plan(model(config("a")), sharders()))["a"]
    assert made.last_plan is not None
    assert sharding.cache_params.load_factor == made.last_plan.tables[0].cache_load_factor is not None
    assert sharding.cache_params.algorithm is CacheAlgorithm.LFU


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"sharding_types": ["by_row"]}, "/a/sharding_types: must be some of table_wise"),
        ({"compute_kernels": ["key_value"]}, "/a/compute_kernels: Emplace knows fused"),
        ({"pooling_factors": [1.0, 2.0]}, "/a/pooling_factors: must have one factor for each of the 1 features"),
        ({"pooling_factors": [-1.0]}, "/a/pooling_factors: must be numbers that are not negative"),
        ({"num_poolings": [2.0]}, "/a/num_poolings: Emplace counts one pooling"),
        ({"batch_sizes": [63]}, r"/a/batch_sizes: Emplace counts the planner's batch_size \(64\)"),
        ({"cache_params": CacheParams(load_factor=0.1)}, "/a/cache_params: Emplace chooses the load factor"),
        ({"device_group": "cpu"}, "/a/device_group: all tables of a plan are on the topology's device, cuda"),
        ({"use_virtual_table": True}, "/a/use_virtual_table: Emplace knows no virtual tables"),
    ],
)
def test_what_can_not_be_honoured_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(PlannerError, match=f"constraints: {named}") as error:
        _plan(model(config("a")), constraints={"a": ParameterConstraints(**given)})
    assert error.value.error_type is PlannerErrorType.INPUT_VALIDATION


@pytest.mark.parametrize(
    "given",
    [
        {"batch_sizes": [64], "num_poolings": [1.0]},
        {"cache_params": CacheParams(load_factor=0.1), "compute_kernels": ["fused"]},
        {"device_group": "cuda", "is_weighted": True},
        {"min_partition": 32},
    ],
)
def test_what_says_what_emplace_counts_anyway_is_taken(given: dict[str, Any]) -> None:
    assert list(shards(_plan(model(config("a")), constraints={"a": ParameterConstraints(**given)}))) == ["a"]


@pytest.mark.parametrize(
    "given",
    [
        {"sharding_types": ["row_wise"]},
        {"sharding_types": ["table_wise"], "compute_kernels": ["dense"]},
        {"sharding_types": ["data_parallel"], "compute_kernels": ["fused"]},
        {"compute_kernels": ["fused_uvm"]},
        {"sharding_types": ["column_wise"], "min_partition": 8},
    ],
)
def test_constraints_that_contradict_each_other_or_the_sharder(given: dict[str, Any]) -> None:
    """On CPUs the sharder offers neither row_wise nor UVM."""
    constraints = {"a": ParameterConstraints(**given)}
    text = _refused(model(config("a")), PlannerErrorType.STRICT_CONSTRAINTS, constraints=constraints, of=topology(device="cpu"))
    assert "constraints: /a: leaves the table no way to be sharded" in text
    assert "EmbeddingBagCollectionSharder offers on cpu: data_parallel, table_wise" in text


def test_columns_are_not_cut_where_a_least_width_is_asked_for() -> None:
    given = {"a": ParameterConstraints(min_partition=32)}
    made = planner(constraints=given)
    made.plan(model(config("a", 4000, 64)), sharders())
    assert made.last_plan is not None
    types = made.last_plan.question.model.tables[0].constraints.sharding_types
    assert types == ("table_wise", "row_wise", "table_row_wise", "data_parallel")


def test_arguments_stand_where_torchrecs_planner_has_them() -> None:
    """So that they may be given by place. TorchRec's main of August 2026 has the names of 1.8, in the same order."""
    theirs, ours = (list(inspect.signature(kind).parameters) for kind in (EmbeddingShardingPlanner, EmplaceShardingPlanner))
    assert ours[: len(theirs)] == theirs
    methods = ["plan", "collective_plan"]
    assert [list(inspect.signature(getattr(EmplaceShardingPlanner, each)).parameters) for each in methods] == [
        list(inspect.signature(getattr(EmbeddingShardingPlanner, each)).parameters) for each in methods
    ]
    made = EmplaceShardingPlanner(topology(), 64, None, None, None, None, None, [])
    assert list(shards(made.plan(model(config("a")), sharders()))) == ["a"]
    assert made.get_search_space() is None


def test_what_is_known_of_constraints_is_all_that_torchrec_has() -> None:
    """One that is not in here is neither kept, passed on nor refused. TorchRec's main of August 2026 has those of 1.8."""
    known = {
        "sharding_types", "compute_kernels", "min_partition", "pooling_factors", "num_poolings", "batch_sizes", "is_weighted", "cache_params",
        "enforce_hbm", "stochastic_rounding", "bounds_check_mode", "feature_names", "output_dtype", "device_group", "key_value_params",
        "use_virtual_table",
    }  # fmt: skip
    assert {field.name for field in fields(ParameterConstraints)} == known


@pytest.mark.parametrize("name", ["enumerator", "proposer", "partitioner", "performance_model", "plan_loader"])
def test_parts_of_torchrecs_search_are_refused_by_name(name: str) -> None:
    assert list(shards(_plan(model(config("a")), **{name: None}))) == ["a"]
    with pytest.raises(PlannerError, match=f"can't honour\n  - {name}: a part of TorchRec's search"):
        planner(**{name: object()})


def test_arguments_that_nobody_takes() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        planner(batchsize=3)
    with pytest.raises(PlannerError, match="options: ranks follows from the topology"):
        planner(options={"ranks": 3})
    with pytest.raises(PlannerError, match="timeout_seconds: must be above 0, it is 0"):
        planner(timeout_seconds=0)
    with pytest.raises(PlannerError, match="neither a topology nor a process group"):
        EmplaceShardingPlanner()


@pytest.mark.parametrize(
    ("of", "named"),
    [
        ({"world_size": 3, "local_world_size": 2}, r"/world_size: must be a multiple of local_world_size \(2\)"),
        ({"device": "mtia"}, "/compute_device: must be cuda or cpu"),
    ],
)
def test_topologies_that_emplace_can_not_plan_for(of: dict[str, Any], named: str) -> None:
    with pytest.raises(PlannerError, match=f"topology: {named}") as error:
        _plan(model(config("a")), of=topology(**of))
    assert error.value.error_type is PlannerErrorType.INPUT_VALIDATION


def test_the_host_is_the_topology_s_figures() -> None:
    made = planner(topology(4, local_world_size=2, hbm_cap=40 * GIB, ddr_cap=100 * GIB, inter_host_bw=1e6, hbm_mem_bw=2e9))
    made.plan(model(config("a")), sharders())
    assert made.last_plan is not None
    host = made.last_plan.question.host
    [device] = host.node.devices
    assert (host.nodes, device.count, device.hbm_capacity, device.hbm_reserve) == (2, 2, 40 * GIB, 2 * GIB)
    assert (host.node.ddr_capacity, host.node.ddr_reserve) == (200 * GIB, 200 * GIB // 16)
    assert (device.memory_bandwidth, host.node.network) == (2e12, 2e9)  # bytes a ms; a port a rank


def test_a_host_that_is_named_stands_in_for_the_topology_s_figures() -> None:
    made = planner(topology(8), host="dgx-h100")
    made.plan(model(config("a")), sharders())
    assert made.last_plan is not None
    assert made.last_plan.host.name == "dgx-h100"
    assert len(made.last_plan.ranks) == 8
    assert "must have devices of the topology's type, cpu" in _refused(
        model(config("a")), PlannerErrorType.INPUT_VALIDATION, of=topology(device="cpu"), host="dgx-h100"
    )


class Recorder(Stats):  # type: ignore[misc]
    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def log(self, **arguments: Any) -> None:
        self.seen = arguments


def test_stats_and_callbacks_get_torchrecs_options_with_emplaces_bytes() -> None:
    recorder, called = Recorder(), []

    def callback(options: list[ShardingOption]) -> list[ShardingOption]:
        called.append(len(options))
        return options

    made = planner(stats=recorder, callbacks=[callback])
    plan = made.plan(model(config("a"), config("b")), sharders())
    assert called == [2]
    assert recorder.seen["sharding_plan"] is plan
    held: dict[int, int] = defaultdict(int)
    for option in recorder.seen["best_plan"]:
        for shard in option.shards:
            held[shard.rank] += shard.storage.hbm
            assert shard.perf.total > 0
    assert made.last_plan is not None
    assert held == {
        rank: sum(shard.hbm_bytes for table in made.last_plan.tables for shard in table.shards if shard.rank == rank) for rank in held
    }
    assert made.get_selected_options() == recorder.seen["best_plan"]


def test_torchrecs_report_is_printed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="torchrec.distributed.planner.stats"):
        EmplaceShardingPlanner(topology(), batch_size=64, options={"work_limit": 0.5}).plan(model(config("a")), sharders())
    assert "--- Planner Statistics ---" in caplog.text
    assert "sparse.ebc.a" in caplog.text


def test_constraints_for_a_table_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    _plan(model(config("a")), constraints={"b": ParameterConstraints()})
    assert "constraints name tables that no sharded module has: b" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "time_limit", "work_limit"),
    [
        ({"options": None, "timeout_seconds": 2}, 2.0, None),
        ({"options": None}, 2.51, None),
        ({"options": {"work_limit": 0.5}}, None, 0.5),
        ({"options": {"work_limit": 0.5}, "timeout_seconds": 2}, 2.0, 0.5),
    ],
)
def test_limits_of_the_solve(arguments: dict[str, Any], time_limit: float | None, work_limit: float | None) -> None:
    made = planner(**arguments)
    made.plan(model(config("a")), sharders())
    assert made.last_plan is not None
    assert (made.last_plan.question.options.time_limit, made.last_plan.question.options.work_limit) == (time_limit, work_limit)


def test_a_rank_that_is_not_in_the_group(tmp_path: Path) -> None:
    """torch gives it a number in place of the group."""
    outside: Any = dist.GroupMember.NON_GROUP_MEMBER
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.raises(PlannerError, match="rank 0 is not in the process group: call collective_plan on the ranks of the group"):
            planner(topology(1)).collective_plan(model(config("a")), sharders(), outside)
    finally:
        dist.destroy_process_group()


def test_a_service_that_does_not_answer() -> None:
    text = _refused(model(config("a")), PlannerErrorType.OTHER, server="http://127.0.0.1:9")
    assert text.startswith("http://127.0.0.1:9: ")
    with pytest.raises(PlannerError, match="server, plan_file"):
        planner(server="http://127.0.0.1:9", plan_file=Path("plan.json"))
