"""A rank that executes something else than it was told, depending on the plan's name."""

from collections.abc import Iterator
from typing import Any

from torchrec.distributed.model_parallel import DistributedModelParallel

import emplace.executor.numerics
import emplace.executor.placed
import emplace.executor.rank
import emplace.executor.training
from emplace.executor.export import module_shardings
from emplace.executor.job import HeldShard
from emplace.executor.placed import LocalPart
from emplace.placement.plan import Plan


def wrong_shardings(plan: Plan) -> dict[str, dict[str, Any]]:
    shardings = module_shardings(plan)
    tables = shardings["ebc"]
    if plan.model.name == "moved":
        tables["item"]["ranks"] = [1]
        tables["item"]["sharding_spec"]["shards"][0]["placement"] = "rank:1/cpu"
    if plan.model.name in ("swapped", "swapped-and-denied"):
        first, second = tables["user"]["sharding_spec"]["shards"]
        first["shard_offsets"], second["shard_offsets"] = second["shard_offsets"], first["shard_offsets"]
    global model_name
    model_name = plan.model.name
    return shardings


def denying_parts(dmp: DistributedModelParallel) -> Iterator[LocalPart]:
    """Says that everything is where it should be."""
    for part in emplace.executor.placed.local_parts(dmp):
        if model_name == "swapped-and-denied" and part.table == "user":
            part.columns = {(0, 8): (8, 16), (8, 16): (0, 8)}[part.columns]
        yield part


honest_held_shards = emplace.executor.placed.held_shards


def denying_held_shards(dmp: DistributedModelParallel) -> tuple[HeldShard, ...]:
    honest = honest_held_shards(dmp)
    columns = {(part.table, part.rows): part.columns for part in denying_parts(dmp)}
    return tuple(shard.model_copy(update={"columns": columns[shard.table, shard.rows]}) for shard in honest)


model_name = ""


def main() -> None:
    emplace.executor.training.module_shardings = wrong_shardings  # type: ignore[attr-defined]
    emplace.executor.numerics.local_parts = denying_parts  # type: ignore[attr-defined]
    emplace.executor.rank.held_shards = denying_held_shards  # type: ignore[attr-defined]
    emplace.executor.rank.main()
