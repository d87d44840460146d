"""A rank that executes something else than it was told, depending on the plan's name."""

import executor.numerics
import executor.placed
import executor.rank
import executor.training
from executor.export import to_torchrec


def wrong_export(plan):
    exported = to_torchrec(plan)
    tables = exported["plan"]["ebc"]
    if plan.model.name == "moved":
        tables["item"]["ranks"] = [1]
        tables["item"]["sharding_spec"]["shards"][0]["placement"] = "rank:1/cpu"
    if plan.model.name in ("swapped", "swapped-and-denied"):
        first, second = tables["user"]["sharding_spec"]["shards"]
        first["shard_offsets"], second["shard_offsets"] = second["shard_offsets"], first["shard_offsets"]
    global model_name
    model_name = plan.model.name
    return exported


def denying_parts(dmp):
    """Says that everything is where it should be."""
    for part in executor.placed.local_parts(dmp):
        if model_name == "swapped-and-denied" and part.table == "user":
            part.columns = {(0, 8): (8, 16), (8, 16): (0, 8)}[part.columns]
        yield part


honest_held_shards = executor.placed.held_shards


def denying_held_shards(dmp):
    honest = honest_held_shards(dmp)
    columns = {(part.table, part.rows): part.columns for part in denying_parts(dmp)}
    return tuple(shard.model_copy(update={"columns": columns[shard.table, shard.rows]}) for shard in honest)


model_name = ""
executor.training.to_torchrec = wrong_export
executor.numerics.local_parts = denying_parts
executor.rank.held_shards = denying_held_shards
executor.rank.main()
