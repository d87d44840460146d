"""Cuts by counting whole tables: of n tables on m devices some device has n / m of them, rounded up.

The class relaxation spreads them evenly, in shares that no device can have. docs/explanation/bounds.md proves the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Floats, Ints, Scope
from emplace.solver.relaxation.aggregate import world_load
from emplace.solver.relaxation.program import Relaxation

PACKING_ROUNDS = 4
"""Rounds of these cuts in a relaxation: more of them raise next to nothing."""
_MOST_TO_A_DEVICE = 2
"""Whole tables to a device, the longest ones: with more of them, rounding up raises a bound by less, and takes as long."""
_LEAST_VIOLATION = 1e-3
"""Share of the makespan: each round is a linear program more, for which less is not worth it."""


class PackingCut(NamedTuple):
    """Some tables that may be whole on one kind of device, in one stage."""

    kind: int
    stage: int
    tables: tuple[int, ...]
    least_us: float
    """What each of them takes at least where it is whole."""


@dataclass(frozen=True)
class WholeTables:
    """W options by which tables are whole on a device of some kind."""

    option: Ints
    table: Ints
    kind: Ints
    load_us: Floats
    """[W, K] what that device has of it at least."""
    devices: Ints
    """[G] how many there are of each kind."""

    def violated(self, x: Floats, makespan_us: Floats, everywhere_us: Floats) -> list[PackingCut]:
        """For each kind and stage the most violated cut. `x` has the share of every option, `everywhere_us` [K] what is on every device."""
        least = _LEAST_VIOLATION * float(makespan_us.sum())
        each = [
            self._most_violated(kind, stage, x, float(makespan_us[stage] - everywhere_us[stage]))
            for kind in np.unique(self.kind).tolist()
            for stage in range(len(makespan_us))
        ]
        return [cut for cut, over_us in each if cut is not None and over_us > least]

    def _most_violated(self, kind: int, stage: int, x: Floats, makespan_us: float) -> tuple[PackingCut | None, float]:
        """A cut of the tables that there is most of, among those that take most where they are whole; and by how much it is violated."""
        here = np.flatnonzero(self.kind == kind)
        tables, place = np.unique(self.table[here], return_inverse=True)
        share = np.bincount(place, weights=x[self.option[here]], minlength=len(tables))
        least_us = np.full(len(tables), np.inf)
        np.minimum.at(least_us, place, self.load_us[here, stage])
        some, devices = np.flatnonzero(share > 0), int(self.devices[kind])
        by_time = some[np.argsort(-least_us[some], kind="stable")][: _MOST_TO_A_DEVICE * devices]
        best, most_us = None, -np.inf
        for number in range(devices + 1, len(by_time) + 1):
            longest = by_time[:number]
            by_share = longest[np.argsort(-share[longest], kind="stable")]
            sizes = np.arange(devices + 1, number + 1)
            to_each = (sizes - 1) // devices
            rest = (share[by_share].cumsum()[sizes - 1] - to_each * devices) / (sizes - to_each * devices)
            over_us = least_us[longest[-1]] * (to_each + rest) - makespan_us
            if over_us.max() > most_us:
                most_us, size = float(over_us.max()), int(sizes[over_us.argmax()])
                best = PackingCut(kind, stage, tuple(sorted(tables[by_share[:size]].tolist())), float(least_us[longest[-1]]))
        return best, most_us


class PackingCuts:
    """On m devices of a kind, let N of n tables be whole, each with at least w in stage k, where q m < n <= (q + 1) m. Then

    s[k] >= w (q + (N - q m) / (n - q m))  +  what the other tables put on every device.
    """

    def __init__(self, cover: Cover) -> None:
        option = np.flatnonzero((cover.option_scope == Scope.DEVICE) & (cover.count == 1))
        kind, devices = cover.option_kind[option], np.bincount(cover.device_kind, minlength=cover.num_kinds)
        self.whole = WholeTables(option, cover.option_table[option], kind, cover.least_us[option, kind], devices)
        self.world = world_load(cover)[:, :-1]
        self.taken: set[PackingCut] = set()

    def violated(self, relaxation: Relaxation) -> tuple[Floats, Floats, Ints]:
        """Rows [O, cuts], their capacities and stages."""
        found = self.whole.violated(relaxation.x, relaxation.makespan, relaxation.x @ self.world)
        cuts = [cut for cut in found if cut not in self.taken]
        self.taken.update(cuts)
        rows = [self._row(cut) for cut in cuts]
        coefficient = np.stack([row for row, _ in rows], axis=1) if rows else np.empty((len(relaxation.x), 0))
        return coefficient, np.array([capacity for _, capacity in rows]), np.array([cut.stage for cut in cuts], dtype=np.int64)

    def _row(self, cut: PackingCut) -> tuple[Floats, float]:
        devices, number = int(self.whole.devices[cut.kind]), len(cut.tables)
        to_each = (number - 1) // devices
        row = self.world[:, cut.stage].copy()
        of_cut = self.whole.option[(self.whole.kind == cut.kind) & np.isin(self.whole.table, cut.tables)]
        each_us = cut.least_us / (number - to_each * devices)
        row[of_cut] += each_us
        return row, each_us * to_each * devices - cut.least_us * to_each
