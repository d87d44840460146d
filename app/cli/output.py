"""Where results and messages go: results to stdout (and a file), everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, RenderableType

from app.cli.options import OutputFormat
from app.local_store import write_file
from placement.document import Document

_PLAIN_WIDTH = 120
BROKEN_PIPE = 141


def show(view: RenderableType) -> None:
    """Print a view: coloured on a terminal, plain elsewhere or with NO_COLOR."""
    if sys.stdout.isatty():
        Console(highlight=False, markup=False).print(view)
    else:
        print_text(as_text(view))


def give(result: Document, view: RenderableType, format: OutputFormat, out: Path | None = None) -> None:
    """Print a result as asked, and write it, always as JSON, to the file that was asked for. Raises ToolError."""
    document = as_json(result.to_data())
    if format is OutputFormat.JSON:
        print_text(document)
    else:
        show(view)
    save(out, document)


def as_text(view: RenderableType) -> str:
    """A view as plain text."""
    buffer = StringIO()
    Console(file=buffer, width=_PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, markup=False).print(view)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def as_json(data: Any) -> str:
    """One JSON document, for people and scripts."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def print_text(text: str) -> None:
    """Write to stdout. Where nobody reads it any more, end as a program without a handler would, not with a verdict's code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None


def save(path: Path | None, text: str) -> None:
    """Write a result file when one was asked for, and say so. Raises ToolError."""
    if path is not None:
        write_file(path, text)
        note(f"wrote {path}")


def note(message: str) -> None:
    """A message to the person, on stderr."""
    print(message, file=sys.stderr, flush=True)
