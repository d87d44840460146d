"""From the exported JSON to TorchRec's own ShardingPlan."""

from __future__ import annotations

from typing import Any

from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode
from torchrec.distributed import types

from executor.export import CLASS


def sharding_plan(exported: dict[str, Any]) -> types.ShardingPlan:
    """What `to_torchrec` wrote, as TorchRec's types. An id outside its table ends the program instead of training on garbage."""
    modules = {path: types.EmbeddingModuleShardingPlan(_built(tables)) for path, tables in exported["plan"].items()}
    for tables in modules.values():
        for sharding in tables.values():
            sharding.bounds_check_mode = BoundsCheckMode.FATAL
    return types.ShardingPlan(modules)


def _built(node: Any) -> Any:
    """Objects of the classes that the export names, from the inside out."""
    if isinstance(node, list):
        return [_built(item) for item in node]
    if not isinstance(node, dict):
        return node
    arguments = {key: _built(value) for key, value in node.items() if key != CLASS}
    return getattr(types, node[CLASS])(**arguments) if CLASS in node else arguments
