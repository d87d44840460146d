"""Prices that a test can work out by hand: bytes over one bandwidth, and few fixed times. No step waits for launches."""

from __future__ import annotations

from emplace.placement.catalog import builtin_stack
from emplace.placement.cost_model import CollectiveCost, CostModel, CostSource, DenseCost, KernelCost, LookupCost
from emplace.placement.datasheet import DEFAULT_STACKS, datasheet_cost_model
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.model import ComputeKernel
from emplace.placement.stack import Cost

FIXED_US = {DeviceType.CUDA: 5.0, DeviceType.CPU: 20.0}
COLLECTIVE_US = {DeviceType.CUDA: 20.0, DeviceType.CPU: 150.0}
OVERHEAD_US = {DeviceType.CUDA: 200.0, DeviceType.CPU: 1000.0}


def bandwidth_prices(host: HostSpec) -> CostModel:
    """The forward reads the bytes of every lookup at the rate of the memory that holds them; the backward takes twice as long."""
    kernels, dense = [], []
    for device in host.node.devices:
        fixed_us = FIXED_US[device.type]
        for kernel in (ComputeKernel.FUSED, ComputeKernel.DENSE):
            kernels.append(_kernel(device.kind, kernel, device.memory_bandwidth, fixed_us))
        if device.system_link is not None:
            kernels.append(_kernel(device.kind, ComputeKernel.FUSED_UVM, device.system_link, fixed_us))
        dense.append(_dense(device.kind, device.fp32_flops))
    if (remote := host.remote_servers) is not None:
        kernels.append(_kernel(remote.kind, ComputeKernel.FUSED, remote.memory_bandwidth, FIXED_US[DeviceType.CPU]))
        dense.append(_dense(remote.kind, remote.fp32_flops))
    links = _links(host)
    return CostModel(
        source=CostSource.DATASHEET,
        host_name=host.name,
        step_overhead_us=OVERHEAD_US[host.node.devices[0].type],
        kernels=tuple(kernels),
        all_to_all=links,
        reduce_scatter=links,
        all_reduce=links,
        dense=tuple(dense),
    )


def device_prices(host: HostSpec) -> CostModel:
    """The datasheet's, of a stack that launches nothing and makes its input on devices: they follow from the host's rates, and placements tell."""
    stack = builtin_stack(DEFAULT_STACKS[host.node.devices[0].type])
    free = Cost(low=0.0, typical=0.0, high=0.0, source="a test")
    quiet = stack.model_copy(
        update=dict.fromkeys(("step_us", "step_feature_us", "step_layer_us", "input_network_share", "input_link_share"), free)
    )
    return datasheet_cost_model(host, quiet)


def _kernel(device: str, kernel: ComputeKernel, bytes_per_s: float, fixed_us: float) -> KernelCost:
    forward, backward = (LookupCost(fixed_us=fixed_us, per_lookup_byte_us=times * 1e6 / bytes_per_s) for times in (1.0, 2.0))
    return KernelCost(device=device, kernel=kernel, forward=forward, backward=backward)


def _dense(device: str, flops_per_s: float) -> DenseCost:
    return DenseCost(device=device, fixed_us=0.0, per_flop_us=1e6 / (flops_per_s * 0.5))


def _links(host: HostSpec) -> CollectiveCost:
    return CollectiveCost(
        fixed_us=COLLECTIVE_US[host.node.devices[0].type],
        per_intra_node_byte_us=1e6 / host.node.intra_node_link,
        per_inter_node_byte_us=1e6 * host.devices_per_node / host.node.network,
        per_server_byte_us=1e6 / host.remote_servers.network if host.remote_servers else 0.0,
    )
