"""The shapes of the dense layers."""

from __future__ import annotations

from emplace.placement.dense_part import dense_part
from tests.placement.example_models import model, model_data


def test_dot_interaction_and_cross_layers() -> None:
    tables = [table | {"embedding_dim": 16} for table in model_data()["tables"]]
    dot = dense_part(model(tables=tables, interaction="dot"))
    # 4 features and the bottom MLP's output: 5 vectors of 16, 10 pairs
    assert dot.top[0] == (16 + 10, 32)
    assert dot.interaction_flops == 2 * 5 * 5 * 16
    cross = dense_part(model(tables=tables, interaction="dcn", dcn={"num_layers": 2, "low_rank_dim": 8}))
    assert cross.cross == ((80, 8), (8, 80)) * 2
    assert cross.top[0] == (80, 32)
