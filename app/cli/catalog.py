"""`emplace models` and `emplace hosts`: what is built in, and documents to start from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table as TextTable

from emplace.app.cli.inputs import read_model
from emplace.app.cli.options import Format, OutputFormat, Settings, SpecFormat
from emplace.app.cli.output import as_json, give_spec, print_text, show
from emplace.placement.catalog import LOCAL_HOST, builtin_host, builtin_model, host_names, model_names
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument, UnknownName
from emplace.placement.memory import weight_bytes
from emplace.placement.units import show_gib
from emplace.planning import resolve_host


def models(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one, to be edited and passed back.")] = None,
    settings: Settings = None,
    format: Format = OutputFormat.TEXT,
) -> None:
    """List the built-in models, or print one as YAML."""
    if name is not None:
        _print_document(read_model(_known(name, "model", model_names()), settings), format)
        return
    if settings:
        raise InvalidDocument("--set", [BrokenRule("", "", "goes with the name of a template: emplace models suite --set sparse=64")])
    _print_list([_describe_model(each) for each in model_names()], format)


def hosts(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one, to be edited and passed back.")] = None,
    format: Format = OutputFormat.TEXT,
) -> None:
    """List the built-in hosts, or print one as YAML ('local' is this machine)."""
    if name is not None:
        _print_document(resolve_host(_known(name, "host", [*host_names(), LOCAL_HOST])), format)
        return
    local = {"name": LOCAL_HOST, "description": "this machine, discovered when it is named"}
    _print_list([*(_describe_host(each) for each in host_names()), local], format)


def _known(name: str, what: str, names: list[str]) -> str:
    if name not in names:
        raise UnknownName(f"{name}: no built-in {what} of that name; built in are {', '.join(names)}")
    return name


def _print_document(document: Document, format: OutputFormat) -> None:
    give_spec(document, SpecFormat.JSON if format is OutputFormat.JSON else SpecFormat.YAML)


def _print_list(rows: list[dict[str, Any]], format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_text(as_json(rows))
        return
    columns = list(rows[0])
    table = TextTable(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right" if isinstance(rows[0][column], int) else "left")
    for row in rows:
        table.add_row(*(_cell(column, row.get(column)) for column in columns))
    show(table)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return show_gib(value) if column.endswith("_bytes") else f"{value:,}"
    return str(value).split(". ")[0] if column == "description" else str(value)


def _describe_model(name: str) -> dict[str, Any]:
    model = builtin_model(name)
    return {
        "name": name,
        "tables": len(model.tables),
        "rows": sum(table.num_embeddings for table in model.tables),
        "weight_bytes": sum(map(weight_bytes, model.tables)),
        "local_batch_size": model.local_batch_size,
        "description": model.description or "",
    }


def _describe_host(name: str) -> dict[str, Any]:
    host = builtin_host(name)
    devices = host.node.devices
    return {
        "name": name,
        "nodes": host.nodes,
        "devices_per_node": ", ".join(f"{device.count} x {device.kind}" for device in devices),
        "hbm_bytes": host.nodes * sum(device.count * (device.hbm_capacity or 0) for device in devices),
        "ddr_bytes": host.nodes * host.node.ddr_capacity,
        "description": host.description or "",
    }
