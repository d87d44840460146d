"""Bytes are added up as 64-bit numbers: a model that could overflow them is refused before anything is computed."""

from __future__ import annotations

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.memory import buffer_bytes, gradient_bytes, optimizer_state_bytes, rank_bytes, row_bytes
from emplace.placement.model import ModelSpec, Table
from emplace.placement.topology import Topology
from emplace.placement.workload import ID_BYTES, WEIGHT_BYTES, PeakBatch, peak_ids

MAX_TOTAL_BYTES = 2**62
_MOST_COPIES = 5
"""What the costliest kernel holds of a table, state and buffers apart, in times of its weights: a cache of narrow rows."""


def refuse_uncountable(model: ModelSpec, topology: Topology) -> None:
    """Raises InvalidDocument where the bytes of all ranks, each with every table whole, could pass MAX_TOTAL_BYTES."""
    examples = model.local_batch_size * len(topology.trainers)
    ranks = len(topology.ranks)
    most = ranks * (
        rank_bytes(model, [], is_server=False, on_cuda=True) + sum(_most_bytes(model, table, examples) for table in model.tables)
    )
    if most > MAX_TOTAL_BYTES:
        rule = (
            f"must come to at most 2^62 bytes ({MAX_TOTAL_BYTES:.2g}) if each of the {ranks} ranks held every table with its buffers; "
            "use smaller or fewer tables, fewer or shorter features, a smaller local_batch_size or fewer ranks"
        )
        raise InvalidDocument("model", [BrokenRule("/tables", f"about {most:.2g} bytes", rule)])


def _most_bytes(model: ModelSpec, table: Table, examples: int) -> int:
    """Bytes that are never less than what one rank holds for a table, the ids of its own batch included."""
    rows, columns = table.num_embeddings, table.embedding_dim
    weights = rows * row_bytes(table.data_type, columns)
    ids, bags = peak_ids(table, examples), examples * len(table.features)
    is_pooled = model.module_of(table).is_pooled
    vectors, gradient_rows = (bags, 0) if is_pooled else (ids, min(ids, rows))
    peak = PeakBatch(ids, bags, vectors, ID_BYTES + WEIGHT_BYTES, gradient_rows=gradient_rows, placed_ids=ids)
    buffers = (2 if is_pooled else 3) * buffer_bytes(peak, columns, exchanged=True)
    return int(_MOST_COPIES * weights + optimizer_state_bytes(model.optimizer, rows, columns) + buffers + gradient_bytes(peak, columns))
