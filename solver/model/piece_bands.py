"""Options of column pieces, in bands: by their number or by their width, with the least that any pieces of a band take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.solver.model.pieces import least_of_pieces, widest_of_pieces
from emplace.solver.model.problem import Bools, Floats, Ints

_PIECES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32, np.inf])
"""Tables in more pieces than one of these and at most the next are one option, with the least that any of them takes."""


@dataclass(frozen=True)
class PricedWidths:
    """Shards [n, W] of W widths on one kind of device."""

    time_us: Floats
    """[n, W, K]"""
    hbm_bytes: Floats
    """[n, W] no whole numbers where they are means."""
    ddr_bytes: Floats
    served_us: Floats
    """[n, W, K] what they put on every trainer, where they are on a server."""

    def of(self, some: Ints) -> PricedWidths:
        """Those of some of the tables."""
        return PricedWidths(self.time_us[some], self.hbm_bytes[some], self.ddr_bytes[some], self.served_us[some])


@dataclass(frozen=True)
class PieceBand:
    """Options of some tables ([n]), by the number of their pieces or by the width of each."""

    some: Ints
    """[n] which of the tables."""
    count: Floats
    """[n] the fewest pieces, so that units are real ones where there is one width."""
    share: Floats
    """[n] the least share of its table that is of the option where any of it is."""
    pieces: Ints
    """[n] how many pieces a table is in that is wholly of the band's options, the fewest; 1 where it is a mix of bands."""
    together: Callable[[PricedWidths], PricedWidths]
    """From pieces of every width to a unit: what all pieces take, over their count."""
    widest: Callable[[PricedWidths], PricedWidths]
    """From pieces of every width to the least that the widest of them takes."""


def bands_by_number(columns: Ints) -> Iterator[PieceBand]:
    """Where all pieces lie on one kind of device, a table has the option of as many pieces as it is cut into."""
    for fewer, most in pairwise([0, *_PIECES.tolist()]):
        some = np.flatnonzero(columns // COLUMN_MULTIPLE > fewer)
        if len(some):
            fewest = np.full(len(some), int(fewer) + 1)
            yield _number_band(some, columns[some], fewest, np.minimum(most, columns[some] // COLUMN_MULTIPLE).astype(np.int64))


def bands_of_each_number(columns: Ints, most: int) -> Iterator[PieceBand]:
    """Likewise, with an option of its own for every number of pieces up to `most`."""
    for number in range(1, most + 1):
        some = np.flatnonzero(columns // COLUMN_MULTIPLE >= number)
        if len(some):
            exactly = np.full(len(some), number)
            yield _number_band(some, columns[some], exactly, exactly)


def _number_band(some: Ints, columns: Ints, fewest: Ints, most: Ints) -> PieceBand:
    def together(priced: PricedWidths) -> PricedWidths:
        return _each(priced, lambda part: _per(least_of_pieces(part, columns, fewest, most), fewest))

    def widest(priced: PricedWidths) -> PricedWidths:
        return _each(priced, lambda part: widest_of_pieces(part, columns, most))

    return PieceBand(some, fewest.astype(np.float64), np.ones(len(some)), fewest, together, widest)


def bands_by_width(columns: Ints, widths: Ints) -> Iterator[PieceBand]:
    """Where pieces may lie on several kinds, a table is a mix of options, each of as many pieces of a width as its columns make."""
    pieces = columns[:, None] / widths
    for fewer, most in pairwise([0, *_PIECES.tolist()]):
        within = (pieces > fewer) & (pieces <= most) & (pieces >= 1)
        some = np.flatnonzero(within.any(axis=1))
        if len(some):
            yield _width_band(some, pieces[some], within[some])


def _width_band(some: Ints, pieces: Floats, within: Bools) -> PieceBand:
    fewest = np.where(within, pieces, np.inf).min(axis=1)
    most = np.where(within, pieces, 1.0).max(axis=1)
    scale = pieces / fewest[:, None]

    def together(priced: PricedWidths) -> PricedWidths:
        return _each(priced, lambda part: least_within(part * scale.reshape(*scale.shape, *(1,) * (part.ndim - 2)), within))

    def widest(priced: PricedWidths) -> PricedWidths:
        return _each(priced, lambda part: least_within(part, within))

    return PieceBand(some, fewest, 1 / most, np.ones(len(some), np.int64), together, widest)


def _each(priced: PricedWidths, reduced: Callable[[Floats], Floats]) -> PricedWidths:
    return PricedWidths(*map(reduced, (priced.time_us, priced.hbm_bytes, priced.ddr_bytes, priced.served_us)))


def _per(values: Floats, count: Ints) -> Floats:
    """[n, ...] over a number for each n."""
    return np.asarray(values / count.reshape(-1, *(1,) * (values.ndim - 1)))


def least_within(values: Floats, within: Bools) -> Floats:
    """[n, ...] the least over the widths in `within` ([n, W]) of values [n, W, ...]."""
    mask = within.reshape(*within.shape, *([1] * (values.ndim - 2)))
    return np.asarray(np.where(mask, values, np.inf).min(axis=1))
