"""A model in one piece beside a sharded one, to see that both end up in the same place: what `--check` of the examples does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torchrec.distributed import DistributedModelParallel


class Unsharded:
    """The same model on every rank. It sees the batches of all ranks, which `make_batch(step, rank)` gives."""

    def __init__(
        self, model: nn.Module, sharded: DistributedModelParallel, make_batch: Callable[[int, int], tuple[Any, ...]], learning_rate: float
    ) -> None:
        self.model, self.make_batch = model, make_batch
        self.optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
        model.load_state_dict({name: gathered(value) for name, value in sharded.state_dict().items()})
        self.start = {name: value.clone() for name, value in model.state_dict().items()}

    def train(self, step: int) -> None:
        self.optimizer.zero_grad()
        torch.stack([self.model(*self.make_batch(step, rank)) for rank in range(dist.get_world_size())]).mean().backward()
        self.optimizer.step()

    def compare(self, sharded: DistributedModelParallel) -> None:
        """Raises SystemExit where an update differs from the unsharded one by more than rounding."""
        here = {name: gathered(value) for name, value in sharded.state_dict().items()}
        after = self.model.state_dict()
        errors = {name: float((here[name] - after[name]).norm() / (after[name] - self.start[name]).norm()) for name in after}
        worst = max(errors, key=errors.__getitem__)
        if not errors[worst] < 1e-3:
            raise SystemExit(f"the update of {worst} differs from the unsharded one by {errors[worst]:.2g} of its size")
        if dist.get_rank() == 0:
            print(f"updates agree with the unsharded model: {errors[worst]:.1e} at most ({worst})")


def gathered(value: Tensor | ShardedTensor) -> Tensor:
    """All of a table, on every rank."""
    if not isinstance(value, ShardedTensor):
        return value.detach().clone()
    whole = torch.zeros(value.size(), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    for shard in value.local_shards():
        (row, column), (rows, columns) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
        whole[row : row + rows, column : column + columns] = shard.tensor
    dist.all_reduce(whole)
    return whole
