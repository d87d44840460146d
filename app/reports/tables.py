"""Plain tables: words to the left, figures to the right, no lines."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


def plain_table(*columns: str, left: int = 1) -> Table:
    """A table without lines: the first `left` columns are words, the rest figures."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return table


def facts(rows: list[tuple[str, str]]) -> RenderableType:
    """A table of names and their values."""
    grid = Table.grid(padding=(0, 3))
    for row in rows:
        grid.add_row(*row)
    return Padding(grid, (0, 0, 1, 2))


def section(title: str, body: RenderableType) -> RenderableType:
    """A bold title, what it is about, and an empty line."""
    return Group(Text(title, style="bold"), Padding(body, (0, 0, 1, 2)))
