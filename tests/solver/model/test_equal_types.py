"""A sharding type is left out only where no plan needs it."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.host import HostSpec
from emplace.placement.model import ShardingType, Tier
from emplace.placement.plan import Question
from emplace.solver.model.build import price
from tests.solver.questions import gpu_host, question, table

S = ShardingType
ANY: dict[str, Any] = {"constraints": {}}


def offered(asked: Question) -> set[ShardingType]:
    found = price(asked, asked.topology(with_servers=False), frozenset({Tier.HBM}))
    return {found.layouts[index].sharding_type for index in found.option_layout if index >= 0}


def asked_on(host: HostSpec, *tables: dict[str, Any], **prices: Any) -> Question:
    asked = question(host, [table(f"t{number}", 64_000, 64, **each) for number, each in enumerate(tables)])
    return asked.model_copy(update={"cost_model": asked.cost_model.model_copy(update=prices)})


def only(*types: ShardingType) -> dict[str, Any]:
    return {"constraints": {"sharding_types": [str(each) for each in types]}}


@pytest.mark.parametrize(
    ("host", "left_out"),
    [
        (gpu_host(1), {S.ROW_WISE, S.TABLE_ROW_WISE}),
        (gpu_host(2), {S.TABLE_ROW_WISE, S.TABLE_COLUMN_WISE}),
        (gpu_host(1, other_kind={}), {S.TABLE_ROW_WISE}),
        (gpu_host(1, nodes=2), {S.TABLE_ROW_WISE, S.GRID_SHARD}),
        (gpu_host(2, nodes=2), set()),
    ],
    ids=["one device", "one node", "a node of two kinds", "a device a node", "several"],
)
def test_on_a_small_target_types_do_the_same(host: HostSpec, left_out: set[ShardingType]) -> None:
    assert not left_out & offered(asked_on(host, ANY))
    for kind in left_out:
        assert kind in offered(asked_on(host, ANY, only(kind)))


def test_a_pin_keeps_its_type() -> None:
    pinned = {"constraints": {"pin": {"sharding_type": "table_row_wise", "ranks": [0, 1]}}}
    assert S.TABLE_ROW_WISE in offered(asked_on(gpu_host(2), ANY, pinned))


def test_the_simpler_type_must_not_cost_more() -> None:
    dearer = {S.ROW_WISE: 5.0, S.TABLE_ROW_WISE: 1.0}
    assert S.TABLE_ROW_WISE in offered(asked_on(gpu_host(2), ANY, sharding_type_us=dearer))
    assert S.TABLE_ROW_WISE not in offered(asked_on(gpu_host(2), ANY, sharding_type_us={S.ROW_WISE: 1.0, S.TABLE_ROW_WISE: 5.0}))


def test_its_collectives_must_not_be_slower() -> None:
    host = gpu_host(1, nodes=2)
    slower = asked_on(host, ANY).cost_model.all_to_all.model_copy(update={"per_inter_node_byte_us": 1.0})
    assert {S.TABLE_ROW_WISE, S.GRID_SHARD} <= offered(asked_on(host, ANY, all_to_all=slower))
