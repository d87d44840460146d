"""How ids lie in a table, and so what each block of its rows takes of its lookups.

Hashed ids spread rows evenly: a block takes its share of them, and of sequences, whose vectors come whole from where they lie, the hottest
rows besides that are in it. Where ids lie by frequency the first block is the hottest, and a measured order says what equal parts of the rows take. Row splits are contiguous blocks, so the rank of a hot block gets its lookups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, model_validator

from emplace.placement.access import AccessDistribution, Share
from emplace.placement.document import Document, broken_rule
from emplace.placement.hashing import hashed_rows
from emplace.placement.sums import add_up

MAX_PARTS = 4096

MOST_HOT_ROWS, HOT_SHARE = 64, 1 / 1000
"""Hashed rows that are reckoned one by one: so many at most, those that take such a share of the lookups more than the mean row."""

Floats = NDArray[np.float64]


class MeasuredOrder(Document):
    """The share of the accesses that each of equally large parts of the rows takes, from the first row to the last."""

    measured: Annotated[tuple[Share, ...], Field(min_length=1, max_length=MAX_PARTS)]

    @model_validator(mode="after")
    def _sums_to_one(self) -> MeasuredOrder:
        if abs(add_up(self.measured) - 1) > 1e-6:
            raise broken_rule("/measured", self.measured, f"must sum to 1, they sum to {add_up(self.measured):.9g}")
        return self


BY_FREQUENCY: Literal["by_frequency"] = "by_frequency"
ID_ORDERS = ("hashed", BY_FREQUENCY, "measured")


def _spelling(value: Any) -> str | None:
    if isinstance(value, MeasuredOrder) or (isinstance(value, dict) and list(value) == ["measured"]):
        return "measured"
    return value if isinstance(value, str) and value in ID_ORDERS[:2] else None


IdOrder = Annotated[
    Annotated[Literal["hashed"], Tag("hashed")]
    | Annotated[Literal["by_frequency"], Tag("by_frequency")]
    | Annotated[MeasuredOrder, Tag("measured")],
    Discriminator(
        _spelling,
        custom_error_type="id_order",
        custom_error_message="must be hashed, by_frequency or {measured: [share of accesses, ...]}",
    ),
]


class RowShare(NamedTuple):
    """What a block of rows takes of its table, 0..1."""

    lookups: Any
    unique_rows: Any

    @classmethod
    def even(cls, share: Any) -> RowShare:
        """What a block with this share of the rows takes where hot rows are spread evenly."""
        return cls(share, share)


@dataclass(frozen=True)
class RowCurves:
    """How lookups and the different rows among them add up from the first row of a table to the last: lines between points."""

    rows: Floats
    """[points] shares of the rows, 0 to 1; so are the others."""
    lookups: Floats
    unique_rows: Floats

    def block(self, first: Any, end: Any) -> RowShare:
        """What the rows between two shares of the rows take."""
        each = (np.interp(end, self.rows, curve) - np.interp(first, self.rows, curve) for curve in (self.lookups, self.unique_rows))
        return RowShare(*each)


def row_curves(order: IdOrder | None, accesses: AccessDistribution, lookups: float, sent_once: float | None) -> RowCurves | None:
    """The curves of so many lookups on such a table; None where hot rows are spread evenly. `sent_once` are lookups that send each row once."""
    if order is None or order == "hashed":
        return None
    rows, mass = accesses.rows / accesses.rows.sum(), accesses.mass
    if isinstance(order, MeasuredOrder):
        # Inside a part, accesses spread over rows as over the whole table.
        mass = np.array(order.measured) / add_up(order.measured)
        rows = np.full(len(mass), 1.0 / len(mass))

    def unique_of(lookups: float) -> Floats:
        if not isinstance(order, MeasuredOrder):
            return _seen(accesses.rows, accesses.row_probability, lookups)
        parts = len(order.measured)
        return np.array([_seen(accesses.rows / parts, accesses.row_probability * share * parts, lookups).sum() for share in mass])

    asked = mass if sent_once is None else unique_of(sent_once)
    return RowCurves(_curve(rows, rows), _curve(asked, mass), _curve(unique_of(lookups), mass))


def hashed_curves(
    name: str, num_embeddings: int, accesses: AccessDistribution, lookups: float, sent_once: float | None
) -> RowCurves | None:
    """The curves of a table whose ids are hashed: its hottest rows lie one by one, the others evenly. None where no row is hot."""
    hot = _hottest(accesses, num_embeddings)
    if not len(hot):
        return None
    place = hashed_rows(name, num_embeddings, np.arange(len(hot)))
    order = np.argsort(place)
    between = np.diff(place[order], prepend=-1, append=num_embeddings) - 1
    rest = between / max(num_embeddings - len(hot), 1)

    def along(of_hot: Floats, of_rest: float) -> Floats:
        """[2 hot + 1] from the first row to the last: what is between hot rows, and each of them."""
        parts = np.empty(2 * len(hot) + 1)
        parts[::2], parts[1::2] = rest * of_rest, of_hot[order]
        return parts

    def unique_of(lookups: float) -> Floats:
        seen = _seen(np.ones(len(hot)), hot, lookups)
        return along(seen, max(float(accesses.unique_rows(lookups)) - seen.sum(), 0.0))

    rows, mass = along(np.ones(len(hot)), num_embeddings - len(hot)), along(hot, max(1 - hot.sum(), 0.0))
    asked = mass if sent_once is None else unique_of(sent_once)
    return RowCurves(_curve(rows, rows), _curve(asked, mass), _curve(unique_of(lookups), mass))


def _hottest(accesses: AccessDistribution, num_embeddings: int) -> Floats:
    """[hot] the probabilities of the rows that take much more than others, hottest first."""
    ranks = np.arange(min(MOST_HOT_ROWS, num_embeddings))
    each = accesses.row_probability[np.searchsorted(np.cumsum(accesses.rows)[:-1], ranks, side="right")]
    return np.asarray(each[each > HOT_SHARE + 1 / num_embeddings])


def _seen(rows: Floats, probability: Floats, lookups: float) -> Floats:
    """[bins] how many rows of each bin are expected among so many lookups."""
    return np.asarray(rows * -np.expm1(lookups * np.log1p(-np.minimum(probability, 1 - 1e-15))))


def _curve(parts: Floats, otherwise: Floats) -> Floats:
    """From 0 to 1 by these steps; by others where there are none, because nothing is looked up."""
    ends = np.cumsum(parts if parts.sum() > 0 else otherwise)
    return np.append(0.0, ends / ends[-1])


def block_hit_rate(order: IdOrder | None, accesses: AccessDistribution, factor: Any, first: Any, end: Any) -> Any:
    """The share of a block's lookups that a cache of the hottest `factor` of its rows takes; the block is between two shares of the rows.

    By frequency, a block is a stretch of rows that get ever colder. Otherwise its rows are as unlike as those of the table.
    """
    if order != BY_FREQUENCY:
        return accesses.hit_rate(factor)
    before, within, after = (accesses.hit_rate(place) for place in (first, first + (end - first) * np.asarray(factor), end))
    whole = np.asarray(after - before)
    return np.where(whole > 0, (within - before) / np.where(whole > 0, whole, 1.0), 1.0)
