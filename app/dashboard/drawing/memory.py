"""Draw memories: a bar of parts each, a mark at what tables may fill, the reserve beyond it."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.memory import Memory, MemoryChart
from emplace.app.dashboard.drawing.remembered import remembered
from emplace.app.dashboard.drawing.svg import WIDTH, label_every, line, picture, rect, row_height, text
from emplace.app.dashboard.units import Unit, size_unit

_LABEL, _VALUE, _TOP = 84, 190, 4
_TRACK = WIDTH - _LABEL - _VALUE


@remembered
def draw_memory(chart: MemoryChart) -> Markup:
    height, gap = row_height(len(chart.memories))
    every, unit = label_every(len(chart.memories)), size_unit([chart.scale_bytes])
    parts: list[str] = []
    for row, memory in enumerate(chart.memories):
        parts += _bar(memory, chart.scale_bytes, (_TOP + row * (height + gap), height), unit, labelled=row % every == 0)
    return picture(chart.title, _TOP + len(chart.memories) * (height + gap) + 2, parts, kind="memory")


def _bar(memory: Memory, scale: int, place: tuple[float, float], unit: Unit, *, labelled: bool) -> Iterator[str]:
    top, height = place
    per_byte = _TRACK / scale
    limit = _LABEL + memory.limit_bytes * per_byte
    yield rect((_LABEL, top, memory.limit_bytes * per_byte, height), "track", f"{memory.label}: {_used(memory, unit)}")
    if memory.capacity_bytes > memory.limit_bytes:
        reserve = memory.capacity_bytes - memory.limit_bytes
        yield rect((limit, top, reserve * per_byte, height), "reserve", f"{memory.label}: reserve {unit.show(reserve)}")
    left = float(_LABEL)
    for part in memory.parts:
        width = part.bytes * per_byte
        if width >= 0.3:
            yield rect((left, top, width, height), f"segment {part.key}", f"{memory.label}, {part.title}: {unit.show(part.bytes)}")
        left += width
    yield line(limit, top - min(3, height / 4), limit, top + height + min(3, height / 4), "limit")
    if labelled:
        yield text(_LABEL - 8, top + height / 2, memory.label, anchor="end")
        yield text(_LABEL + _TRACK + 8, top + height / 2, _used(memory, unit), "value")


def _used(memory: Memory, unit: Unit) -> str:
    share = memory.used_bytes / memory.limit_bytes if memory.limit_bytes else 0.0
    return f"{unit.number(memory.used_bytes)} of {unit.show(memory.limit_bytes)}, {share:.0%}"
