"""Where hashed ids lie: a stated order in place of a user's hash, the same in what is reckoned and in batches that are drawn."""

from __future__ import annotations

import zlib
from math import gcd

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_GOLDEN = 0.6180339887498949


def hashed_rows(table: str, num_embeddings: int, ranks: Ints) -> Ints:
    """Row ids of access ranks (0 the hottest): spread, and turned by as much as the table's name says, so that tables' hottest rows lie apart."""
    return np.asarray((spread_rows(num_embeddings, ranks) + zlib.crc32(table.encode()) % num_embeddings) % num_embeddings)


def spread_rows(num_embeddings: int, ranks: Ints) -> Ints:
    """Row ids of access ranks: a bijection that spreads neighbours in rank evenly over the table.

    Ids are hashed in production, so a block of rows takes its share of hot and cold rows alike, but for the hottest, of which each is
    somewhere. Multiplication by a number near the golden section of the table's size, coprime to it, does the same and is a bijection.
    """
    stride = max(1, round(num_embeddings * _GOLDEN))
    while gcd(stride, num_embeddings) != 1:
        stride += 1
    # Two factors below 2**31 stay inside int64; Python's own integers never overflow.
    wide = ranks if num_embeddings < 2**31 else ranks.astype(object)
    return np.asarray(wide * stride % num_embeddings, dtype=np.int64)
