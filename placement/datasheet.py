"""The cost model of a host that nobody measured: datasheet rates, and what a software stack reaches of them.

docs/explanation/cost-model.md derives the formulas; docs/validation.md holds them against what others published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emplace.placement.catalog import builtin_stack
from emplace.placement.cost_model import (
    LINE_BYTES,
    CollectiveCost,
    CostModel,
    CostSource,
    DenseCost,
    KernelCost,
    LaunchCost,
    LookupCost,
    OtherBackward,
)
from emplace.placement.dense_part import PASSES
from emplace.placement.dense_servers import DenseServersCost
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HOST_CPUS, DenseServers, DeviceKind, DeviceType, HostSpec, Node
from emplace.placement.ingest import IngestCost
from emplace.placement.memory import STATE_BYTES
from emplace.placement.messages_cost import MessageCost
from emplace.placement.model import ComputeKernel, DataType, Optimizer, Precision
from emplace.placement.stack import Pace, Stack

DEFAULT_STACKS = {DeviceType.CUDA: "torchrec-eager", DeviceType.CPU: "cpu-caffe2-like"}

_STATE_OF_NARROW = {DataType.FP16: STATE_BYTES / 2, DataType.BF16: STATE_BYTES / 2, DataType.INT8: STATE_BYTES}
"""Bytes of a value of state, which is fp32 whatever the row is, for each byte of a row of these; of fp32 rows it is one."""


def datasheet_cost_model(host: HostSpec, stack: Stack | None = None, pace: Pace = Pace.TYPICAL) -> CostModel:
    """Prices under a stack, by default the one that such devices are commonly used with. CPUs beside CUDA devices, such as remote
    servers, run the CPUs' own.

    Raises InvalidDocument for a stack of devices that the host's trainers have not.
    """
    trained_on = DeviceType.CUDA if host.has_cuda else DeviceType.CPU
    stack = stack or builtin_stack(DEFAULT_STACKS[trained_on])
    if stack.device is not trained_on:
        rule = f"runs on {stack.device} devices; the trainers of {host.name} are of type {trained_on}"
        raise InvalidDocument("stack", [BrokenRule("/device", stack.name, rule)])
    of_type = {DeviceType.CPU: builtin_stack(DEFAULT_STACKS[DeviceType.CPU]), trained_on: stack}
    kernels, dense = [], []
    for device in host.node.devices:
        prices = _Prices(of_type[device.type], pace)
        kernels += prices.kernels_of(device, device_link(device, host.node))
        dense.append(prices.dense(device.kind, _rates(device), device.memory_bandwidth))
    prices, trainers = _Prices(of_type[DeviceType.CPU], pace), _Prices(stack, pace)
    messages = None
    if host.has_cpu_lookups:
        kernels.append(prices.host_cpus(host.node))
    if (remote := host.remote_servers) is not None:
        kernels.append(prices.server(remote.kind, remote.memory_bandwidth, remote.cores))
        dense.append(prices.dense(remote.kind, {Precision.FP32: remote.fp32_flops}, remote.memory_bandwidth))
        messages = prices.messages(host, remote.cores, trainers.link_us(host))
    links = trainers.links(host)
    rings = links.model_copy(update={"per_intra_node_byte_us": links.per_intra_node_byte_us / (host.node.intra_node_hops or 1.0)})
    slowest = min(device.memory_bandwidth for device in host.node.devices)
    return CostModel(
        source=CostSource.DATASHEET,
        host_name=host.name,
        stack=stack,
        step_overhead_us=stack.step_us.at(pace) if stack.device is DeviceType.CPU else 0.0,
        ingest=trainers.ingest(host) if host.fingerprint is None else None,
        server_messages=messages,
        dense_servers=None if (there := host.dense_servers) is None else prices.dense_servers(there, host, links, trainers.link_us(host)),
        launches=trainers.launches() if stack.device is DeviceType.CUDA else None,
        kernels=tuple(kernels),
        all_to_all=links,
        reduce_scatter=rings,
        all_reduce=rings.model_copy(update={"per_peer_us": 0.0, "per_doubling_us": trainers.per_doubling_us()}),
        per_converted_byte_us=trainers.per_byte_us(slowest),
        per_updated_byte_us=trainers.updates(slowest),
        dense=tuple(dense),
    )


def follows_datasheet(cost_model: CostModel, host: HostSpec) -> bool:
    """Whether prices are those that follow from the host's rates: of others nobody knows how they would change."""
    return cost_model.stack is not None and cost_model == datasheet_cost_model(host, cost_model.stack)


