"""NVIDIA's synthetic models on 1 to 128 A100: nine steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.published.points import Point, data
from benchmarks.published.prediction import host_of, predicted_ms, question_of

NAME, STACK = "dgx_a100_synthetic_models", "tensorflow-distributed-embeddings"
GLOBAL_BATCH, ZIPF, GPUS_PER_NODE = 65_536, 1.05, 8


def points() -> Iterator[Point]:
    """One for each model and number of GPUs."""
    facts = data(NAME)
    for name, steps in facts["step_ms"].items():
        for gpus, published_ms in steps.items():
            count = int(gpus)
            host = host_of("dgx-a100-80g", max(count // GPUS_PER_NODE, 1))
            question = question_of(_model(name, facts["models"][name], count), host, STACK, count)
            yield Point(NAME, f"{name} on {gpus}", STACK, published_ms, *predicted_ms(question))


def _model(name: str, facts: dict[str, Any], gpus: int) -> dict[str, Any]:
    mlp, stride = facts["mlp"], facts["interact_stride"] or 1
    # Pooling over the concatenated vectors makes the first layer's input so much narrower; here its output is, for the same weights.
    return {
        "name": name,
        "local_batch_size": GLOBAL_BATCH // gpus,
        "dense_features": facts["dense_features"],
        "bottom_mlp": [],
        "top_mlp": [mlp[0] // stride, *mlp[1:], 1],
        "interaction": "cat",
        "optimizer": "adagrad",
        "tables": list(_tables(facts["groups"])),
    }


def _tables(groups: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A shared table has a feature of each hotness; of the others each has one."""
    for g, group in enumerate(groups):
        for n in range(group["tables"]):
            name = f"g{g}-{n}"
            features = [{"name": f"{name}-{hot}", "length": {"fixed": hot}} for hot in group["hotness"]]
            yield {
                "name": name,
                "num_embeddings": group["rows"],
                "embedding_dim": group["dim"],
                "access": {"zipf": ZIPF},
                "features": features,
                "constraints": {"sharding_types": ["table_wise", "column_wise"], "tiers": ["hbm"]},
            }
