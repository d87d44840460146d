"""What a relaxation mixes and no placement does: a table has one way, a sharding type and a kernel on trainers or on servers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emplace.solver.model.problem import Floats, Ints


class MixOfWays(NamedTuple):
    """A table that has several ways in a relaxation."""

    table: int
    way: int
    """The one that most of it has."""
    others_us: float
    """The time of all that has another."""


def heaviest_mix_of_ways(table: Ints, way: Ints, taken: Floats, time_us: Floats) -> MixOfWays:
    """Where the most time is of other ways than the table's main one: from each option's table, way, share that is taken, and time ([O])."""
    shape = (int(table.max()) + 1, int(way.max()) + 1)
    shares, times_us = np.zeros(shape), np.zeros(shape)
    np.add.at(shares, (table, way), taken)
    np.add.at(times_us, (table, way), taken * time_us)
    main = shares.argmax(axis=1)
    others_us = times_us.sum(axis=1) - times_us[np.arange(len(main)), main]
    heaviest = int(others_us.argmax())
    return MixOfWays(heaviest, int(main[heaviest]), float(others_us[heaviest]))
