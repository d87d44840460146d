"""The dense part of a model, forward and backward, without the tables and the loss around it."""

from __future__ import annotations

import torch

from emplace.profiler.design.point_models import dense_model
from emplace.profiler.design.points import DensePoint
from emplace.runtime.dlrm import DenseLayers


class DenseExercise:
    """The layers of one point. The backward makes the gradients of their parameters and of the pooled vectors."""

    def __init__(self, point: DensePoint, device: torch.device) -> None:
        spec = dense_model(point)
        self._part = DenseLayers(spec).to(device)
        self._input = torch.rand(point.batch, spec.dense_features, device=device)
        self._pooled = torch.rand(point.batch, point.features * point.columns, device=device, requires_grad=True)
        self._columns = point.columns
        self._output = torch.empty(0)

    def prepare(self, repetition: int) -> None:
        del repetition
        self._part.zero_grad(set_to_none=True)
        self._pooled.grad = None

    def forward(self) -> None:
        vectors = dict(zip(self._part.features, torch.split(self._pooled, self._columns, dim=1), strict=True))
        self._output = self._part(self._input, vectors).sum()

    def backward(self) -> None:
        torch.autograd.backward(self._output)
