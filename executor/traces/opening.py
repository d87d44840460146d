"""Picks the reader of a trace file by the file's ending."""

from __future__ import annotations

from pathlib import Path

from emplace.executor.traces.trace import Trace, unreadable


def open_trace(path: Path, folder: Path) -> Trace:
    """The trace in a file that ends in .pt, .parquet or .csv. A reader may keep what it needs under `folder`, which the caller removes.

    Raises InvalidDocument for a file that is no trace, ToolError where a format needs a package that is not installed.
    """
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise unreadable(path, "there is no such file") from None
    except OSError as error:
        raise unreadable(path, f"can't be read: {error.strerror}") from None
    # Each format needs a package that the others don't.
    match path.suffix:
        case ".pt":
            from emplace.executor.traces.tensors import TensorTrace

            return TensorTrace(path)
        case ".parquet":
            from emplace.executor.traces.parquet import ParquetTrace

            return ParquetTrace(path)
        case ".csv":
            from emplace.executor.traces.text import TextTrace

            return TextTrace(path, folder)
    hint = "; unpack it first" if path.suffix in (".gz", ".zst", ".xz", ".zip") else ""
    raise unreadable(path, f"a trace must end in .pt, .parquet or .csv{hint}")
