"""The model that a fleet trains: a small DLRM in plain torch, its dense parameters in memory that threads may share."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from emplace.executor.asynchronous.settings import FleetSettings
from emplace.executor.click_task import Examples

_EPSILON = 1e-8
_INITIAL_ACCUMULATOR = 0.01
"""Where Adagrad's state starts: without it the first step of each parameter is as long as the learning rate, whatever its gradient."""


class PooledDlrm(nn.Module):
    """A DLRM above its tables: bottom MLP, concatenation with pooled vectors, top MLP (Naumov et al., arXiv 1906.00091)."""

    def __init__(self, settings: FleetSettings) -> None:
        super().__init__()
        torch.manual_seed(settings.seed)
        layers = settings.layers
        self.bottom = _mlp((settings.dense, *layers))
        self.top = _mlp((layers[-1] + settings.tables * settings.dim, *layers))
        self.last = nn.Linear(layers[-1], 1)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """Logits of examples with these pooled vectors, [examples, tables, dim]."""
        both = torch.cat([self.bottom(dense), pooled.flatten(1)], dim=1)
        return self.last(self.top(both)).squeeze(1)  # type: ignore[no-any-return]  # a module's call is not typed


class DenseModel:
    """A model with parameters and Adagrad's state in one vector, which is a file's memory where threads share it."""

    def __init__(self, settings: FleetSettings, shared: Path | None) -> None:
        self._rate, self._model = settings.learning_rate, PooledDlrm(settings)
        count = sum(each.numel() for each in self._model.parameters())
        memory = torch.empty(2 * count) if shared is None else torch.from_file(str(shared), shared=True, size=2 * count)
        self.parameters, self._state = memory[:count], memory[count:]
        self.gradient = torch.zeros(count)
        # Threads that share it all write the same before any of them starts.
        self.parameters.copy_(torch.cat([each.detach().flatten() for each in self._model.parameters()]))
        self._state.fill_(_INITIAL_ACCUMULATOR)
        start = 0
        for each in self._model.parameters():
            part = slice(start, start + each.numel())
            each.data, each.grad = self.parameters[part].view_as(each), self.gradient[part].view_as(each)
            start = part.stop

    @property
    def values(self) -> NDArray[np.float32]:
        """The parameters, in the same memory."""
        return self.parameters.numpy()

    def learn(self, examples: Examples, pooled: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
        """Mean log loss, and its gradient by the pooled vectors; that by the parameters is in `gradient` then."""
        self.gradient.zero_()
        vectors = torch.from_numpy(pooled).requires_grad_()
        logits = self._model(torch.from_numpy(examples.dense), vectors)
        loss = binary_cross_entropy_with_logits(logits, torch.from_numpy(examples.clicked))
        loss.backward()  # type: ignore[no-untyped-call]
        assert vectors.grad is not None
        of_pooled: NDArray[np.float32] = vectors.grad.numpy()
        return loss.item(), of_pooled

    def update(self) -> None:
        """Adagrad's step by `gradient`, without a lock: what another thread writes meanwhile may be lost (Hogwild)."""
        self._state.addcmul_(self.gradient, self.gradient)
        self.parameters.addcdiv_(self.gradient, self._state.sqrt().add_(_EPSILON), value=-self._rate)

    def predict(self, parameters: NDArray[np.float32], examples: Examples, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits of a click under other parameters, which stay."""
        self.parameters.copy_(torch.from_numpy(parameters))
        with torch.inference_mode():
            logits: NDArray[np.float32] = self._model(torch.from_numpy(examples.dense), torch.from_numpy(pooled)).numpy()
        return logits


class Tables:
    """Embedding tables of a sparse server, one below the other, with row-wise Adagrad."""

    def __init__(self, settings: FleetSettings, held: slice) -> None:
        count = held.stop - held.start
        torch.manual_seed(settings.seed + 1 + held.start)
        self._weights = torch.randn(count * settings.hash, settings.dim) * settings.dim**-0.5 * 0.1
        self._state = torch.full((count * settings.hash,), _INITIAL_ACCUMULATOR / settings.batch)
        self._first_rows = torch.arange(count).mul_(settings.hash)[None, :, None]
        self._rate, self._bag = settings.learning_rate, (count, settings.length)

    def rows(self, ids: NDArray[np.int64]) -> Tensor:
        """Rows of all bags, [examples x tables, length]."""
        return (torch.from_numpy(ids).view(-1, *self._bag) + self._first_rows).flatten(0, 1)

    def pooled(self, rows: Tensor) -> NDArray[np.float32]:
        """The sum of each bag's vectors."""
        vectors: NDArray[np.float32] = nn.functional.embedding_bag(rows, self._weights, mode="sum").numpy()
        return vectors

    def update(self, rows: Tensor, gradient: NDArray[np.float32]) -> None:
        """Row-wise Adagrad's step: each row of a bag has the bag's gradient."""
        of_bags = torch.from_numpy(gradient).view(rows.shape[0], -1)
        squares = of_bags.square().mean(dim=1)
        flat, length = rows.flatten(), rows.shape[1]
        self._state.index_add_(0, flat, squares.repeat_interleave(length))
        steps = of_bags.repeat_interleave(length, dim=0) / self._state[flat].sqrt().add_(_EPSILON)[:, None]
        self._weights.index_add_(0, flat, steps, alpha=-self._rate)


def _mlp(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)
