"""CSV: a line of feature names, then one line an example; a cell holds ids with spaces, `;` or `|` between them, or nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from emplace.executor.traces.trace import CHUNK_EXAMPLES, ID_RULE, Ints, unreadable
from emplace.placement.errors import ToolError
from emplace.placement.pointer import pointer_to

_SEPARATORS = str.maketrans(";|", "  ")


class TextTrace:
    """Parsed once, into one file of lengths and one of ids for every column, under `folder`."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.source = str(path)
        self._folder = folder
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                self.features, self.examples = self._parse(csv.reader(file))
        except (UnicodeDecodeError, csv.Error) as error:
            raise unreadable(path, f"is not CSV in UTF-8: {error}") from None
        except OSError as error:
            raise ToolError(f"{folder}: can't hold what {path} becomes: {error.strerror}") from None
        self.num_features = len(self.features)

    def chunks(self, feature: int) -> Iterator[tuple[Ints, Ints]]:
        with self._path(feature, "lengths").open("rb") as lengths_file, self._path(feature, "ids").open("rb") as ids_file:
            while len(lengths := np.fromfile(lengths_file, np.int64, CHUNK_EXAMPLES)):
                yield lengths, np.fromfile(ids_file, np.int64, int(lengths.sum()))

    def _parse(self, lines: Iterator[list[str]]) -> tuple[tuple[str, ...], int]:
        names = tuple(name.strip() for name in next(lines, []))
        if not names or len(set(names)) != len(names):
            raise unreadable(self.source, "must begin with a line of feature names, each once")
        examples = 0
        cells = _cells(lines)
        while chunk := list(islice(cells, CHUNK_EXAMPLES)):
            for number, line in enumerate(chunk):
                if len(line) != len(names):
                    raise unreadable(self.source, f"line {examples + number + 2} has {len(line)} cells, the first line has {len(names)}")
            for feature, name in enumerate(names):
                self._append(feature, name, [line[feature] for line in chunk], examples)
            examples += len(chunk)
        if not examples:
            raise unreadable(self.source, "has no examples")
        return names, examples

    def _append(self, feature: int, name: str, cells: list[str], examples: int) -> None:
        parts = [cell.translate(_SEPARATORS).split() for cell in cells]
        ids = [part for cell in parts for part in cell]
        try:
            numbers = np.array(ids, dtype=np.int64)
            if (numbers < 0).any():
                raise ValueError
        except (ValueError, OverflowError):
            line, wrong = next((at, part) for at, cell in enumerate(parts) for part in cell if not _is_id(part))
            raise unreadable(self.source, f"line {examples + line + 2}: {ID_RULE}", pointer_to(name), repr(wrong)) from None
        for what, values in (("lengths", np.array([len(cell) for cell in parts], dtype=np.int64)), ("ids", numbers)):
            with self._path(feature, what).open("ab") as file:
                file.write(values.data)

    def _path(self, feature: int, what: str) -> Path:
        return self._folder / f"column-{feature}.{what}"


def _cells(lines: Iterator[list[str]]) -> Iterator[list[str]]:
    """The cells of each example. A blank line is one empty cell; as the last line it is nothing."""
    line = next(lines, None)
    while line is not None:
        following = next(lines, None)
        if line or following is not None:
            yield line or [""]
        line = following


def _is_id(text: str) -> bool:
    try:
        return 0 <= int(text) < 2**63
    except ValueError:
        return False
