"""Synthetic batches drawn from a model's feature-length and access distributions. Same seed, rank and number: same batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from emplace.placement.hashing import hashed_rows, spread_rows
from emplace.placement.id_order import BY_FREQUENCY, MeasuredOrder
from emplace.placement.model import ModelSpec, Table
from emplace.placement.sums import add_up
from emplace.placement.workload import ID_BYTES, LENGTH_BYTES
from emplace.runtime.dlrm import Batch

MAX_PREPARED_BYTES = 128 * 2**20
MAX_PREPARED_BATCHES = 64

Ints = NDArray[np.int64]


def draw_batch(spec: ModelSpec, examples: int, seed: int, rank: int, number: int) -> Batch:
    """Batch `number` of `rank`, of so many examples."""
    rng = np.random.default_rng([seed, rank, number])
    lengths, ids = [], []
    for table in spec.tables:
        for feature in table.features:
            lengths.append(feature.lengths.sample(rng, examples))
            ids.append(draw_rows(table, int(lengths[-1].sum()), rng))
    return with_dense(spec, lengths, ids, rng)


def with_dense(spec: ModelSpec, lengths: list[Ints], ids: list[Ints], rng: np.random.Generator) -> Batch:
    """A whole batch around the lengths and ids of every feature. Labels are fair coins: there is nothing to learn, only work to do."""
    examples = len(lengths[0])
    sparse = KeyedJaggedTensor(
        keys=[feature.name for table in spec.tables for feature in table.features],
        values=torch.from_numpy(np.concatenate(ids)),
        lengths=torch.from_numpy(np.concatenate(lengths)),
    )
    dense = torch.from_numpy(rng.random((examples, spec.dense_features), dtype=np.float32))
    labels = torch.from_numpy(rng.integers(0, 2, examples).astype(np.float32))
    return Batch(dense, _weighted(sparse, rng) if any(module.weighted for module in spec.modules or ()) else sparse, labels)


def _weighted(sparse: KeyedJaggedTensor, rng: np.random.Generator) -> KeyedJaggedTensor:
    weights = torch.from_numpy(0.5 + rng.random(len(sparse.values()), dtype=np.float32))
    return KeyedJaggedTensor(keys=sparse.keys(), values=sparse.values(), lengths=sparse.lengths(), weights=weights)


def draw_rows(table: Table, lookups: int, rng: np.random.Generator) -> Ints:
    """[lookups] row ids of independent lookups, which lie as the table says."""
    ranks = table.accesses.sample(rng, lookups)
    if table.ids == BY_FREQUENCY:
        return ranks
    rows = table.num_embeddings
    if not isinstance(table.ids, MeasuredOrder):
        return hashed_rows(table.name, rows, ranks)
    shares = np.array(table.ids.measured)
    parts = rng.choice(len(shares), lookups, p=shares / shares.sum())
    within = (spread_rows(rows, ranks) / rows + 0.5) % 1.0  # the hottest row in the middle, so that no border of blocks is near
    return np.minimum(((parts + within) * (rows / len(shares))).astype(np.int64), rows - 1)


def prepared_count(spec: ModelSpec, steps: int) -> int:
    """Batches to prepare ahead and rotate, so that no step finds the previous one's rows in the CPU's caches."""
    ids = add_up(table.pooling_factor * ID_BYTES + len(table.features) * LENGTH_BYTES for table in spec.tables)
    batch_bytes = spec.local_batch_size * (ids + 4 * spec.dense_features)
    return max(1, min(steps, MAX_PREPARED_BATCHES, int(MAX_PREPARED_BYTES / batch_bytes)))
