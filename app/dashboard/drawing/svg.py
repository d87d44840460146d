"""The few shapes that charts are made of."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from markupsafe import Markup

Box = tuple[float, float, float, float]
"""x, y, width, height"""

WIDTH = 1080
"""How wide every chart is, in its own units: one is a pixel on a page of full width."""


def picture(title: str, height: float, parts: Iterable[str], *, width: float = WIDTH, kind: str = "", has_links: bool = False) -> Markup:
    """A chart; screen readers say its title, and the tables beside it have its figures. One that has links is no single picture."""
    body = "".join(parts)
    opening = f'<svg viewBox="0 0 {width:g} {height:g}" class="chart {kind}" role="{"group" if has_links else "img"}" aria-label="{escape(title)}">'
    return Markup(f"{opening}{body}</svg>")


def rect(box: Box, css: str, tip: str = "") -> str:
    x, y, width, height = box
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect class="{escape(css)}" x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{height:.2f}">{inside}</rect>'


def rects(boxes: Iterable[Box], css: str) -> str:
    """Many of one colour as a single shape, which is a tenth of their size."""
    path = "".join(f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z" for x, y, width, height in boxes if width >= 0.05)
    return f'<path class="{escape(css)}" d="{path}"/>' if path else ""


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def steps(points: Iterable[tuple[float, float]], css: str) -> str:
    """A line that stays level until the next point."""
    path = ""
    for x, y in points:
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    return f'<path class="{css}" d="{path}"/>' if path else ""


def text(x: float, y: float, words: str, css: str = "label", anchor: str = "start") -> str:
    """`y` is its middle."""
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="central">{escape(words)}</text>'


def row_height(rows: int) -> tuple[float, float]:
    """(height, gap) of so many rows under each other."""
    if rows <= 24:
        return 16, 8
    return (9, 3) if rows <= 64 else (5, 1)


def label_every(rows: int) -> int:
    """One row in so many has room for its label."""
    height, gap = row_height(rows)
    return 1 if height + gap >= 12 else int(-(-14 // (height + gap)))
