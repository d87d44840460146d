"""Dense layers, forward and backward: linear layers with ReLU, and the pairwise dot products of a DLRM."""

from __future__ import annotations

from itertools import pairwise

import torch

from profiler.points import DensePoint


class DenseExercise:
    """The layers of one point, with their parameters' gradients and that of the dot products' input."""

    def __init__(self, point: DensePoint, device: torch.device) -> None:
        layers = [layer for inputs, outputs in pairwise(point.widths) for layer in (torch.nn.Linear(inputs, outputs), torch.nn.ReLU())]
        self._layers = torch.nn.Sequential(*layers).to(device)
        self._input = torch.rand(point.batch, point.widths[0], device=device)
        self._vectors = torch.rand(point.batch, point.vectors, point.vector_width, device=device, requires_grad=True)
        self._pairs = torch.triu_indices(point.vectors, point.vectors, 1, device=device)
        self._output = torch.empty(0)

    def prepare(self, repetition: int) -> None:
        del repetition
        self._layers.zero_grad(set_to_none=True)
        self._vectors.grad = None

    def forward(self) -> None:
        output = self._layers(self._input)
        if self._vectors.shape[1]:
            products = torch.bmm(self._vectors, self._vectors.transpose(1, 2))
            output = torch.cat((output, products[:, self._pairs[0], self._pairs[1]]), dim=1)
        self._output = output.sum()

    def backward(self) -> None:
        torch.autograd.backward(self._output)
