"""`emplace retune`: a learning rate tuned again after a change of the batch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.exit_codes import YES
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.retune_text import retune_view
from emplace.extras import require_extra
from emplace.placement.reading import from_data
from emplace.studies.retuning import RetuneAsked, default_store, run_retuning

_DEFAULT = RetuneAsked()


class TaskOptimizer(StrEnum):
    SGD = "sgd"
    ADAGRAD = "adagrad"


_DEFAULT_OPTIMIZER = TaskOptimizer(_DEFAULT.optimizer)


def retune(
    old_batch: Annotated[
        int, typer.Option("--old-batch", help=f"Examples of a step before the change. Default: {_DEFAULT.old_batch}.")
    ] = _DEFAULT.old_batch,
    new_batch: Annotated[
        int, typer.Option("--new-batch", help=f"Examples of a step after it. Default: {_DEFAULT.new_batch}.")
    ] = _DEFAULT.new_batch,
    old_rate: Annotated[
        float | None, typer.Option("--learning-rate", metavar="X", help="The rate at the old batch. Default: one is tuned there too.")
    ] = None,
    optimizer: Annotated[TaskOptimizer, typer.Option("--optimizer", help="What trains.")] = _DEFAULT_OPTIMIZER,
    examples: Annotated[
        int, typer.Option("--examples", help=f"Examples of each training, the same at both batches. Default: {_DEFAULT.examples}.")
    ] = _DEFAULT.examples,
    trials: Annotated[
        int, typer.Option("--trials", help=f"Learning rates to try at a batch. Default: {_DEFAULT.trials}.")
    ] = _DEFAULT.trials,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same trials. Default: 0.")] = _DEFAULT.seed,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FILE", help="Keep trials in this file. Default: retuning.sqlite under EMPLACE_HOME.")
    ] = None,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Tune the learning rate again after a change of the batch, on a small click task that is trained here.

    Quality is the normalised entropy, of which the best reachable is known: at the old batch, and at the new one with the old rate,
    the linear and the square-root rule, and the rate that Bayesian optimization finds. Trials are stored: stopped or killed, the
    same command goes on after the last one.
    """
    asked = from_data(
        {
            "old_batch": old_batch,
            "new_batch": new_batch,
            "old_rate": old_rate,
            "optimizer": optimizer.value,
            "examples": examples,
            "trials": trials,
            "seed": seed,
        },
        RetuneAsked,
        source="options",
    )
    require_extra("tune")
    with StatusLine() as status:
        found = run_retuning(asked, default_store() if store is None else store, studying.Counted(status, "trials"))
    give(found, retune_view(found), format, out)
    return YES
