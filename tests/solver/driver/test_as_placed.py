"""An earlier plan's tables as they were, priced by a question that may not allow them any more."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType
from emplace.placement.plan import Question, Shard, TablePlacement
from emplace.solver.driver.as_placed import earlier_placement
from emplace.solver.model.warm_start import Placed
from emplace.solver.solve import solve_question
from tests.solver.questions import gpu_host, question, table

TABLES = [table(f"t{i}", 20_000 + 1000 * i, pooling=10) for i in range(4)]


def asked(tables: list[dict[str, Any]] = TABLES, hbm: str = "64MiB", groups: dict[str, Any] | None = None, **options: Any) -> Question:
    of = question(gpu_host(hbm=hbm, servers=1), tables, **options)
    return of.model_copy(update={"model": ModelSpec.model_validate(of.model.to_data() | (groups or {}))})


def placed(kind: ShardingType = ShardingType.TABLE_WISE) -> Placed:
    """Whole tables: t0 and t1 on rank 0, t2 and t3 on rank 1."""
    found = {}
    for index, each in enumerate(TABLES):
        shard = Shard(rank=index // 2, rows=(0, each["num_embeddings"]), columns=(0, 32), hbm_bytes=0, ddr_bytes=0)
        found[each["name"]] = TablePlacement(
            name=each["name"], sharding_type=kind, compute_kernel=ComputeKernel.FUSED, cache_load_factor=None, shards=(shard,)
        )
    return found


def test_what_is_still_allowed_stays_as_it_was_and_costs_what_it_does() -> None:
    pins = [
        {"constraints": {"pin": {"sharding_type": "table_wise", "compute_kernel": "fused", "ranks": [index // 2]}}} for index in range(4)
    ]
    pinned = solve_question(asked([one | pin for one, pin in zip(TABLES, pins, strict=True)]))
    for of in (asked(), asked(tiers=["hbm"]), asked(groups={"together": [["t0", "t1"]], "apart": [["t1", "t2"]]})):
        found = earlier_placement(of, placed())
        assert found is not None
        assert found.tables == pinned.tables
        assert found.step_time_us == pytest.approx(pinned.step_time_us, rel=1e-12)
    fewer = earlier_placement(asked(TABLES[1:]), placed())
    assert fewer is not None
    assert [table.name for table in fewer.tables] == ["t1", "t2", "t3"]


def test_what_is_new_or_not_allowed_any_more_is_no_answer() -> None:
    for of in (
        asked([*TABLES, table("new", 1000)]),
        asked([table("t0", 30_000, pooling=10), *TABLES[1:]]),
        asked([TABLES[0] | {"constraints": {"ranks": [1]}}, *TABLES[1:]]),
        asked(tiers=["ddr"]),
        asked(hbm="5MiB"),
        asked(groups={"together": [["t1", "t2"]]}),
        asked(groups={"apart": [["t0", "t1"]]}),
    ):
        assert earlier_placement(of, placed()) is None


def test_what_is_kept_together_is_table_wise() -> None:
    columns = placed(ShardingType.COLUMN_WISE)
    assert earlier_placement(asked(), columns) is not None
    assert earlier_placement(asked(groups={"together": [["t0", "t1"]]}), columns) is None
