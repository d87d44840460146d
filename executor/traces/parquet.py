"""Parquet: a column of integer lists (or of single integers) for every feature."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from emplace.executor.traces.trace import CHUNK_EXAMPLES, Ints, refuse_bad_ids, unreadable
from emplace.placement.errors import InvalidDocument, ToolError
from emplace.placement.pointer import pointer_to


class ParquetTrace:
    """Read column by column, a few thousand rows at a time. A missing list has no ids."""

    def __init__(self, path: Path) -> None:
        if find_spec("pyarrow") is None:
            raise ToolError(
                "reading Parquet needs pyarrow, which is not installed: pip install '.[trace]' in a checkout of Emplace (docs/dependencies.md)"
            )
        from pyarrow.parquet import ParquetFile

        self.source = str(path)
        try:
            self._file = ParquetFile(path)
        except _broken() as error:
            raise _not_parquet(path, error) from None
        self.examples = self._file.metadata.num_rows
        fields = [field for field in self._file.schema_arrow if _is_ids(field.type)]
        self.features = tuple(field.name for field in fields)
        self.num_features = len(fields)
        if not fields or not self.examples:
            raise unreadable(path, "has no rows" if fields else "has no column of integer lists")

    def chunks(self, feature: int) -> Iterator[tuple[Ints, Ints]]:
        try:
            for batch in self._file.iter_batches(CHUNK_EXAMPLES, columns=[self.features[feature]]):
                yield self._read(batch.column(0), self.features[feature])
        except _broken() as error:
            raise _not_parquet(self.source, error) from None

    def _read(self, column: Any, name: str) -> tuple[Ints, Ints]:
        import pyarrow.compute as compute
        from pyarrow import types

        if types.is_integer(column.type):
            lengths, ids = column.is_valid(), column.drop_null()
        else:
            lengths, ids = compute.fill_null(compute.list_value_length(column), 0), column.flatten()
        if ids.null_count:
            raise unreadable(self.source, "has a list with a missing id", pointer_to(name))
        numbers = ids.to_numpy(zero_copy_only=False)
        refuse_bad_ids(self.source, pointer_to(name), numbers)
        return lengths.to_numpy(zero_copy_only=False).astype(np.int64), numbers.astype(np.int64)


def _broken() -> tuple[type[Exception], ...]:
    """What a damaged file raises, when it is opened or when it is read."""
    from pyarrow import ArrowException

    return ArrowException, OSError


def _not_parquet(path: Path | str, error: Exception) -> InvalidDocument:
    return unreadable(path, f"can't be read as Parquet: {str(error).splitlines()[0]}")


def _is_ids(kind: Any) -> bool:
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind)
    return bool(types.is_integer(kind) or (is_list and types.is_integer(kind.value_type)))
