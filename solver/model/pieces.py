"""The least that the pieces of a table take together, by how many there are, whatever their widths."""

from __future__ import annotations

import numpy as np

from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.solver.model.problem import Bools, Floats, Ints


def least_of_pieces(values: Floats, columns: Ints, fewest: Ints, most: Ints) -> Floats:
    """[n, ...] of tables of `columns` ([n]) in `fewest` to `most` pieces ([n]), from what a single piece takes: values [n, W, ...] of pieces
    of 4, 8, ... columns.

    No piece takes less than a line over its width, so n of them, C columns together, take n times what the line has at no width, and C times
    its slope. The line runs through half of the table and the whole, so that it is exact where pieces cost something each and by column.
    """
    tables, dims = np.arange(len(columns)), (1,) * (values.ndim - 2)
    width = COLUMN_MULTIPLE * np.arange(1, values.shape[1] + 1)
    whole = columns // COLUMN_MULTIPLE - 1
    half = np.maximum(columns // (2 * COLUMN_MULTIPLE), 1) - 1
    span = np.maximum(width[whole] - width[half], 1).reshape(-1, *dims)
    slope = (values[tables, whole] - values[tables, half]) / span
    each = _least_at(values - slope[:, None] * width.reshape(1, -1, *dims), width <= columns[:, None])
    split = np.minimum(*(number.reshape(-1, *dims) * each for number in (fewest, most))) + columns.reshape(-1, *dims) * slope
    return np.where((most == 1).reshape(-1, *dims), values[tables, whole], split)


def widest_of_pieces(values: Floats, columns: Ints, most: Ints) -> Floats:
    """[n, ...] the least that the widest of at most so many pieces takes."""
    width = COLUMN_MULTIPLE * np.arange(1, values.shape[1] + 1)
    return _least_at(values, (width <= columns[:, None]) & (width * most[:, None] >= columns[:, None]))


def _least_at(values: Floats, widths: Bools) -> Floats:
    """[n, ...] the least of values [n, W, ...] over the widths in `widths` ([n, W])."""
    return np.asarray(np.where(widths.reshape(*widths.shape, *(1,) * (values.ndim - 2)), values, np.inf).min(axis=1))
