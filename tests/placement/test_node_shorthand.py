"""A node in one line is the node at length."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.catalog import builtin_host, host_names
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import DeviceKind, HostSpec
from emplace.placement.node_shorthand import device_figures
from emplace.placement.reading import read_text


def host(line: object, **more: Any) -> HostSpec:
    text = {"schema_version": 1, "name": "mine", "node": line, **more}
    return HostSpec.model_validate(text)


@pytest.mark.parametrize(
    ("line", "like"),
    [
        ("8 x h100-80g, NVLink, 3200Gbit/s, 2TiB", "dgx-h100"),
        ("8 x a100-80g, 1600Gbit/s, 2TiB, nvlink", "dgx-a100-80g"),
        ("8xl4-24g, 100Gbit/s , 768GiB", "aws-g6-48xlarge"),
    ],
)
def test_a_line_says_what_a_built_in_host_says_at_length(line: str, like: str) -> None:
    found, at_length = host(line), builtin_host(like)
    # How devices share links, cores and memory modules is the server's: a line leaves it open.
    device = at_length.node.devices[0].model_copy(update={"devices_per_link": None})
    whole = {"devices": (device,), "cores": None, "ddr_bandwidth": None, "power_w": None}
    assert found.node == at_length.node.model_copy(update=whole)
    assert all(found.sources[f"node.devices.{device.kind}.{key}"] for key in ("hbm_capacity", "memory_bandwidth", "fp32_flops"))


def test_memory_is_assumed_and_links_are_staged_where_there_is_no_nvlink() -> None:
    found = host("4 x l4-24g, 25Gbit/s")
    assert found.node.ddr_capacity == 2 * 4 * 23_034 * 2**20
    assert found.sources["node.ddr_capacity"].startswith("assumed")
    assert found.node.intra_node_link == 16e9
    assert host("4 x a100-80g, PCIe, 25Gbit/s").node.intra_node_link == 16e9


def test_a_document_may_add_nodes_servers_and_sources() -> None:
    found = host("8 x h100-80g, 400Gbit/s", nodes=16, sources={"node.network": "our cloud's page"})
    assert found.num_devices == 128
    assert found.sources["node.network"] == "our cloud's page"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("many", "or one line such as"),
        ("8 x h100", "there is no device h100; by name there are"),
        ("8 x h100-80g", "must say the node's network"),
        ("8 x h100-80g, 400Gbit/s, 25Gbit/s", "says the network twice"),
        ("8 x h100-80g, 400Gbit", "is neither NVLink nor PCIe"),
        ("8 x l4-24g, NVLink, 400Gbit/s", "have no NVLink"),
        ("0 x h100-80g, 400Gbit/s", "greater than 0"),
    ],
)
def test_a_line_that_is_wrong_says_why_and_where(line: str, says: str) -> None:
    with pytest.raises(InvalidDocument, match=says) as refused:
        read_text(f"schema_version: 1\nname: mine\nnode: {line}\n", HostSpec, source="host.yaml", as_json=False)
    (broken,) = refused.value.broken_rules
    assert broken.pointer.startswith("/node")
    assert broken.line == 3


def test_devices_by_name_are_those_of_the_built_in_hosts() -> None:
    built_in = {device.kind: device for name in host_names() for device in builtin_host(name).node.devices}
    for kind, figures in device_figures().items():
        known = {key: value for key, value in figures.items() if key not in ("sources", "nvlink")}
        device = built_in[kind].model_copy(update={"devices_per_link": None})
        assert DeviceKind.model_validate({"kind": kind, "count": device.count, **known}) == device
        assert set(figures["sources"]) >= set(known) - {"type"}
