"""A small DLRM trained on the click task: what quality it reaches with a batch and a learning rate, and how its gradients vary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import torch
from torch import Tensor, nn

from emplace.executor.click_task import ClickTask, Examples, best_entropy, normalised_entropy

_DIM, _WIDTH = 8, 32
_WARM_UP = 0.1


class ClickOptimizer(StrEnum):
    SGD = "sgd"
    ADAGRAD = "adagrad"


@dataclass(frozen=True)
class ClickTraining:
    """One pass over so many examples in batches of `batch`; `seed` draws the examples and the first weights."""

    batch: int
    examples: int
    learning_rate: float
    optimizer: ClickOptimizer = ClickOptimizer.SGD
    seed: int = 0


class ClickDlrm(nn.Module):
    """Bags of embeddings of all tables, joined with the dense features, and an MLP above. One logit an example."""

    def __init__(self, task: ClickTask) -> None:
        super().__init__()
        self._first_rows = torch.arange(task.tables)[:, None] * task.hash
        self.rows = nn.EmbeddingBag(task.tables * task.hash, _DIM, mode="sum")
        self.top = nn.Sequential(nn.Linear(task.dense + _DIM * task.tables, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1))
        nn.init.normal_(self.rows.weight, std=_DIM**-0.5)

    def forward(self, examples: Examples) -> Tensor:
        dense, ids = torch.from_numpy(examples.dense), torch.from_numpy(examples.ids)
        pooled = self.rows((ids + self._first_rows).flatten(0, 1)).view(len(dense), -1)
        return torch.as_tensor(self.top(torch.cat([dense, pooled], dim=1)))[:, 0]

    def loss(self, examples: Examples) -> Tensor:
        """The mean binary cross entropy of what was clicked."""
        return nn.functional.binary_cross_entropy_with_logits(self(examples), torch.from_numpy(examples.clicked))


def trained(task: ClickTask, training: ClickTraining) -> ClickDlrm:
    """The model after one pass, in which the rate warms up and decays; the last examples that fill no batch are left out."""
    examples = _examples(task, training.examples, training.seed)
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        model = ClickDlrm(task)
        optimizer = _optimizer(model, training)
        steps = training.examples // training.batch
        for step in range(steps):
            first = step * training.batch
            optimizer.param_groups[0]["lr"] = training.learning_rate * _share_of_rate(step, steps)
            optimizer.zero_grad()
            model.loss(examples.part(first, first + training.batch)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model


def quality(task: ClickTask, model: ClickDlrm) -> float:
    """The model's normalised entropy over held-out examples."""
    examples = _held_out(task)
    with torch.no_grad():
        return normalised_entropy(examples.chance, model(examples).numpy())


def best_quality(task: ClickTask) -> float:
    """The lowest normalised entropy over the same examples that any model has."""
    return best_entropy(_held_out(task).chance)


def squared_gradients(task: ClickTask, model: ClickDlrm, batch: int, count: int, *stream: int) -> list[float]:
    """Squared norms of the gradients of `count` batches of the stream's examples, at the weights as they are."""
    with _one_thread():
        return [_squared_gradient(model, task.examples(batch, *stream, number)) for number in range(count)]


def _squared_gradient(model: ClickDlrm, examples: Examples) -> float:
    gradients = torch.autograd.grad(model.loss(examples), list(model.parameters()))
    return sum(float(gradient.double().square().sum()) for gradient in gradients)


@lru_cache(maxsize=2)
def _examples(task: ClickTask, count: int, seed: int) -> Examples:
    """Trainings that differ in the rate alone have the same ones."""
    return task.examples(count, seed)


@lru_cache(maxsize=1)
def _held_out(task: ClickTask) -> Examples:
    return task.held_out()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Layers this small take a core: two threads mostly wait for each other, and sums of one are the same on every machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _share_of_rate(step: int, steps: int) -> float:
    """The rate rises over the first tenth of the steps and falls to nothing until the end: the last steps would leave noise behind."""
    return min(1.0, (step + 1) / max(1.0, steps * _WARM_UP)) * (1 - step / steps)


def _optimizer(model: ClickDlrm, training: ClickTraining) -> torch.optim.Optimizer:
    if training.optimizer is ClickOptimizer.ADAGRAD:
        return torch.optim.Adagrad(model.parameters(), lr=training.learning_rate)
    return torch.optim.SGD(model.parameters(), lr=training.learning_rate)
