"""Figures as pixels, for slides and pages that take no SVG. Takes the extra `figures`."""

from __future__ import annotations

from importlib.resources import files

_ZOOM = 2.0
"""Pixels of the picture for each of the drawing, either way."""
_FONT = "Lato"
"""It comes with the extra: a machine need not have fonts, and without one text is left out."""


def png_of(svg: str) -> bytes:
    """A figure as a PNG."""
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=svg, zoom=_ZOOM, font_dirs=[str(files("font_lato") / "files")], sans_serif_family=_FONT))
