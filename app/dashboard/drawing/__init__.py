"""Renderers: a chart's data to inline SVG. Colours are CSS classes, so they follow the page's light or dark theme."""

from __future__ import annotations

from emplace.app.dashboard.drawing.heat_map import draw_heat_map
from emplace.app.dashboard.drawing.histogram import draw_histogram
from emplace.app.dashboard.drawing.host import draw_host
from emplace.app.dashboard.drawing.lines import draw_search
from emplace.app.dashboard.drawing.memory import draw_memory
from emplace.app.dashboard.drawing.mirror import draw_mirror
from emplace.app.dashboard.drawing.points import draw_points
from emplace.app.dashboard.drawing.spread import draw_spread
from emplace.app.dashboard.drawing.step import draw_step
from emplace.app.dashboard.drawing.study import draw_study

DRAWINGS = {
    "draw_heat_map": draw_heat_map,
    "draw_histogram": draw_histogram,
    "draw_host": draw_host,
    "draw_memory": draw_memory,
    "draw_mirror": draw_mirror,
    "draw_points": draw_points,
    "draw_search": draw_search,
    "draw_spread": draw_spread,
    "draw_step": draw_step,
    "draw_study": draw_study,
}
"""Filters of templates."""
