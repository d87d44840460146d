"""The scaled-down copy keeps everything but the number of rows."""

from __future__ import annotations

from emplace.executor.scaled import scaled_plan
from emplace.placement.host import HostSpec
from tests.executor.plans import blocks, build_plan, grid_layouts, make_model


def test_layout_is_kept(here: HostSpec) -> None:
    model = make_model()
    plan = build_plan(model, here, grid_layouts(model), ranks=4, nodes=2)
    small = scaled_plan(plan, max_rows=1001)
    assert [table.num_embeddings for table in small.question.model.tables] == [1001, 1001, 1001, 37, 1000]
    for before, after in zip(plan.tables, small.tables, strict=True):
        assert [(shard.rank, shard.columns) for shard in after.shards] == [(shard.rank, shard.columns) for shard in before.shards]
        assert (after.sharding_type, after.compute_kernel) == (before.sharding_type, before.compute_kernel)


def test_rows_are_cut_where_torchrec_cuts_them(here: HostSpec) -> None:
    model = make_model()
    small = scaled_plan(build_plan(model, here, grid_layouts(model), ranks=4, nodes=2), max_rows=1001)
    tables = {table.name: table for table in small.question.model.tables}
    for placement, count in ((small.tables[0], 2), (small.tables[1], 2), (small.tables[3], 4)):
        for columns in {shard.columns for shard in placement.shards}:
            rows = [shard.rows for shard in placement.shards if shard.columns == columns]
            assert rows == blocks(tables[placement.name], count)


def test_wide_models_get_fewer_rows(here: HostSpec) -> None:
    model = make_model("wide", interaction="cat")
    wide = model.model_copy(update={"tables": tuple(table.model_copy(update={"embedding_dim": 8192}) for table in model.tables)})
    small = scaled_plan(build_plan(wide, here, grid_layouts(wide), ranks=4, nodes=2))
    assert sum(table.num_embeddings * table.embedding_dim * 4 for table in small.question.model.tables) <= 64 * 2**20
