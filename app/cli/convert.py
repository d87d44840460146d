"""`emplace convert`: a model document from a configuration of another project."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options
from emplace.app.cli.options import SpecFormat


class ConfigKind(StrEnum):
    TORCHREC = "torchrec"
    DLRM = "dlrm"
    HUGECTR = "hugectr"
    TORCHEASYREC = "torcheasyrec"
    DEEPRECSYS = "deeprecsys"


def convert(
    kind: Annotated[ConfigKind, typer.Argument(metavar="KIND", help="What FILE is: torchrec, dlrm, hugectr, torcheasyrec or deeprecsys.")],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The file; for torchrec also package.module:object, a list or a function that returns one."),
    ],
    name: Annotated[str | None, typer.Option("--name", help="The model's name.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="Examples per rank and step.")] = None,
    format: Annotated[SpecFormat, typer.Option("--format", help="How to spell the model.")] = SpecFormat.YAML,
    out: options.Out = None,
) -> None:
    """Print the model document of a configuration that another project reads; stderr names what is not carried over.

    torchrec: EmbeddingBagConfigs or EmbeddingConfigs as JSON, or those of a program, which is imported from the working folder.
    dlrm: a command line of facebookresearch/dlrm, in a script. hugectr: the JSON of its solver, the graph that its Python API
    dumps, or the script that builds the model, which is read and never run. torcheasyrec: a pipeline config.
    deeprecsys: a file of models/configs.
    """
    from emplace.app.cli.output import give_spec, note
    from emplace.app.converting.dlrm import from_command_line, from_deeprecsys
    from emplace.app.converting.hugectr import from_hugectr
    from emplace.app.converting.hugectr_script import from_hugectr_script
    from emplace.app.converting.torcheasyrec import from_torcheasyrec
    from emplace.app.converting.torchrec_configs import from_embedding_configs
    from emplace.app.converting.torchrec_objects import from_embedding_objects, is_object_path
    from emplace.placement.errors import BrokenRule, InvalidDocument
    from emplace.placement.model import ModelSpec
    from emplace.placement.reading import from_data, text_of

    converters = {
        ConfigKind.TORCHREC: from_embedding_configs,
        ConfigKind.DLRM: from_command_line,
        ConfigKind.HUGECTR: from_hugectr_script if file.endswith(".py") else from_hugectr,
        ConfigKind.TORCHEASYREC: from_torcheasyrec,
        ConfigKind.DEEPRECSYS: from_deeprecsys,
    }
    if kind is ConfigKind.TORCHREC and is_object_path(file) and not Path(file).exists():
        found = from_embedding_objects(file)
    else:
        found = converters[kind](text_of(Path(file)), file)
    said = {"name": name, "local_batch_size": batch_size}
    given = {key: value for key, value in said.items() if value is not None}
    if "local_batch_size" not in found.data | given:
        rule = f"{file} does not say how many examples a rank has: say --batch-size"
        raise InvalidDocument("options", [BrokenRule("/batch_size", "", rule)])
    spec = from_data(found.data | given, ModelSpec, source=f"{file} as a model")
    for each in found.notes:
        note(f"{file}: {each}")
    give_spec(spec, format, out)
