"""Stack: the software that trains on a host, and how much of a datasheet's rates it reaches.

A figure is a range: what is known of it is what others measured, and its source says who.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.host import DeviceType
from emplace.placement.model import Name, Precision

Amount = Annotated[float, Field(strict=True, ge=0, le=1e9)]


class Pace(StrEnum):
    """Which end of its ranges a stack is at."""

    FAST = "fast"
    TYPICAL = "typical"
    SLOW = "slow"


class Estimate(Document):
    """A figure that nobody measured on this host, and where it comes from."""

    low: Amount
    typical: Amount
    high: Amount
    source: str

    @model_validator(mode="after")
    def _rises(self) -> Estimate:
        if not self.low <= self.typical <= self.high:
            raise broken_rule("", [self.low, self.typical, self.high], "low, typical and high must not fall")
        return self


class Share(Estimate):
    """The share of a datasheet rate that is reached: more is faster."""

    low: Annotated[float, Field(strict=True, gt=0, le=100)]

    def at(self, pace: Pace) -> float:
        return {Pace.FAST: self.high, Pace.TYPICAL: self.typical, Pace.SLOW: self.low}[pace]


class Cost(Estimate):
    """An amount of time or bytes: more is slower."""

    def at(self, pace: Pace) -> float:
        return {Pace.FAST: self.low, Pace.TYPICAL: self.typical, Pace.SLOW: self.high}[pace]


class Stack(Document):
    """A software stack on one type of device. Shares are of the host document's rates."""

    schema_version: Literal[1]
    name: Name
    description: str
    device: DeviceType

    memory_share: Share
    """Share of the device's memory bandwidth, where rows are read and pooled vectors written."""
    update_share: Share
    """Share of the same, where the fused backward updates rows."""
    cache_rate: Share
    """Rate at which rows that the batch has read before are read again, in times of the memory bandwidth."""
    sort_bytes: Cost
    """Traffic of sorting one id by one digit of its row number, of the backward."""
    lookup_bytes: Cost
    """Traffic of one lookup beside its row, in each direction."""
    shard_us: Cost
    """Time of each shard's lookups in each direction, however few."""
    lookup_core_ns: Cost | None = None
    """The time of one core for each lookup in each direction, in nanoseconds, beside the memory's: of CPUs that look up for the devices
    of their node, and of remote servers."""
    message_core_us: Cost | None = None
    """The time of one core for each message between a trainer and a remote server, at each end: ids, vectors or gradients of one shard."""
    message_core_ns: Cost | None = None
    """The time of one core for each byte of such a message, at each end, in nanoseconds."""
    link_share: Share
    """Share of the link to system memory, where rows are read over it."""
    read_again: Cost
    """Share that reads its row once more, of the lookups over that link whose row the batch has read before."""

    intra_node_share: Share
    network_share: Share
    collective_us: Cost
    """Time of a collective, however few its bytes."""
    peer_us: Cost
    """Time of each other trainer's message in an exchange, however short; an all-reduce has none."""
    hop_us: Cost | None = None
    """Time of a message in an all-reduce, however short: they go up and down a tree of the trainers, so 2 log2(trainers) follow each other.
    Absent: all of it is in collective_us."""

    precision: Precision
    """That dense layers multiply in where the model does not say."""
    flops_share: Share
    """Share of the device's fp32 rate, where dense layers multiply in fp32."""
    matrix_flops_share: Share
    """Share of the rates of its matrix units, where they multiply in anything else."""
    product_us: Cost | None = None
    """Time of a matrix product on the device beside its flop: it makes the rate that is reached rise with the product's size, as n / (n +
    n_half) (Hockney and Jesshope, Parallel Computers 2, 1988). Absent where the shares above hold for any size."""
    dense_passes: Cost | None = None
    """Times that each value which dense layers keep, or its gradient, passes the device's memory, beside what products read while they
    multiply: activations, biases, copies. Weights pass it three times: read forward and backward, their gradients written."""
    feature_us: Cost
    """Time of each sparse feature on the device: a stack without fused lookups runs kernels for each."""

    step_us: Cost
    """The host's time for a step: the launches that no layer and no feature causes. The device works meanwhile."""
    step_feature_us: Cost
    """The host's time for each sparse feature."""
    step_layer_us: Cost
    """The host's time for each dense layer."""
    input_core_ns: Cost
    """The time of one core for each byte of input that it receives and hands over, in nanoseconds."""
    input_network_share: Cost
    """How much of the input comes over the node's network: 0 where the training process or its node makes it."""
    input_link_share: Cost
    """How much of it crosses the device's link to system memory: 0 where it is made on the device."""
    step_value_us: Cost
    """The host's time for each id and dense value of its batch, where the training process makes batches itself."""
