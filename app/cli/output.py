"""Where results and messages go: results to stdout (and a file), everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.console import Console, RenderableType

from emplace.app.cli.options import OutputFormat, SpecFormat
from emplace.placement.document import Document
from emplace.placement.errors import ToolError
from emplace.runtime.files import write_file

_PLAIN_WIDTH = 120
BROKEN_PIPE = 141


def show(view: RenderableType) -> None:
    """Print a view: coloured on a terminal, plain elsewhere or with NO_COLOR."""
    if sys.stdout is not None and sys.stdout.isatty():
        Console(highlight=False, markup=False).print(view)
    else:
        print_text(as_text(view))


def give(result: Document, view: RenderableType, format: OutputFormat, out: Path | None = None) -> None:
    """Print a result as asked, and write it, always as JSON, to the file that was asked for. Raises ToolError."""
    document = as_json(result.to_data())
    with saved_too(out, document):
        if format is OutputFormat.JSON:
            print_text(document)
        else:
            show(view)


def as_text(view: RenderableType) -> str:
    """A view as plain text."""
    buffer = StringIO()
    Console(file=buffer, width=_PLAIN_WIDTH, color_system=None, force_terminal=False, highlight=False, markup=False).print(view)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def as_json(data: Any) -> str:
    """One JSON document, for people and scripts."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_yaml(data: Any, *, width: int = _PLAIN_WIDTH) -> str:
    """One YAML document, to be edited: text stays as it is written."""
    text: str = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, allow_unicode=True, width=width)
    return text


def give_spec(spec: Document, format: SpecFormat, out: Path | None = None) -> None:
    """Print a document and write it to the file that was asked for, both as asked. Raises ToolError."""
    give_text(as_json(spec.to_data()) if format is SpecFormat.JSON else as_yaml(spec.to_data()), out)


def give_text(text: str, out: Path | None) -> None:
    """Print a text and write it to the file that was asked for. Raises ToolError."""
    with saved_too(out, text):
        print_text(text)


def print_text(text: str) -> None:
    """Write to stdout. When its reader is gone, exit as SIGPIPE would (141), not with a verdict's code.

    Raises ToolError.
    """
    if sys.stdout is None:
        raise ToolError("standard output is closed, so the result can't be printed")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the name of a file can be no text, and a terminal's text no Unicode
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail once more at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(BROKEN_PIPE) from None
        raise ToolError(f"standard output can't be written: {error.strerror}") from None


@contextmanager
def saved_too(path: Path | None, content: str | bytes) -> Iterator[None]:
    """Print a result within it; then the file is written, so that of the two what can be given is given. Raises ToolError."""
    try:
        yield
    finally:
        save(path, content)


def save(path: Path | None, content: str | bytes) -> None:
    """Write a result file when one was asked for, and say so. Raises ToolError."""
    if path is not None:
        write_file(path, content)
        note(f"wrote {path}")


def note(message: str) -> None:
    """A message to the person, on stderr."""
    print(message, file=sys.stderr, flush=True)
