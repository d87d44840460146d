"""How the columns of a table are divided: mixes of widths, or a number of pieces.

Where pieces may lie on several classes of ranks, a table in pieces of w1, w2, ... of C columns takes the share w / C of the choice of each of
its pieces. The choice of a width is as many such pieces as C columns make, C / w, whole or not; the shares come to 1, and the loads are
exactly those of the pieces. Where all pieces lie on one class, a choice is a number of pieces, with the least that so many take together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.placement.proof.classes import Bools, Floats, Ints

_ROUNDED = 1e-12
"""The share of each of its terms that a line is lowered by: more than it is off by rounding."""


class Divisions(Protocol):
    """P choices, from the figures of a single piece [n, W, ...] of each of W widths."""

    def pieces(self) -> Ints:
        """[P] how many pieces a table is in that takes the choice; 0 where it is a mix."""

    def are_whole(self) -> Bools:
        """[P] whether it is one piece."""

    def share(self) -> Floats:
        """[P] a placement that has any of the choice has at least this share of it."""

    def together(self, values: Floats) -> Floats:
        """[n, P, ...] what all pieces take together, at least."""

    def widest(self, values: Floats) -> Floats:
        """[n, P, ...] what the widest of the pieces takes at least, on average over the choices that a placement is a mix of."""


@dataclass(frozen=True)
class ByWidth:
    """As many pieces of each width as the columns make."""

    columns: int
    widths: Ints

    def pieces(self) -> Ints:
        return np.zeros(len(self.widths), np.int64)

    def are_whole(self) -> Bools:
        return np.asarray(self.widths == self.columns)

    def share(self) -> Floats:
        return self.widths / self.columns

    def together(self, values: Floats) -> Floats:
        return values * _along(self.columns / self.widths, values)

    def widest(self, values: Floats) -> Floats:
        return values


@dataclass(frozen=True)
class ByNumber:
    """1 to `most` pieces, of any widths that are multiples of COLUMN_MULTIPLE; or of one given width, or whole."""

    columns: int
    widths: Ints
    most: int

    @property
    def _numbers(self) -> Ints:
        """[P]"""
        if len(self.widths) == 1:
            return self.columns // self.widths
        return np.arange(1, min(self.most, self.columns // COLUMN_MULTIPLE) + 1)

    def pieces(self) -> Ints:
        return self._numbers

    def are_whole(self) -> Bools:
        return np.asarray(self._numbers == 1)

    def share(self) -> Floats:
        return np.ones(len(self._numbers))

    def together(self, values: Floats) -> Floats:
        if len(self.widths) == 1:
            return values * float(self._numbers[0])
        last = len(self.widths) - 1
        lines = [self._on_line(values, last >> half >> 1, last >> half) for half in range(last.bit_length())]
        return np.concatenate([values[:, -1:], np.maximum(np.max(lines, axis=0), 0.0)[:, 1:]], axis=1)

    def _on_line(self, values: Floats, first: int, second: int) -> Floats:
        """No piece of w columns takes less than a + b w, so n of them, C columns together, take n a + C b; through two of the widths, and
        lowered to be nowhere above."""
        slope = (values[:, second] - values[:, first]) / (self.widths[second] - self.widths[first])
        height = (values - slope[:, None] * _along(self.widths, values)).min(axis=1)
        parts = height[:, None] * _along(self._numbers, values), (slope * self.columns)[:, None]
        return np.asarray(parts[0] + parts[1] - _ROUNDED * (np.abs(parts[0]) + np.abs(parts[1]) + values[:, -1:]))

    def widest(self, values: Floats) -> Floats:
        wide = self.widths * self._numbers[:, None] >= self.columns
        return np.stack([values[:, each].min(axis=1) for each in wide], axis=1)


def _along(each: Ints | Floats, values: Floats) -> Floats:
    """[W] or [P] as [W, 1, ...], to be multiplied with values [n, W, ...]."""
    return np.reshape(each, (-1, *(1,) * (values.ndim - 2))).astype(np.float64)