@dataclass(frozen=True)
class _Prices:
    """A stack at one end of its ranges. Rates are per second, as in a host document."""

    stack: Stack
    pace: Pace

    def kernels_of(self, device: DeviceKind, link_per_s: float | None) -> list[KernelCost]:
        """The kernels of a trainer's device, whose link to system memory has this rate."""
        found = [self.kernel(device.kind, kernel, device.memory_bandwidth) for kernel in (ComputeKernel.FUSED, ComputeKernel.DENSE)]
        if link_per_s is not None:
            found.append(self._uvm(device.kind, device.memory_bandwidth, link_per_s))
            found.append(self._uvm_caching(device.kind, device.memory_bandwidth, link_per_s))
        return found

    def kernel(self, device: str, kernel: ComputeKernel, memory_per_s: float) -> KernelCost:
        """Rows in the device's own memory.

        The forward reads each different row once and those that come again from the cache, and writes pooled vectors. The backward
        reads their gradients, sorts ids, and reads and writes each different row and its state. The optimizer of a `dense` kernel's
        table comes later.
        """
        forward = self._lookups(memory_per_s).model_copy(
            update={"per_unique_line_us": LINE_BYTES * self.per_byte_us(memory_per_s), "per_bag_byte_us": self.per_byte_us(memory_per_s)}
        )
        if kernel is ComputeKernel.DENSE:
            return KernelCost(device=device, kernel=kernel, forward=forward, backward=self._backward(memory_per_s, 2.0))
        return _kernel(device, kernel, forward, lambda state: self._backward(memory_per_s, 2.0 * (1 + state)))

    def host_cpus(self, node: Node) -> KernelCost:
        """Rows that the CPUs of a node look up for its devices: all its system memory's bandwidth, and work of all its cores."""
        if node.ddr_bandwidth is None or node.cores is None:
            raise ValueError("a node's CPUs have a price where its cores and its ddr_bandwidth are known")
        return self.server(HOST_CPUS, node.ddr_bandwidth, node.cores)

    def server(self, kind: str, memory_per_s: float, cores: int | None) -> KernelCost:
        """Rows that all CPUs of a machine look up for others. The work of a lookup is that of its cores where they are known, else it is
        counted in bytes of its memory."""
        cost, core_ns = self.kernel(kind, ComputeKernel.FUSED, memory_per_s), self.stack.lookup_core_ns
        if core_ns is None or cores is None:
            return cost
        per_lookup_us = core_ns.at(self.pace) / 1e3 / cores

        def on_cores(lookups: LookupCost) -> LookupCost:
            return lookups.model_copy(update={"per_lookup_us": per_lookup_us})

        others = tuple(each.model_copy(update={"backward": on_cores(each.backward)}) for each in cost.other_backwards)
        return cost.model_copy(update={"forward": on_cores(cost.forward), "backward": on_cores(cost.backward), "other_backwards": others})

    def messages(self, host: HostSpec, server_cores: int | None, link_us: float) -> MessageCost:
        """What messages with servers of so many cores take of both ends: nothing of an end whose cores are not known."""
        each_us, byte_ns = self.stack.message_core_us, self.stack.message_core_ns
        per_message_us = 0.0 if each_us is None else each_us.at(self.pace)
        per_byte_us = 0.0 if byte_ns is None else byte_ns.at(self.pace) / 1e3
        of_server = 0.0 if server_cores is None else 1 / server_cores
        of_trainer = 0.0 if host.node.cores is None else host.devices_per_node / host.node.cores
        return MessageCost(
            per_server_message_us=per_message_us * of_server,
            per_server_byte_us=per_byte_us * of_server,
            per_trainer_message_us=per_message_us * of_trainer,
            per_trainer_byte_us=per_byte_us * of_trainer + link_us,
        )

    def dense_servers(self, servers: DenseServers, host: HostSpec, links: CollectiveCost, link_us: float) -> DenseServersCost:
        """What exchanging dense parameters with servers takes of a trainer, whose links are given, and of each of them."""
        return DenseServersCost(
            count=servers.count,
            every=servers.every,
            fixed_us=self.stack.collective_us.at(self.pace),
            per_trainer_byte_us=links.per_inter_node_byte_us,
            per_server_byte_us=1e6 / (servers.network * self.stack.network_share.at(self.pace)),
            per_added_byte_us=3 * self.per_byte_us(servers.memory_bandwidth),
            messages=self.messages(host, servers.cores, link_us),
            per_updated_byte_us=self.updates(servers.memory_bandwidth),
        )

    def _uvm(self, device: str, memory_per_s: float, link_per_s: float) -> KernelCost:
        """Rows in system memory, read and written over the link. It carries both directions at once, so what is read counts."""
        per_byte_us, again = 1e6 / (link_per_s * self.stack.link_share.at(self.pace)), self.stack.read_again.at(self.pace)
        forward = self._lookups(memory_per_s).model_copy(
            update={
                "per_lookup_byte_us": again * per_byte_us,
                "per_unique_line_us": LINE_BYTES * (1 - again) * per_byte_us,
                "per_bag_byte_us": self.per_byte_us(memory_per_s),
            }
        )
        of_gradients = self._backward(memory_per_s, 0.0)

        def backward(state: float) -> LookupCost:
            return of_gradients.model_copy(update={"per_unique_line_us": LINE_BYTES * (1 + state) * per_byte_us})

        return _kernel(device, ComputeKernel.FUSED_UVM, forward, backward)

    def _uvm_caching(self, device: str, memory_per_s: float, link_per_s: float) -> KernelCost:
        """What a cache adds to lookups in the device's memory: the forward sorts ids to find what misses, and fetches that; the state
        stays where it is.

        FBGEMM prefetches rows before the forward and writes evicted ones back meanwhile (split_table_batched_embeddings_ops_training.py,
        `_prefetch`); state of each value lies in system memory uncached (`construct_split_state`).
        """
        per_line_us = LINE_BYTES * 1e6 / (link_per_s * self.stack.link_share.at(self.pace))
        found = LookupCost(
            fixed_us=self.stack.shard_us.at(self.pace),
            per_row_digit_us=self.stack.sort_bytes.at(self.pace) * 1e6 / memory_per_s,
            per_unique_line_us=per_line_us,
        )
        return _kernel(device, ComputeKernel.FUSED_UVM_CACHING, found, lambda state: LookupCost(per_unique_line_us=state * per_line_us))

    def _lookups(self, memory_per_s: float) -> LookupCost:
        """Reading rows that the batch has read before, and the ids."""
        return LookupCost(
            fixed_us=self.stack.shard_us.at(self.pace),
            per_lookup_us=self.stack.lookup_bytes.at(self.pace) * 1e6 / memory_per_s,
            per_lookup_byte_us=1e6 / (memory_per_s * self.stack.cache_rate.at(self.pace)),
        )

    def _backward(self, memory_per_s: float, row_traffic: float) -> LookupCost:
        """Rows of the device's memory are read and written so many times in all."""
        per_byte_us = 1e6 / (memory_per_s * self.stack.update_share.at(self.pace))
        return self._lookups(memory_per_s).model_copy(
            update={
                "per_unique_line_us": LINE_BYTES * row_traffic * per_byte_us,
                "per_bag_byte_us": per_byte_us,
                "per_row_digit_us": self.stack.sort_bytes.at(self.pace) * 1e6 / memory_per_s,
            }
        )

    def per_byte_us(self, memory_per_s: float) -> float:
        """For each byte that a device's memory of this rate streams."""
        return 1e6 / (memory_per_s * self.stack.memory_share.at(self.pace))

    def dense(self, device: str, flops_per_s: dict[Precision, float], memory_per_s: float) -> DenseCost:
        """Multiplications at the share of the rate that is reached, and what products and values take besides. Of a CPU, what each layer
        and feature takes on its cores."""
        on_cpu, product_us, passes = self.stack.device is DeviceType.CPU, self.stack.product_us, self.stack.dense_passes
        of_products_us = 0.0 if product_us is None else PASSES * product_us.at(self.pace)
        shares = dict.fromkeys(flops_per_s, self.stack.matrix_flops_share) | {Precision.FP32: self.stack.flops_share}
        per_flop_us = {precision: 1e6 / (rate * shares[precision].at(self.pace)) for precision, rate in flops_per_s.items()}
        return DenseCost(
            device=device,
            fixed_us=0.0,
            per_layer_us=of_products_us + (self.stack.step_layer_us.at(self.pace) if on_cpu else 0.0),
            per_flop_us=per_flop_us.get(self.stack.precision, per_flop_us[Precision.FP32]),
            per_flop_us_at=per_flop_us,
            per_activation_byte_us=0.0 if passes is None else passes.at(self.pace) * self.per_byte_us(memory_per_s),
            per_parameter_byte_us=0.0 if passes is None else PASSES * self.per_byte_us(memory_per_s),
            per_feature_us=self.stack.feature_us.at(self.pace) + (self.stack.step_feature_us.at(self.pace) if on_cpu else 0.0),
        )

    def launches(self) -> LaunchCost:
        """What the process needs while its CUDA device works."""
        return LaunchCost(
            fixed_us=self.stack.step_us.at(self.pace),
            per_feature_us=self.stack.step_feature_us.at(self.pace),
            per_layer_us=self.stack.step_layer_us.at(self.pace),
            per_value_us=self.stack.step_value_us.at(self.pace),
        )

    def ingest(self, host: HostSpec) -> IngestCost:
        """What feeds a trainer: its share of the node's network and cores, and its device's link."""
        from_network, over_link = self.stack.input_network_share.at(self.pace), self.stack.input_link_share.at(self.pace)
        per_core_us = self.stack.input_core_ns.at(self.pace) / 1e3
        return IngestCost(
            per_network_byte_us=from_network * 1e6 * host.devices_per_node / (host.node.network * self.stack.network_share.at(self.pace)),
            per_link_byte_us=over_link * self.link_us(host),
            per_core_byte_us=0.0 if host.node.cores is None else from_network * per_core_us * host.devices_per_node / host.node.cores,
        )

    def link_us(self, host: HostSpec) -> float:
        """For each byte between a device and system memory, on the slowest kind's link; 0 of CPU devices."""
        links = [device_link(device, host.node) for device in host.node.devices]
        return max(0.0 if link is None else 1e6 / (link * self.stack.link_share.at(self.pace)) for link in links)

    def links(self, host: HostSpec) -> CollectiveCost:
        """A rank has its own link inside the node and an equal share of the node's network."""
        near, far = self.stack.intra_node_share.at(self.pace), self.stack.network_share.at(self.pace)
        return CollectiveCost(
            fixed_us=self.stack.collective_us.at(self.pace),
            per_intra_node_byte_us=1e6 * (host.node.intra_node_hops or 1.0) / (host.node.intra_node_link * near),
            per_inter_node_byte_us=1e6 * host.devices_per_node / (host.node.network * far),
            per_server_byte_us=1e6 / (host.remote_servers.network * far) if host.remote_servers else 0.0,
            per_device_link_byte_us=self.link_us(host) if host.has_cpu_lookups else None,
            per_peer_us=self.stack.peer_us.at(self.pace),
        )

    def per_doubling_us(self) -> float | None:
        """Microseconds of a level of an all-reduce's tree, up and down; None where the stack does not say."""
        return None if self.stack.hop_us is None else 2 * self.stack.hop_us.at(self.pace)

    def updates(self, memory_per_s: float) -> dict[Optimizer, float]:
        """For each byte of a replicated parameter: its gradient is set to zero, added to and read, it and its state read and written."""
        return {each: (3 + 2 * (1 + each.values_per_weight)) * self.per_byte_us(memory_per_s) for each in Optimizer}


