"""A trace file, whatever its format: examples in order, each with a list of ids for every feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from emplace.placement.errors import BrokenRule, InvalidDocument

Ints = NDArray[np.int64]

CHUNK_EXAMPLES = 8192
"""Examples read at a time. What a reader holds in memory grows with this, not with the file."""

ID_RULE = "ids must be whole numbers from 0 to 2^63 - 1"


class Trace(Protocol):
    """An open trace."""

    @property
    def source(self) -> str:
        """The file's path, for messages."""

    @property
    def examples(self) -> int: ...

    @property
    def features(self) -> tuple[str, ...] | None:
        """The features' names, in the file's order; None where the format has no names."""

    @property
    def num_features(self) -> int: ...

    def chunks(self, feature: int) -> Iterator[tuple[Ints, Ints]]:
        """(lengths of consecutive examples, their ids one after the other) of one feature, from the first example on.

        Raises InvalidDocument where the file breaks its format.
        """


def unreadable(path: Path | str, rule: str, pointer: str = "", value: str = "") -> InvalidDocument:
    """The error to raise where a trace file breaks a rule."""
    return InvalidDocument(str(path), [BrokenRule(pointer, value, rule)])


def refuse_bad_ids(source: str, pointer: str, ids: NDArray[np.integer[Any]]) -> None:
    """Raises InvalidDocument naming the least or the largest id of the feature at `pointer` where it is out of range."""
    for end in (int(ids.min()), int(ids.max())) if len(ids) else ():
        if not 0 <= end < 2**63:
            raise unreadable(source, ID_RULE, pointer, str(end))


def feature_numbers(trace: Trace, names: list[str]) -> list[int]:
    """Where each of a model's features is in the trace: by name, or in order in a format without names.

    Raises InvalidDocument naming the features that the trace lacks.
    """
    if trace.features is None:
        if trace.num_features != len(names):
            raise unreadable(trace.source, f"has {trace.num_features} features without names, the model has {len(names)}")
        return list(range(len(names)))
    where = {name: number for number, name in enumerate(trace.features)}
    missing = [name for name in names if name not in where]
    if missing:
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise unreadable(trace.source, f"has no column for the model's feature{'s' if len(missing) > 1 else ''} {shown}")
    return [where[name] for name in names]
