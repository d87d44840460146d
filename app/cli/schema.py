"""`emplace schema`: what editors want to know of documents."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from emplace.app.cli import options


class SchemaSubject(StrEnum):
    MODEL = "model"
    HOST = "host"
    CONFIG = "config"


def schema(
    kind: Annotated[SchemaSubject, typer.Argument(metavar="KIND", help="Which document: model, host or config.")],
    out: options.Out = None,
) -> None:
    """Print the JSON Schema of a model, a host or emplace.toml, for editors.

    It knows every key, type and range; what ties values to each other only the reader checks.
    """
    from emplace.app.cli.config import Config
    from emplace.app.cli.output import as_json, give_text
    from emplace.placement.document import Document
    from emplace.placement.host import HostSpec
    from emplace.placement.model import ModelSpec

    documents: dict[SchemaSubject, type[Document]] = {
        SchemaSubject.MODEL: ModelSpec,
        SchemaSubject.HOST: HostSpec,
        SchemaSubject.CONFIG: Config,
    }
    text = as_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **documents[kind].model_json_schema()})
    give_text(text, out)
