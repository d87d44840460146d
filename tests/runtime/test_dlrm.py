"""The dense layers that run are those that placement counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from emplace.placement.catalog import builtin_model, model_names
from emplace.placement.dense_part import dense_part
from emplace.runtime.batches import draw_batch
from emplace.runtime.dlrm import DenseLayers, Dlrm
from tests.executor.plans import make_model

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", model_names())
def test_parameters_of_every_built_in_model(name: str) -> None:
    spec = builtin_model(name)
    with torch.device("meta"):
        layers = DenseLayers(spec)
    assert sum(parameter.numel() for parameter in layers.parameters()) == dense_part(spec).parameters


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"interaction": "cat"},
        {"interaction": "dcn", "dcn": {"num_layers": 2, "low_rank_dim": 4}},
        {"dense_features": 0, "bottom_mlp": []},
    ],
)
def test_every_part_takes_part_in_the_loss(changes: dict[str, Any]) -> None:
    spec = make_model(**changes)
    model = Dlrm(spec, torch.device("cpu"))
    loss = model(draw_batch(spec, 64, 0, 0, 0))
    loss.backward()
    assert loss.shape == ()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_dot_interaction_is_the_products_of_all_pairs() -> None:
    spec = make_model()
    layers = DenseLayers(spec)
    vectors = [torch.randn(3, 16) for _ in range(spec.num_features + 1)]
    joined = layers._dot(vectors[0], vectors)
    pairs = [(vectors[i] * vectors[j]).sum(dim=1) for i in range(len(vectors)) for j in range(i)]
    assert torch.allclose(joined, torch.cat([vectors[0], torch.stack(pairs, dim=1)], dim=1), atol=1e-5)
