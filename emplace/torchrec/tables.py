"""The embedding tables of a live module that TorchRec would shard."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torchrec.distributed.planner.utils import sharder_name
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection

from emplace.executor.live_names import long_name, spelt
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import NAME_PATTERN

NOTHING_TO_SHARD = "no module in it has both a sharder and parameters to shard; pass the model that holds the EmbeddingBagCollection or EmbeddingCollection, and its sharder"
WHY_NOT = (
    "Emplace knows EmbeddingBagCollection and EmbeddingCollection: feature processors, managed collisions and quantized tables are not "
    "described yet. Leave its sharder out and plan that module with TorchRec's planner"
)


@dataclass(frozen=True)
class ShardedTable:
    """A table, the collection that holds it, and the sharder that would shard it."""

    path: str
    """Where the module is in the model, as a ShardingPlan has it."""
    name: str
    """In its module."""
    spec_name: str
    """In the whole model."""
    features: tuple[str, ...]
    """Their names in the whole model, in the order of the table's configuration."""
    module: nn.Module
    parameter: nn.Parameter
    config: Any
    sharder: Any


def find_tables(module: nn.Module, sharders: Sequence[Any]) -> list[ShardedTable]:
    """Breadth first, as TorchRec finds them: a module with a sharder is not searched further.

    A table that stands alone with its name keeps it; others are named after their module's path too, and so are features that several
    tables look up. Raises InvalidDocument where there is nothing to shard, and for modules that Emplace does not know.
    """
    found = [(path, child, sharder) for path, child, sharder in _sharded_modules(module, sharders) if sharder.shardable_parameters(child)]
    if not found:
        raise InvalidDocument("module", [BrokenRule("", type(module).__name__, NOTHING_TO_SHARD)])
    unknown = [
        BrokenRule(f"/{path}", type(child).__name__, WHY_NOT)
        for path, child, _ in found
        if not isinstance(child, EmbeddingBagCollection | EmbeddingCollection)
    ]
    if unknown:
        raise InvalidDocument("module", unknown)
    return list(_named(found))


def table_shapes(module: nn.Module, sharders: Sequence[Any]) -> dict[tuple[str, str], tuple[int, ...]]:
    """The shape of every table by its module's path and its name there, also where Emplace does not know the module."""
    return {
        (path, name): tuple(parameter.shape)
        for path, child, sharder in _sharded_modules(module, sharders)
        for name, parameter in sharder.shardable_parameters(child).items()
    }


def is_sequence(module: nn.Module) -> bool:
    """Whether the module's tables are not pooled."""
    return isinstance(module, EmbeddingCollection)


def table_configs(module: Any) -> list[Any]:
    """The configurations of a collection's tables."""
    return list(module.embedding_configs() if is_sequence(module) else module.embedding_bag_configs())


def _sharded_modules(module: nn.Module, sharders: Sequence[Any]) -> Iterator[tuple[str, nn.Module, Any]]:
    by_type = {sharder_name(sharder.module_type): sharder for sharder in sharders}
    queue = deque([("", module)])
    while queue:
        path, child = queue.popleft()
        sharder = by_type.get(sharder_name(type(child)))
        if sharder is not None:
            yield path, child, sharder
            continue
        queue.extend((f"{path}.{name}" if path else name, below) for name, below in child.named_children())


def _named(found: Sequence[tuple[str, Any, Any]]) -> Iterator[ShardedTable]:
    rows = [
        (path, module, sharder, name, parameter, config)
        for path, module, sharder in found
        for configs in [{config.name: config for config in table_configs(module)}]
        for name, parameter in sharder.shardable_parameters(module).items()
        for config in [configs[name]]
    ]
    tables = _unique("table", [(name, long_name(path, name)) for path, _, _, name, _, _ in rows])
    features = iter(
        _unique(
            "feature",
            [(feature, f"{table}:{feature}") for table, (*_, config) in zip(tables, rows, strict=True) for feature in config.feature_names],
        )
    )
    for table, (path, module, sharder, name, parameter, config) in zip(tables, rows, strict=True):
        own = tuple(next(features) for _ in config.feature_names)
        yield ShardedTable(path, name, table, own, module, parameter, config, sharder)


def _unique(what: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """The first, short name of each where no other has it, else the second; spelt as a model document allows."""
    pairs = [(spelt(short), spelt(long)) for short, long in names]
    counts = Counter(short for short, _ in pairs)
    chosen = [short if counts[short] == 1 else long for short, long in pairs]
    broken = [
        BrokenRule("", name, f"is no name for a {what}, or several have it; rename it in the module")
        for name, count in Counter(chosen).items()
        if count > 1 or not re.match(NAME_PATTERN, name)
    ]
    if broken:
        raise InvalidDocument("module", broken)
    return chosen
