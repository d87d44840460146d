"""`emplace trace`: recorded batches become a model's feature lengths and accesses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.inputs import read_model
from emplace.app.cli.options import Out, SpecFormat
from emplace.app.cli.output import give_spec, note
from emplace.app.cli.progress import StatusLine
from emplace.extras import require_extra
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import BatchSize, EmbeddingDim
from emplace.placement.reading import from_data
from emplace.runtime.temporary import temporary_folder


class _NewModel(Document):
    """What the command line says of a model that is made from nothing."""

    embedding_dim: EmbeddingDim
    local_batch_size: BatchSize


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded batches: .pt (dlrm_datasets), .parquet or .csv.")],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The model whose lengths and accesses to measure: a built-in one or a file."),
    ] = None,
    embedding_dim: Annotated[
        int | None, typer.Option("--embedding-dim", help="Without --model: make one table of this width for every feature.")
    ] = None,
    local_batch_size: Annotated[int, typer.Option("--local-batch-size", help="Without --model: examples per rank and step.")] = 2048,
    format: Annotated[SpecFormat, typer.Option("--format", help="How to spell the model.")] = SpecFormat.YAML,
    out: Out = None,
) -> None:
    """Measure how many ids each feature carries and how lookups spread over each table's rows; print the model with both.

    Memory stays bounded whatever the size of FILE. Features are found by name; a .pt file has none, they must be in order.
    """
    if (model is None) == (embedding_dim is None):
        raise InvalidDocument("options", [BrokenRule("/model", "", "say either --model or --embedding-dim")])
    if embedding_dim is not None:
        from_data({"embedding_dim": embedding_dim, "local_batch_size": local_batch_size}, _NewModel, source="options")
    if file.suffix == ".pt":
        require_extra("execute")
    from emplace.executor.traces.measuring import measured_model, model_from_trace
    from emplace.executor.traces.opening import open_trace

    warnings: list[str] = []
    with temporary_folder("trace") as folder, StatusLine() as status:
        status.say(f"opening {file}")
        found = open_trace(file, folder)
        status.say(f"looking for the largest ids of {found.num_features} features")
        base = read_model(model) if model is not None else model_from_trace(found, embedding_dim or 0, local_batch_size)
        measured = measured_model(found, base, status.say, warnings.append)
    for message in [*warnings, f"measured {found.examples:,} examples"]:
        note(message)
    give_spec(measured, format, out)