def device_link(device: DeviceKind, node: Node) -> float | None:
    """Bytes per second between a device and system memory while all devices of the node use theirs; None of a CPU device."""
    if device.system_link is None:
        return None
    own = device.system_link / (device.devices_per_link or 1)
    devices = sum(each.count for each in node.devices)
    return own if node.ddr_bandwidth is None else min(own, node.ddr_bandwidth / devices)


def _rates(device: DeviceKind) -> dict[Precision, float]:
    """Flop per second at each precision that the device has."""
    matrix = {
        Precision.TF32: device.tf32_flops,
        Precision.FP16: device.fp16_flops,
        Precision.BF16: device.fp16_flops,
        Precision.FP8: device.fp8_flops,
    }
    return {Precision.FP32: device.fp32_flops} | {precision: rate for precision, rate in matrix.items() if rate is not None}


def _kernel(device: str, kernel: ComputeKernel, forward: LookupCost, backward: Callable[[float], LookupCost]) -> KernelCost:
    """With each optimizer: `backward` prices rows with so many bytes of state for each of their own."""
    others = []
    for optimizer in Optimizer:
        states = optimizer.values_per_weight  # a row-wise state is too little to count
        if optimizer is not Optimizer.SGD:
            others.append(OtherBackward(optimizer=optimizer, backward=backward(states)))
        if states:
            others += [
                OtherBackward(optimizer=optimizer, data_type=data_type, backward=backward(states * each))
                for data_type, each in _STATE_OF_NARROW.items()
            ]
    return KernelCost(device=device, kernel=kernel, forward=forward, backward=backward(0), other_backwards=tuple(others))
