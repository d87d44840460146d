"""The gradient-noise scale measured here, on the click task."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from emplace.executor.click_task import MOST_EXAMPLES, NAME, ClickTask
from emplace.placement.document import Document
from emplace.studies.gradient_noise import LEAST_PAIRS, NoiseScale, noise_scale


class ClickNoise(Document):
    """How the task's model is trained first, and which gradients are taken then."""

    examples: Annotated[int, Field(ge=0, le=MOST_EXAMPLES)] = 20_000
    """Trained on before gradients are taken."""
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    learning_rate: Annotated[float, Field(gt=0, le=1e4)] = 1.0
    small_batch: Annotated[int, Field(ge=1, le=1_000_000)] = 32
    large_batch: Annotated[int, Field(ge=2, le=1_000_000)] = 1024
    pairs: Annotated[int, Field(ge=LEAST_PAIRS, le=10_000)] = 100
    seed: Annotated[int, Field(ge=0, lt=2**30)] = 0


def measure_click_noise(asked: ClickNoise) -> NoiseScale:
    """The noise scale at the weights that plain SGD comes to. Raises InvalidDocument where gradients are lost in noise."""
    from emplace.executor.click_training import ClickTraining, squared_gradients, trained

    task = ClickTask()
    model = trained(task, ClickTraining(asked.batch, asked.examples, asked.learning_rate, seed=asked.seed))
    small, large = (
        squared_gradients(task, model, batch, asked.pairs, asked.seed, number)
        for number, batch in enumerate((asked.small_batch, asked.large_batch), start=1)
    )
    when = f"after {asked.examples:,} examples of SGD in batches of {asked.batch:,}, learning rate {asked.learning_rate:g}"
    return noise_scale(asked.small_batch, asked.large_batch, small, large, model=NAME, measured_at=when)
