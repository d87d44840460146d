"""From one plan to another while a training goes on: what DistributedModelParallel.reshard takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ParameterSharding, ShardingPlan

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ComputeKernel, ShardingType

MOVABLE = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE)
"""Whose shards TorchRec 1.8 was seen to send to other ranks rightly. Row-wise and data-parallel tables are on fixed ranks."""
_MIB = 2**20

Delta = dict[str, tuple[float, EmbeddingModuleShardingPlan]]


def reshard(module: nn.Module, before: ShardingPlan, after: ShardingPlan) -> Delta:
    """The tables that lie elsewhere, by their module's path, with the MiB of weights that move: `for path in delta: dmp.reshard(delta, path)`.

    `module` is the model before it was sharded (the meta device will do), which says how large a weight is. Raises InvalidDocument naming
    tables that only one plan has, and those that TorchRec can't move: another sharding type, kernel or cut.
    """
    broken = [BrokenRule(f"/{path}/{name}", "", rule) for path, name, rule in _refused(before, after)]
    if broken:
        raise InvalidDocument("reshard", broken)
    delta: Delta = {}
    for path, tables in after.plan.items():
        moved = {name: sharding for name, sharding in tables.items() if _ranks(before.plan[path][name]) != _ranks(sharding)}
        if moved:
            weight_bytes = {name: weights.element_size() for name, weights in _weights(module.get_submodule(path))}
            moved_bytes = sum(_moved_values(before.plan[path][name], each) * weight_bytes[name] for name, each in moved.items())
            delta[path] = (moved_bytes / _MIB, EmbeddingModuleShardingPlan(moved))
    return delta


def _refused(before: ShardingPlan, after: ShardingPlan) -> Iterator[tuple[str, str, str]]:
    """(path, table, why) of each table that can't get from one plan to the other."""
    old, new = ({(path, name): each for path, tables in plan.plan.items() for name, each in tables.items()} for plan in (before, after))
    for path, name in {**old, **new}:
        if (path, name) not in old or (path, name) not in new:
            yield path, name, "is in one plan only: both must be for the same model"
            continue
        first, second = old[path, name], new[path, name]
        for what in ("sharding_type", "compute_kernel"):
            if getattr(first, what) != getattr(second, what):
                yield (
                    path,
                    name,
                    f"{what} was {getattr(first, what)} and is {getattr(second, what)}: TorchRec moves shards within one; restart",
                )
        if first.sharding_type != second.sharding_type or _ranks(first) == _ranks(second):
            continue
        if first.sharding_type not in MOVABLE:
            yield (
                path,
                name,
                f"Emplace does not trust TorchRec to move shards of {first.sharding_type}, only of {', '.join(MOVABLE)}; restart",
            )
        elif second.compute_kernel == ComputeKernel.DENSE:
            yield path, name, "has the dense kernel: an optimizer outside would go on with weights that were replaced; restart"
        elif _cuts(first) != _cuts(second):
            yield path, name, "is cut into other pieces of columns: TorchRec moves whole shards; pin the widths, or restart"


def _weights(collection: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Each table's parameter by the table's name, as `embedding_bags.NAME.weight` is called."""
    return ((name.split(".")[-2], weights) for name, weights in collection.named_parameters())


def _ranks(sharding: ParameterSharding) -> list[int]:
    return list(sharding.ranks or ())


def _cuts(sharding: ParameterSharding) -> list[Any]:
    return [(tuple(shard.shard_offsets), tuple(shard.shard_sizes)) for shard in sharding.sharding_spec.shards]


def _moved_values(before: ParameterSharding, after: ParameterSharding) -> int:
    """Weights of the shards whose rank changes."""
    pairs = zip(before.sharding_spec.shards, after.sharding_spec.shards, strict=True)
    return sum(int(new.shard_sizes[0] * new.shard_sizes[1]) for old, new in pairs if old.placement.rank() != new.placement.rank())
