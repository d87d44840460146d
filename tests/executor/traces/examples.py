"""How many examples the trace files hold, and in which formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emplace.executor.traces.trace import CHUNK_EXAMPLES

if TYPE_CHECKING:
    from emplace.runtime.dlrm import Batch

EXAMPLES = 2 * CHUNK_EXAMPLES + 5
FORMATS = ["pt", "parquet", "csv"]


def names_of(batch: Batch) -> list[str]:
    return list(batch.sparse.keys())
