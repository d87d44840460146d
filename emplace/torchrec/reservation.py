"""What the dense part of a module keeps of a rank's memory, counted instead of guessed as a percentage."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torchrec.distributed.sharding_plan import get_default_sharders

from emplace.placement.memory import STATE_BYTES
from emplace.placement.model import Optimizer
from emplace.torchrec.dense import dense_parameters, forward
from emplace.torchrec.tables import find_tables


def measure_reservation(module: nn.Module, batch: Any, sharders: list[Any] | None = None, *, optimizer: str = "adam") -> int:
    """Bytes of one rank for what is not sharded: dense parameters and buffers, gradients, optimizer state, activations of this batch.

    One forward of `batch` (a rank's batch as the module takes it; a tuple: its arguments) on whatever device the dense part is on, meta
    included; tables are not looked up. Counted are the tensors that autograd keeps, one gradient of the largest of them, weights, the
    all-reduce buckets that gradients are views of, and the state of `optimizer` (sgd, adagrad, adam; the default has most). Not counted:
    the CUDA context, NCCL, fragmentation. For TorchRec: `FixedAbsoluteStorageReservation(measure_reservation(model, batch))`.
    Raises InvalidDocument where nothing is sharded, ToolError where the forward fails, ValueError for an unknown optimizer.
    """
    tables = find_tables(module, get_default_sharders() if sharders is None else sharders)
    sharded = list({id(table.module): table.module for table in tables}.values())
    ran = forward(module, sharded, batch)
    parameters = dense_parameters(module, sharded)
    inside = {id(buffer) for part in sharded for buffer in part.buffers()}
    weights = sum(map(_bytes, parameters))
    buffers = sum(_bytes(buffer) for buffer in module.buffers() if id(buffer) not in inside)
    states = Optimizer(optimizer).of_dense_layers.values_per_weight * STATE_BYTES * sum(parameter.numel() for parameter in parameters)
    # One gradient at a time is on its way to its bucket, of a parameter or of an activation.
    passing = max([ran.largest_kept_bytes, *map(_bytes, parameters)])
    return 2 * weights + buffers + states + ran.kept_bytes + passing


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
