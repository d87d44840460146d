"""From plain JSON (runtime.torchrec_json) to TorchRec's own ShardingPlan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
from torchrec.distributed import types

from emplace.runtime.torchrec_json import CLASS


def sharding_plan(modules: Mapping[str, Mapping[str, Any]]) -> types.ShardingPlan:
    """`{module path: {table: parameter sharding}}` as TorchRec's types.

    An id outside its table ends the program instead of training on garbage.
    """
    built = {path: types.EmbeddingModuleShardingPlan(_built(tables)) for path, tables in modules.items()}
    for tables in built.values():
        for sharding in tables.values():
            sharding.bounds_check_mode = BoundsCheckMode.FATAL
    return types.ShardingPlan(built)


def _built(node: Any) -> Any:
    """Objects of the classes that the JSON names, from the inside out."""
    if isinstance(node, list):
        return [_built(item) for item in node]
    if not isinstance(node, dict):
        return node
    arguments = {key: _built(value) for key, value in node.items() if key != CLASS}
    return getattr(types, node[CLASS])(**arguments) if CLASS in node else arguments
