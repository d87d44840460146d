"""Builds a sharded model under a plan, and trains it step by step with a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel

from executor.export import MODULE_PATH, plan_topology, to_torchrec
from executor.sharding_plan import sharding_plan
from placement.model import Optimizer, ShardingType
from placement.plan import Plan
from profiler.clock import now_us
from profiler.dlrm import LEARNING_RATE, Batch, Dlrm, dense_optimizer, fused_params


class Training:
    """A model sharded exactly as `plan` says, with its optimizers. Every rank builds one at the same time."""

    def __init__(
        self,
        plan: Plan,
        optimizer: Optimizer,
        device: torch.device,
        *,
        sparse_rate: float = LEARNING_RATE,
        dense_rate: float = LEARNING_RATE,
    ) -> None:
        self.device = device
        self.loss_scale = dist.get_world_size() / len(plan_topology(plan).trainers)
        """TorchRec divides gradients by all ranks; remote servers contribute none."""
        # On the meta device no rank ever holds a whole table that is not its own.
        model = Dlrm(plan.question.model, torch.device("meta"))
        sharder = EmbeddingBagCollectionSharder(fused_params=fused_params(optimizer, sparse_rate))
        self.dmp = DistributedModelParallel(model, device=device, plan=sharding_plan(to_torchrec(plan)), sharders=[sharder])
        named = [(name, p) for name, p in self.dmp.named_parameters() if not hasattr(p, "_in_backward_optimizers")]
        layers = [parameter for name, parameter in named if table_of(name) is None]
        tables = {str(table_of(name)): parameter for name, parameter in named if table_of(name) is not None}
        self.optimizers = [dense_optimizer(_layers_optimizer(optimizer), layers, dense_rate)]
        if tables:
            self.optimizers.append(dense_optimizer(optimizer, tables.values(), sparse_rate))
        everywhere = {table.name for table in plan.tables if table.sharding_type is ShardingType.DATA_PARALLEL}
        self.replicated = layers + [parameter for table, parameter in tables.items() if table in everywhere]
        """Parameters that every rank holds: their gradients are reduced over all ranks."""

    @property
    def dlrm(self) -> nn.Module:
        return self.dmp.module  # type: ignore[no-any-return]

    def step(self, batch: Batch) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        (self.dmp(batch) * self.loss_scale).backward()
        for optimizer in self.optimizers:
            optimizer.step()


def _layers_optimizer(optimizer: Optimizer) -> Optimizer:
    """Rows mean nothing in a dense layer: it takes the element-wise form."""
    return Optimizer.ADAGRAD if optimizer is Optimizer.ROWWISE_ADAGRAD else optimizer


def table_of(parameter_name: str) -> str | None:
    """`ebc.embedding_bags.user_id.weight` -> `user_id`; None for a dense layer's parameter."""
    _, found, after = parameter_name.partition(f"{MODULE_PATH}.embedding_bags.")
    return after.removesuffix(".weight") if found else None


def timed_steps(training: Training, batches: Iterable[Batch], tell: Callable[[int], None]) -> list[float]:
    """Microseconds of each step. Steps start together, so the slowest rank's time is the step's."""
    times = []
    for number, batch in enumerate(batches):
        fresh = batch.copy_to(training.device)
        dist.barrier()
        start = now_us(training.device)
        training.step(fresh)
        times.append(now_us(training.device) - start)
        tell(number + 1)
    return times
