"""Rounding must not look like a wrong execution."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from emplace.executor.numerics import smoothen
from emplace.runtime.batches import draw_batch
from emplace.runtime.dlrm import Dlrm
from tests.executor.plans import make_model

pytestmark = pytest.mark.torch

ROUNDING = 1e-8


def _gradient(*, smooth: bool, offset: float) -> Tensor:
    """The gradient of the weights behind the first layer's first output, which is `offset` for every example."""
    spec = make_model("kinked")
    torch.manual_seed(0)
    model = Dlrm(spec, torch.device("cpu"))
    if smooth:
        smoothen(model)
    first = model.get_submodule("dense.bottom.0")
    assert isinstance(first, torch.nn.Linear)
    with torch.no_grad():
        first.weight[0] = 0.0
        first.bias[0] = offset
    loss = model.forward(draw_batch(spec, 32, 0, 0, 0))
    loss.backward()  # type: ignore[no-untyped-call]
    assert first.weight.grad is not None
    return first.weight.grad[0]


@pytest.mark.parametrize("smooth", [True, False])
def test_rounding_around_zero_changes_no_gradient_without_kinks(smooth: bool) -> None:
    """The other half shows that it would with ReLU: so the comparison trains neither model with it."""
    above, below = _gradient(smooth=smooth, offset=ROUNDING), _gradient(smooth=smooth, offset=-ROUNDING)
    difference = float((above - below).norm() / above.norm())
    assert difference < 1e-5 if smooth else difference > 0.9


def test_nothing_that_trains_is_lost() -> None:
    model = Dlrm(make_model("kinked"), torch.device("cpu"))
    before = {name: value.shape for name, value in model.state_dict().items()}
    smoothen(model)
    assert {name: value.shape for name, value in model.state_dict().items()} == before
    assert not [layer for layer in model.modules() if isinstance(layer, torch.nn.ReLU)]
