"""What moves between two plans, and what TorchRec can't move. That a training goes on as before is in test_collective.py."""

from __future__ import annotations

from typing import Any

import pytest
from torchrec.distributed.sharding_plan import (
    column_wise,
    construct_module_sharding_plan,
    data_parallel,
    row_wise,
    table_row_wise,
    table_wise,
)
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import DataType

from emplace.placement.errors import InvalidDocument
from emplace.torchrec import reshard
from tests.torchrec.models import config, model, sharders

pytestmark = pytest.mark.torch

MODULE: Any = model(config("a", 100, 16), config("b", 50, 32, data_type=DataType.FP16))
[SHARDER] = sharders()


def _plan(a: Any, b: Any) -> ShardingPlan:
    of = {"a": a, "b": b}
    collection = MODULE.sparse["ebc"]
    plan = construct_module_sharding_plan(collection, of, sharder=SHARDER, local_size=2, world_size=4, device_type="cuda")
    return ShardingPlan({"sparse.ebc": plan})


def _tables(rank: int) -> Any:
    return table_wise(rank, compute_kernel="fused")


def _columns(*ranks: int) -> Any:
    return column_wise(list(ranks), compute_kernel="fused")


def test_only_tables_that_move_with_the_bytes_that_do() -> None:
    """100 x 16 fp32 weights; of two halves of 50 x 16 fp16 weights, one."""
    start = _plan(_tables(0), _columns(1, 2))
    assert reshard(MODULE, start, start) == {}
    [(path, (moved_mib, delta))] = reshard(MODULE, start, _plan(_tables(3), _columns(1, 2))).items()
    assert (path, list(delta), moved_mib * 2**20) == ("sparse.ebc", ["a"], 100 * 16 * 4)
    [(moved_mib, delta)] = reshard(MODULE, start, _plan(_tables(0), _columns(1, 3))).values()
    assert (list(delta), moved_mib * 2**20) == (["b"], 50 * 16 * 2)
    assert delta["b"].ranks == [1, 3]


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (_tables(0), _columns(0, 1), "/sparse.ebc/a: sharding_type was table_wise and is column_wise: TorchRec moves shards within one"),
        (_tables(0), table_wise(0, compute_kernel="fused_uvm"), "compute_kernel was fused and is fused_uvm"),
        (table_row_wise(0), table_row_wise(1), "to move shards of table_row_wise, only of table_wise, column_wise"),
        (_columns(0, 1), _columns(0, 1, 2, 3), "is cut into other pieces of columns"),
        (table_wise(0, compute_kernel="dense"), table_wise(1, compute_kernel="dense"), "has the dense kernel"),
    ],
)
def test_what_torchrec_can_not_move(before: Any, after: Any, named: str) -> None:
    with pytest.raises(InvalidDocument, match=named):
        reshard(MODULE, _plan(before, _tables(0)), _plan(after, _tables(0)))


def test_what_stays_where_it_is_may_be_of_any_type() -> None:
    plans = [_plan(_tables(rank), kind) for kind in (row_wise(compute_kernel="fused"), data_parallel()) for rank in (0, 1)]
    assert [list(delta) for _, delta in reshard(MODULE, *plans[:2]).values()] == [["a"]]
    assert [list(delta) for _, delta in reshard(MODULE, *plans[2:]).values()] == [["a"]]


def test_plans_for_other_models() -> None:
    one = _plan(_tables(0), _tables(0))
    with pytest.raises(InvalidDocument, match=r"/sparse.ebc/a: is in one plan only"):
        reshard(MODULE, one, ShardingPlan({}))
