"""A node in one line: `8 x h100-80g, NVLink, 3200Gbit/s, 2TiB`, for what a host document says at length.

Devices by name have their datasheet's figures (device_figures.yaml). Then in any order: what joins them, NVLink or PCIe; the node's
network; its system memory, by default twice that of all its devices.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from emplace.placement.document import broken_rule
from emplace.placement.units import format_rate, format_size, parse_rate, parse_size
from emplace.placement.yaml_text import parse_yaml

EXAMPLE = "8 x h100-80g, NVLink, 3200Gbit/s, 2TiB"
_DEVICES = re.compile(r"\s*(\d{1,5})\s*[x×]\s*(\S+)\s*")
_DDR_RESERVE = "32GiB"
STAGED_LINK = "assumed: half of PCIe, because what goes from device to device passes system memory"


@cache
def device_figures() -> dict[str, dict[str, Any]]:
    """By name, the keys of a device, with `nvlink` where it has that, and `sources`."""
    text = resources.files("emplace.placement").joinpath("device_figures.yaml").read_text(encoding="utf-8")
    return dict(parse_yaml(text, "device_figures.yaml"))


def spelled_out(host: Any) -> Any:
    """A host document's data with its node at length, where it is a line. Raises PydanticCustomError."""
    if not isinstance(host, dict) or not isinstance(host.get("node"), str):
        return host
    node, sources = _node(host["node"])
    given = host.get("sources", {})
    return host | {"node": node, "sources": sources | given if isinstance(given, dict) else given}


def _node(line: str) -> tuple[dict[str, Any], dict[str, str]]:
    first, *others = line.split(",")
    found = _DEVICES.fullmatch(first)
    if found is None:
        raise broken_rule("/node", line, f"must be a mapping, or one line such as {EXAMPLE!r}")
    count, kind = int(found[1]), found[2]
    if kind not in device_figures():
        raise broken_rule("/node", line, f"there is no device {kind}; by name there are {', '.join(device_figures())}")
    device = dict(device_figures()[kind])
    of_device, nvlink = device.pop("sources"), device.pop("nvlink", None)
    sources = {f"node.devices.{kind}.{key}": source for key, source in of_device.items() if key != "nvlink"}
    parts = _parts(line, [part.strip() for part in others])
    link, sources["node.intra_node_link"] = _link(line, parts, device, nvlink, of_device.get("nvlink"))
    memory = parts.get("memory")
    if memory is None:
        memory = format_size(2 * count * parse_size(device["hbm_capacity"]))
        sources["node.ddr_capacity"] = "assumed: twice the memory of all devices"
    sources["node.ddr_reserve"] = "assumed: operating system, data loading and pinned staging buffers"
    node = {
        "devices": [{"kind": kind, "count": count, **device}],
        "ddr_capacity": memory,
        "ddr_reserve": _DDR_RESERVE,
        "intra_node_link": link,
        "network": parts["network"],
    }
    return node, sources


def _parts(line: str, words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key = _key(word)
        if key is None:
            raise broken_rule("/node", line, f"{word!r} is neither NVLink nor PCIe, nor a rate such as 400Gbit/s, nor a size such as 1TiB")
        if key in found:
            raise broken_rule("/node", line, f"says the {key} twice: {found[key]!r} and {word!r}")
        found[key] = word
    if "network" not in found:
        raise broken_rule("/node", line, f"must say the node's network, as in {EXAMPLE!r}")
    return found


def _key(word: str) -> str | None:
    if word.lower() in ("nvlink", "pcie"):
        return "link"
    for key, parse in (("network", parse_rate), ("memory", parse_size)):
        try:
            parse(word)
        except ValueError:
            continue
        return key
    return None


def _link(line: str, parts: dict[str, str], device: dict[str, Any], nvlink: str | None, source: str | None) -> tuple[str, str]:
    """Bytes per second between devices, and where that comes from."""
    if parts.get("link", "nvlink" if nvlink else "pcie").lower() == "pcie":
        return format_rate(parse_rate(device["system_link"]) / 2), STAGED_LINK
    if nvlink is None:
        raise broken_rule("/node", line, "these devices have no NVLink: say PCIe")
    return nvlink, str(source)
