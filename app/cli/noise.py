"""`emplace noise`: the gradient-noise scale of the click task."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.exit_codes import YES
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.reports.noise_text import noise_view
from emplace.extras import require_extra
from emplace.placement.reading import from_data
from emplace.studies.click_noise import ClickNoise, measure_click_noise

_DEFAULT = ClickNoise()


def noise(
    examples: Annotated[
        int, typer.Option("--examples", help=f"Examples that are trained on before. Default: {_DEFAULT.examples}.")
    ] = _DEFAULT.examples,
    batch: Annotated[
        int, typer.Option("--batch", help=f"Examples of a step of that training. Default: {_DEFAULT.batch}.")
    ] = _DEFAULT.batch,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", metavar="X", help=f"The rate of that training. Default: {_DEFAULT.learning_rate:g}.")
    ] = _DEFAULT.learning_rate,
    small_batch: Annotated[
        int, typer.Option("--small-batch", help=f"Examples of the small batches. Default: {_DEFAULT.small_batch}.")
    ] = _DEFAULT.small_batch,
    large_batch: Annotated[
        int, typer.Option("--large-batch", help=f"Examples of the large batches. Default: {_DEFAULT.large_batch}.")
    ] = _DEFAULT.large_batch,
    pairs: Annotated[int, typer.Option("--pairs", help=f"Gradients of either. Default: {_DEFAULT.pairs}.")] = _DEFAULT.pairs,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same gradients. Default: 0.")] = _DEFAULT.seed,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Measure the gradient-noise scale of a small click task that is trained here.

    It says up to which batch a larger one saves steps (McCandlish et al., arXiv 1812.06162), with the range that resampled
    gradients have. Of your own model it is measured in your training loop: emplace.noise_scale takes squared norms of gradients.
    """
    given = {
        "examples": examples,
        "batch": batch,
        "learning_rate": learning_rate,
        "small_batch": small_batch,
        "large_batch": large_batch,
        "pairs": pairs,
        "seed": seed,
    }
    asked = from_data(given, ClickNoise, source="options")
    require_extra("tune", only=("torch",))
    found = measure_click_noise(asked)
    give(found, noise_view(found), format, out)
    return YES
