"""`emplace describe`: a TorchRec module becomes a model document."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli.options import Out, SpecFormat
from emplace.app.cli.output import give_spec
from emplace.extras import require_extra
from emplace.placement.host import DeviceType


def describe(
    builder: Annotated[
        str, typer.Argument(metavar="BUILDER", help="A function without arguments that returns the module: package.module:build_model.")
    ],
    batch_size: Annotated[int, typer.Option("--batch-size", help="Examples per rank and step.")] = 512,
    device: Annotated[
        DeviceType, typer.Option("--device", help="What the ranks compute on: it decides what sharders offer.")
    ] = DeviceType.CUDA,
    format: Annotated[SpecFormat, typer.Option("--format", help="How to spell the model.")] = SpecFormat.YAML,
    out: Out = None,
) -> None:
    """Print the model document of a TorchRec module: its tables, optimizers, and dense layers.

    BUILDER runs under the meta device, in the working folder. Each feature has one id an example; `emplace trace` measures more.
    """
    require_extra("execute")
    from emplace.torchrec.describe import describe as described
    from emplace.torchrec.loading import built_module

    give_spec(described(built_module(builder), batch_size=batch_size, compute_device=device.value), format, out)
