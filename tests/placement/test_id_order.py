"""How ids lie in a table, and what blocks of its rows take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emplace.placement.audit import audit
from emplace.placement.derived_loads import derive_loads
from emplace.placement.errors import InvalidDocument
from emplace.placement.hashing import hashed_rows
from emplace.placement.id_order import RowShare
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType, Table
from emplace.placement.modules import ONE_MODULE, Module
from emplace.placement.reading import from_data
from emplace.placement.workload import Objective, TableLoad, table_load
from tests.placement.example_models import gpu_host, model, model_data
from tests.placement.naive_plan import naive_plan, row_blocks

ROW_WISE = (ShardingType.ROW_WISE, ComputeKernel.FUSED, None)
ORDERS = st.one_of(
    st.just("hashed"),
    st.just("by_frequency"),
    st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda parts: sum(parts) > 0.1).map(lambda parts: measured(*parts)),
)
ACCESSES = st.one_of(st.just("uniform"), st.floats(0.3, 2.0).map(lambda zipf: {"zipf": zipf}), st.just({"icdf": [[0.1, 0.5], [0.4, 1.0]]}))
SEQUENCE = Module.model_validate({"path": "ec", "pooling": "none"})
SENT_ONCE = Module.model_validate({"path": "ec", "pooling": "none", "index_dedup": True})


def measured(*parts: float) -> dict[str, Any]:
    return {"measured": [part / sum(parts) for part in parts]}


def table(rows: int, access: Any = "uniform", ids: Any = None, length: int = 50) -> Table:
    feature = {"name": "f", "length": {"fixed": length}}
    data = {"name": "t", "num_embeddings": rows, "embedding_dim": 8, "features": [feature], "access": access}
    return Table.model_validate(data | ({} if ids is None else {"ids": ids}))


def blocks(spec: Table, load: TableLoad, count: int) -> RowShare:
    """What each of so many blocks takes."""
    first, end = np.array(row_blocks(spec.num_embeddings, count)).T
    return load.row_share(first, end - first, spec.num_embeddings)


@given(ACCESSES, ORDERS, st.integers(1, 10**7), st.integers(1, 40), st.booleans(), st.sampled_from([ONE_MODULE, SEQUENCE, SENT_ONCE]))
@settings(deadline=None, max_examples=120)
def test_blocks_take_all_of_a_table(access: Any, ids: Any, rows: int, count: int, is_p95: bool, module: Module) -> None:
    spec = table(rows, access, ids)
    load = table_load(spec, 64, 4, Objective.P95 if is_p95 else Objective.MEAN, module)
    for share in blocks(spec, load, count):
        assert share.sum() == pytest.approx(1)
        assert (share >= 0).all()
        if ids == "by_frequency":  # full blocks get ever colder
            assert (np.diff(share[: rows // -(-rows // count)]) <= 1e-9).all()


@pytest.mark.parametrize("dedup", [False, True])
def test_by_frequency_a_block_takes_what_its_rows_do(dedup: bool) -> None:
    rows, alpha, sent = 40, 1.2, 64 * 50
    each = np.arange(1.0, rows + 1) ** -alpha
    each /= each.sum()
    data = model_data(modules=[{"path": "ec", "pooling": "none", "index_dedup": dedup}])
    data["tables"] = [table(rows, {"zipf": alpha}, "by_frequency").to_data() | {"module": "ec"}]
    spec = from_data(data | {"interaction": "cat"}, ModelSpec, source="model")
    load = table_load(spec.tables[0], 64, 4, Objective.MEAN, spec.module_of(spec.tables[0]))
    lookups, unique = blocks(spec.tables[0], load, 4)
    seen = [1 - (1 - each) ** sent, 1 - (1 - each) ** (4 * sent)]
    wanted = seen[0] if dedup else each
    np.testing.assert_allclose(lookups, wanted.reshape(4, 10).sum(axis=1) / wanted.sum())
    np.testing.assert_allclose(unique, seen[1].reshape(4, 10).sum(axis=1) / seen[1].sum())


@pytest.mark.parametrize("dedup", [False, True])
def test_hashed_rows_of_a_sequence_lie_where_they_are_drawn(dedup: bool) -> None:
    """The hottest row takes a fifth of the lookups: whichever block has it is hot. Of pooled tables blocks take their share of the rows."""
    rows, alpha, sent = 400, 1.2, 64 * 50
    each = np.arange(1.0, rows + 1) ** -alpha
    each /= each.sum()
    data = model_data(modules=[{"path": "ec", "pooling": "none", "index_dedup": dedup}, {"path": "ebc"}], interaction="cat")
    data["tables"] = [table(rows, {"zipf": alpha}).to_data() | {"name": name, "module": name} for name in ("ec", "ebc")]
    for number, feature in enumerate(("f", "g")):
        data["tables"][number]["features"][0]["name"] = feature
    spec = from_data(data, ModelSpec, source="model")
    sequence, pooled = (table_load(each, 64, 4, Objective.MEAN, spec.module_of(each)) for each in spec.tables)
    asked = 1 - (1 - each) ** sent if dedup else each
    block = hashed_rows("ec", rows, np.arange(rows)) // 100
    found = blocks(spec.tables[0], sequence, 4)
    np.testing.assert_allclose(found.lookups, [asked[block == number].sum() / asked.sum() for number in range(4)], atol=0.02)
    assert found.lookups.max() > (0.25 if dedup else 0.35)
    np.testing.assert_allclose(found.unique_rows, 0.25, atol=0.02)
    np.testing.assert_allclose(blocks(spec.tables[1], pooled, 4).lookups, 0.25)


def test_where_no_row_is_hot_hashed_blocks_are_alike() -> None:
    data = model_data(modules=[{"path": "ec", "pooling": "none"}], interaction="cat")
    data["tables"] = [table(30).to_data() | {"module": "ec"}]
    spec = from_data(data, ModelSpec, source="model")
    assert table_load(spec.tables[0], 64, 4, Objective.MEAN, spec.module_of(spec.tables[0])).curves is None


def test_measured_parts_are_cut_where_blocks_are() -> None:
    spec = table(1000, {"zipf": 1.05}, {"measured": [0.1, 0.6, 0.1, 0.2]})
    load = table_load(spec, 64, 4, Objective.MEAN)
    np.testing.assert_allclose(blocks(spec, load, 4).lookups, [0.1, 0.6, 0.1, 0.2])
    np.testing.assert_allclose(blocks(spec, load, 8).lookups, [0.05, 0.05, 0.3, 0.3, 0.05, 0.05, 0.1, 0.1])
    even = table(1000, {"zipf": 1.05}, {"measured": [0.25] * 4})
    np.testing.assert_allclose(blocks(even, table_load(even, 64, 4, Objective.MEAN), 4).unique_rows, 0.25)


def test_the_cache_of_a_block_holds_its_hottest_rows() -> None:
    each = np.arange(1.0, 41.0) ** -1.2
    spec = table(40, {"zipf": 1.2}, "by_frequency")
    for first in (0, 10, 30):
        block = each[first : first + 10]
        assert spec.hit_rate(0.3, first, 10) == pytest.approx(block[:3].sum() / block.sum())
    assert table(40, {"zipf": 1.2}).hit_rate(0.3, 10, 10) == pytest.approx(each[:12].sum() / each.sum())


@given(st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None, max_examples=20)
def test_a_hotter_first_block_never_makes_the_slowest_rank_faster(one: float, other: float) -> None:
    def loads(heat: float) -> Any:
        first = 1 / 8 + heat * 7 / 8
        data = model_data()
        for each in data["tables"]:
            each["ids"] = {"measured": [first, *[(1 - first) / 7] * 7]}
        plan = naive_plan(ModelSpec.model_validate(data), gpu_host(), [ROW_WISE] * 3)
        return derive_loads(plan.question, plan.tables, plan.topology())

    cooler, hotter = (loads(heat) for heat in sorted((one, other)))
    assert (hotter.stages_us.max(axis=0) >= cooler.stages_us.max(axis=0) * (1 - 1e-9)).all()
    assert hotter.rank_hbm.max() >= cooler.rank_hbm.max()
    assert hotter.step_time_us >= cooler.step_time_us * (1 - 1e-9)


@pytest.mark.parametrize("kind", [ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE, ShardingType.GRID_SHARD])
@pytest.mark.parametrize("factor", [None, 0.2])
def test_the_audit_counts_hot_blocks_as_shards_one_by_one(kind: ShardingType, factor: float | None) -> None:
    data = model_data()
    for each, ids in zip(data["tables"], ["by_frequency", "by_frequency", measured(1, 5, 2)], strict=True):
        each["ids"] = ids
    kernel = ComputeKernel.FUSED if factor is None else ComputeKernel.FUSED_UVM_CACHING
    plan = naive_plan(ModelSpec.model_validate(data), gpu_host(), [(kind, kernel, factor)] * 3)
    assert [str(each) for each in audit(plan) if "hot_ranks" not in each.where] == []
    even = naive_plan(model(), gpu_host(), [(kind, kernel, factor)] * 3)
    assert [str(each) for each in audit(even.model_copy(update={"question": plan.question})) if "stages_us" in each.where]


def test_hashed_is_what_nothing_said_is() -> None:
    said = model_data()
    for each in said["tables"]:
        each["ids"] = "hashed"
    one, other = (naive_plan(each, gpu_host(), [ROW_WISE] * 3) for each in (model(), ModelSpec.model_validate(said)))
    assert one.ranks == other.ranks
    assert one.tables == other.tables
    assert other.hot_ranks is None
    assert all("ids" not in each for each in model().to_data()["tables"])


@pytest.mark.parametrize(
    ("ids", "rule"),
    [
        ("sorted", "must be hashed, by_frequency or {measured: [share of accesses, ...]}"),
        ({"measured": [0.5, 0.4]}, "must sum to 1, they sum to 0.9"),
        ({"measured": []}, "must"),
        ({"measured": [1.0], "parts": 1}, "must be hashed, by_frequency or {measured"),
    ],
)
def test_what_is_no_order_of_ids_is_refused(ids: Any, rule: str) -> None:
    data = model_data()
    data["tables"][0]["ids"] = ids
    with pytest.raises(InvalidDocument) as refused:
        from_data(data, ModelSpec, source="model")
    assert refused.value.broken_rules[0].pointer.startswith("/tables/0/ids")
    assert rule in refused.value.broken_rules[0].rule
