"""TorchRec's DLRM on Criteo Terabyte, 8 A100: four steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.published.points import Point, data
from benchmarks.published.prediction import host_of, predicted_ms, question_of

NAME, STACK = "torchrec_dlrm_a100_measured", "torchrec-eager-inline-reader"
ZIPF = 1.05
"""Assumed of Criteo's ids."""


def points() -> Iterator[Point]:
    """One for each row of the publication."""
    facts = data(NAME)
    host = host_of("dgx-a100-40g", 1)
    for row in facts["rows"]:
        question = question_of(_model(facts, row), host, STACK, row["gpus"])
        what = f"batch {row['local_batch']:,} of each of {row['gpus']}, {row['interaction']}, {row['opt']}"
        yield Point(NAME, what, STACK, 1e3 / row["batches_per_s"], *predicted_ms(question))


def _model(facts: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    access = {"zipf": ZIPF}
    tables = [
        {"name": f"t{n}", "num_embeddings": rows, "embedding_dim": facts["embedding_dim"], "access": access}
        | {"features": [{"name": f"f{n}", "length": {"fixed": 1}}]}
        for n, rows in enumerate(facts["table_rows"])
    ]
    return {
        "name": "torchrec-dlrm",
        "local_batch_size": row["local_batch"],
        "dense_features": facts["dense_features"],
        "bottom_mlp": facts["bottom_mlp"],
        "top_mlp": facts["top_mlp"],
        "interaction": row["interaction"],
        "optimizer": row["opt"].lower(),
        "tables": tables,
    } | ({"dcn": facts["dcn"]} if row["interaction"] == "dcn" else {})
