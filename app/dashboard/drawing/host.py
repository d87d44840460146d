"""Draw a host: devices above the bus that joins them, system memory below, the network at its side."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from emplace.app.dashboard.charts.host import HostChart
from emplace.app.dashboard.drawing.svg import line, picture, rect, text

_WIDTH, _PAD, _IN_A_ROW, _BOX = 1080, 24, 8, 74
_MOST = 32


def draw_host(chart: HostChart) -> Markup:
    shown = chart.devices[:_MOST]
    columns = min(_IN_A_ROW, len(shown))
    rows = -(-len(shown) // _IN_A_ROW)
    width = (_WIDTH - 2 * _PAD - 16) / columns
    bus = 60 + rows * (_BOX + 12)
    parts = [
        rect((4, 4, _WIDTH - 8, bus + 118), "node"),
        text(_PAD, 24, _title(chart), "strong"),
        *_devices(chart, columns, width, bus),
        *_below(chart, bus),
    ]
    return picture(f"The host {chart.name}", bus + 126 + (32 if chart.servers or chart.nodes > 1 else 0), parts, width=_WIDTH, kind="host")


def _title(chart: HostChart) -> str:
    more = f", the first {_MOST} drawn" if len(chart.devices) > _MOST else ""
    nodes = "one node" if chart.nodes == 1 else f"each of {chart.nodes} nodes"
    return f"{nodes}: {len(chart.devices)} devices{more}"


def _devices(chart: HostChart, columns: int, width: float, bus: float) -> Iterator[str]:
    for index, device in enumerate(chart.devices[:_MOST]):
        left, top = _PAD + 8 + index % columns * width, 44 + index // columns * (_BOX + 12)
        middle = left + width / 2 - 5
        yield line(middle, top + _BOX, middle, bus, "link")
        yield rect((left, top, width - 10, _BOX), "device", f"{device.kind}: {device.memory} at {device.bandwidth}")
        for row, words in enumerate((f"{index} {device.kind}", device.memory, device.bandwidth)):
            yield text(middle, top + 17 + 20 * row, words, "label" if row == 0 else "value", "middle")


def _below(chart: HostChart, bus: float) -> Iterator[str]:
    right = _WIDTH - _PAD
    yield line(_PAD, bus, right, bus, "bus")
    yield text(_PAD + 8, bus + 16, f"{chart.device_link} of each device to the others", "value")
    yield line(_WIDTH / 2, bus, _WIDTH / 2, bus + 52, "link")
    if chart.system_link is not None:
        yield text(_WIDTH / 2 + 8, bus + 36, f"{chart.system_link} of each device to system memory", "value")
    yield rect((_PAD + 8, bus + 52, right - _PAD - 16, 34), "device")
    yield text(_WIDTH / 2, bus + 69, f"system memory {chart.system_memory}", "label", "middle")
    yield text(_PAD + 8, bus + 104, f"network {chart.network} of the node", "value")
    if chart.servers or chart.nodes > 1:
        yield line(_PAD + 60, bus + 112, _PAD + 60, bus + 132, "link")
        others = [] if chart.nodes == 1 else [f"{chart.nodes - 1} more such node{'s' if chart.nodes > 2 else ''}"]
        yield text(
            _PAD + 8, bus + 146, "to " + " and ".join([*others, *([f"remote servers: {chart.servers}"] if chart.servers else [])]), "label"
        )
