"""Emplace's bytes and times in TorchRec's own planner: the plans that it makes with them are sound, and priced as Emplace prices them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation

from emplace.placement.audit import audit
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.derived_loads import derive_loads
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question, Shard, TablePlacement
from emplace.placement.stages import sharding_type_stages_us
from emplace.torchrec import EmplacePerfEstimator, EmplaceStorageEstimator, describe
from emplace.torchrec.hosts import host_of
from tests.torchrec.models import Model, collection, config, sharders, topology

pytestmark = pytest.mark.torch

MODULE = Model(
    left=collection(config("a", 300_000, 64), config("b", 5_000, 32, ["x", "y"]), config("c", 40)),
    right=collection(config("a", 90_000, 16, ["z"])),
)
CONSTRAINTS = {
    "a": ParameterConstraints(sharding_types=["column_wise", "row_wise", "table_row_wise"], min_partition=16),
    "b": ParameterConstraints(compute_kernels=["fused", "fused_uvm_caching"], pooling_factors=[20.0, 2.5]),
    "c": ParameterConstraints(sharding_types=["data_parallel"]),
}


@pytest.fixture(scope="module")
def of() -> Topology:
    return topology(4, local_world_size=2)


@pytest.fixture(scope="module")
def model() -> ModelSpec:
    given = {name: ParameterConstraints(pooling_factors=each.pooling_factors) for name, each in CONSTRAINTS.items()}
    return describe(MODULE, sharders(), batch_size=64, constraints=given)


def _enumerator(of: Topology, model: ModelSpec, **arguments: Any) -> EmbeddingEnumerator:
    pair = [kind(of, model=model, **arguments) for kind in (EmplacePerfEstimator, EmplaceStorageEstimator)]
    return EmbeddingEnumerator(of, batch_size=64, constraints=CONSTRAINTS, estimator=pair)


def _planned(module: nn.Module, of: Topology, enumerator: EmbeddingEnumerator) -> list[Any]:
    """The options that TorchRec's planner chose."""
    chosen: list[Any] = []

    def keep(options: list[Any]) -> list[Any]:
        chosen.extend(options)
        return options

    planner = EmbeddingShardingPlanner(
        of,
        batch_size=64,
        enumerator=enumerator,
        constraints=CONSTRAINTS,
        storage_reservation=FixedPercentageStorageReservation(0.1),
        stats=[],
        callbacks=[keep],
    )
    plan = planner.plan(module, sharders())
    assert {path: set(tables) for path, tables in plan.plan.items()} == {"sparse.left": {"a", "b", "c"}, "sparse.right": {"a"}}
    return chosen


def _as_plan(options: list[Any], model: ModelSpec, question: Question) -> Plan:
    """Emplace's plan of the same placement."""
    names = {("sparse.left", "a"): "sparse:left:a", ("sparse.right", "a"): "sparse:right:a"}
    placed = {names.get((option.path, option.name), option.name): option for option in options}
    placements = tuple(
        TablePlacement(
            name=table.name,
            sharding_type=option.sharding_type,
            compute_kernel=option.compute_kernel,
            cache_load_factor=0.2 if option.compute_kernel == "fused_uvm_caching" else None,
            shards=tuple(
                Shard(rank=each.rank, rows=(row, row + rows), columns=(column, column + columns), hbm_bytes=0, ddr_bytes=0)
                for each in option.shards
                for (row, column), (rows, columns) in [(each.offset, each.size)]
            ),
        )
        for table in model.tables
        for option in [placed[table.name]]
    )
    return derive_plan(question, placements, question.topology(with_servers=False), imported_record(question, "test"))


def test_torchrecs_plan_has_emplaces_times_and_bytes(of: Topology, model: ModelSpec) -> None:
    host = host_of(of, is_reserved=True)
    question = Question(model=model, host=host, cost_model=datasheet_cost_model(host), options=PlanOptions(nodes=2, ranks=4))
    options = _planned(MODULE, of, _enumerator(of, model))
    plan = _as_plan(options, model, question)
    assert audit(plan) == []
    placed = {(option.name, tuple(option.tensor.shape)): option for option in options}
    for table, entry in zip(plan.tables, model.tables, strict=True):
        option = placed[entry.name.split(":")[-1], (entry.num_embeddings, entry.embedding_dim)]
        assert [(each.storage.hbm, each.storage.ddr) for each in option.shards] == [(s.hbm_bytes, s.ddr_bytes) for s in table.shards]
    ranks = question.topology(with_servers=False)
    loads = derive_loads(question, plan.tables, ranks)
    types = dict.fromkeys(table.sharding_type for table in plan.tables)
    fixed = sum(sum(sharding_type_stages_us(question.cost_model, kind, ranks).values()) for kind in types)
    constant = derive_loads(question, (), ranks).stages_us.sum(axis=1)
    perf_us = np.zeros(4)
    for option in options:
        for shard in option.shards:
            perf_us[shard.rank] += shard.perf.total * 1000
    assert perf_us == pytest.approx(loads.stages_us.sum(axis=1) - constant - fixed)


def test_a_cost_model_of_ones_own(of: Topology, model: ModelSpec) -> None:
    """One that asks a microsecond more for each bag that is exchanged."""
    named = datasheet_cost_model(host_of(of, is_reserved=True))
    slower = named.model_copy(update={"per_exchanged_bag_us": named.per_exchanged_bag_us + 1.0})
    [first], [second] = ([_enumerator(of, model, cost_model=each).enumerate(MODULE, sharders())[0]] for each in (named, slower))
    assert second.shards[0].perf.fwd_comms > first.shards[0].perf.fwd_comms
    assert second.shards[0].perf.fwd_compute == first.shards[0].perf.fwd_compute


def test_options_that_emplace_can_not_price(of: Topology, model: ModelSpec) -> None:
    with pytest.raises(InvalidDocument, match="/batch_size: must be the model's, 64"):
        EmbeddingEnumerator(of, batch_size=65, estimator=EmplacePerfEstimator(of, model=model)).enumerate(MODULE, sharders())
    other = describe(Model(ebc=collection(config("other"))), batch_size=64)
    with pytest.raises(InvalidDocument, match="is no table of the model Model"):
        _enumerator(of, other).enumerate(MODULE, sharders())
    with pytest.raises(InvalidDocument, match="/constraints: are in the model"):
        EmplaceStorageEstimator(of, CONSTRAINTS, model=model)
    with pytest.raises(InvalidDocument, match="/host_name: is for another host"):
        EmplacePerfEstimator(of, model=model, host="dgx-h100", cost_model=datasheet_cost_model(host_of(of, is_reserved=True)))


def test_kernels_that_a_device_can_not_run() -> None:
    """FBGEMM has no fused Adam on CPUs."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    on_cpu, module, adam = topology(device="cpu"), Model(ebc=collection(config("a"))), sharders(optimizer=EmbOptimType.ADAM)
    estimator = EmplaceStorageEstimator(on_cpu, model=describe(module, adam, batch_size=64, compute_device="cpu"))
    with pytest.raises(InvalidDocument, match=r"/compute_kernel: FBGEMM has no fused adam on CPU.*; shut it out of a by constraints"):
        EmbeddingEnumerator(on_cpu, batch_size=64, estimator=estimator).enumerate(module, adam)
