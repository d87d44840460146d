"""Small questions, and one that keeps a solver busy until it is stopped."""

from __future__ import annotations

from typing import Any

from emplace.placement.catalog import builtin_host
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question
from tests.prices import bandwidth_prices


def model_data(tables: int = 3, **changes: Any) -> dict[str, Any]:
    """A model of a few MiB that fits any host."""
    data = {
        "schema_version": 1,
        "name": "small",
        "local_batch_size": 64,
        "dense_features": 4,
        "bottom_mlp": [16, 8],
        "top_mlp": [16, 1],
        "interaction": "cat",
        "tables": [
            {
                "name": f"table_{index}",
                "num_embeddings": 1000 * (index + 1),
                "embedding_dim": 8,
                "features": [{"name": f"feature_{index}", "length": {"fixed": index % 3 + 1}}],
            }
            for index in range(tables)
        ],
    }
    return data | changes


def busy_model_data() -> dict[str, Any]:
    """Tight and irregular, with steps longer than launches and input take: no solver proves its plan optimal within minutes."""
    tables = [
        {
            "name": f"table_{index}",
            "num_embeddings": 900_000 + 7919 * (index * index % 211),
            "embedding_dim": (32, 64, 96, 128)[index % 4],
            "features": [{"name": f"feature_{index}", "length": {"fixed": 2 + index * 13 % 47 * 2}}],
        }
        for index in range(300)
    ]
    return model_data(name="busy", local_batch_size=4096, tables=0) | {"tables": tables}


BUSY_OPTIONS = {"work_limit": 600, "gap": 0.0}
BUSY_HOST = "dgx-a100-80g"


def busy_question() -> Question:
    host = builtin_host(BUSY_HOST)
    return Question(
        model=ModelSpec.model_validate(busy_model_data()),
        host=host,
        cost_model=bandwidth_prices(host),
        options=PlanOptions.model_validate(BUSY_OPTIONS),
    )


QUICK_OPTIONS = {"work_limit": 2.0}
"""A fifth of the default still proves the small model's plan optimal."""


def a_host() -> HostSpec:
    return builtin_host("cpu-dual-socket")


def a_question(seed: int = 0) -> Question:
    host = a_host()
    model = ModelSpec.model_validate(model_data())
    return Question(
        model=model, host=host, cost_model=bandwidth_prices(host), options=PlanOptions.model_validate(QUICK_OPTIONS | {"seed": seed})
    )
