"""Nothing that is accepted overflows 64 bits, however large its numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emplace.placement.audit import audit
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import MAX_RANKS, HostSpec
from emplace.placement.lengths import MAX_LENGTH
from emplace.placement.model import DataType, ModelSpec, Optimizer
from emplace.placement.plan import PlanOptions, Question
from emplace.solver.model.build import price_bytes
from emplace.solver.model.indexing import devices_covered, unit_option
from emplace.solver.solve import solve_question
from tests.placement.example_models import gpu_host_data, model_data
from tests.prices import bandwidth_prices

LARGEST = {"num_embeddings": 10**12, "embedding_dim": 65_536}
ROW_TYPES = [DataType.FP32, DataType.FP16, DataType.INT8]


def asked(table: dict[str, Any], *, batch: int, trainers: int, **changes: Any) -> Question:
    """About one table, on a host with as much memory as can be stated."""
    host = gpu_host_data(nodes=trainers)
    host["node"]["devices"][0] |= {"count": 1, "hbm_capacity": "128TiB"}
    host["node"]["ddr_capacity"] = host["remote_servers"]["ddr_capacity"] = "128TiB"
    features = [{"name": f"f{number}", "length": {"fixed": MAX_LENGTH}} for number in range(table.pop("features"))]
    data = model_data(local_batch_size=batch, tables=[table | {"name": "t", "features": features}], **changes)
    spec = HostSpec.model_validate(host)
    options = PlanOptions(work_limit=0.1)
    return Question(model=ModelSpec.model_validate(data), host=spec, cost_model=bandwidth_prices(spec), options=options)


def is_counted(question: Question) -> bool:
    try:
        question.topology(with_servers=True)
    except InvalidDocument:
        return False
    return True


@pytest.mark.parametrize("optimizer", Optimizer)
@pytest.mark.parametrize("data_type", ROW_TYPES)
@pytest.mark.parametrize(("dim", "batch", "trainers"), [(4, 1, 1), (4, 10_000_000, 64), (65_536, 1, 8), (128, 2_048, 256)])
def test_the_largest_table_that_is_counted_does_not_overflow(
    optimizer: Optimizer, data_type: DataType, dim: int, batch: int, trainers: int
) -> None:
    fewest, most = 0, 10**12 + 1
    table = {"embedding_dim": dim, "data_type": data_type, "features": 1}

    def question(rows: int) -> Question:
        return asked(table | {"num_embeddings": rows}, batch=batch, trainers=trainers, optimizer=optimizer)

    while most - fewest > 1:
        middle = (fewest + most) // 2
        fewest, most = (middle, most) if is_counted(question(middle)) else (fewest, middle)
    largest = question(fewest)
    problem = price_bytes(largest, largest.topology(with_servers=True), largest.allowed_tiers).problem
    units = [(problem.unit_hbm_bytes, problem.hbm_capacity), (problem.unit_ddr_bytes, problem.ddr_capacity)]
    for unit_bytes, capacity in units:
        assert unit_bytes.dtype == capacity.dtype == np.int64
        assert unit_bytes.min() >= 0
        assert (devices_covered(problem)[unit_option(problem)].astype(object) * unit_bytes.astype(object)).sum(axis=1).max() < 2**63
        assert sum(capacity.tolist()) < 2**63


@pytest.mark.parametrize("largest", ["num_embeddings", "embedding_dim", "batch", "trainers", "features"])
def test_each_number_may_be_as_large_as_it_gets(largest: str) -> None:
    """Beside small ones: answered, and the audit agrees."""
    sizes = {"num_embeddings": 1_000, "embedding_dim": 8, "features": 1}
    most = LARGEST | {"features": 2_000}
    table = sizes | {key: value for key, value in most.items() if key == largest}
    question = asked(table, batch=10_000_000 if largest == "batch" else 1, trainers=512 if largest == "trainers" else 2)
    assert is_counted(question)
    assert audit(solve_question(question)) == []


def test_all_of_them_at_once_are_refused() -> None:
    with pytest.raises(InvalidDocument, match=r"model: /tables: must come to at most 2\^62 bytes .* 16386 ranks .* \(got about .* bytes\)"):
        asked(LARGEST | {"features": 8}, batch=10_000_000, trainers=MAX_RANKS).topology(with_servers=True)


def test_the_memory_of_the_largest_host_adds_up() -> None:
    question = asked({"num_embeddings": 10, "embedding_dim": 4, "features": 1}, batch=1, trainers=MAX_RANKS)
    topology = question.topology(with_servers=True)
    assert sum(topology.node_ddr_capacity_bytes) + sum(rank.hbm_capacity_bytes for rank in topology.ranks) < 2**63
    servers = question.host.remote_servers
    assert servers is not None
    assert (servers.ddr_capacity - servers.ddr_reserve) * MAX_RANKS + sum(topology.node_ddr_capacity_bytes) < 2**63
