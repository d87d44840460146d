"""Cuts by counting whole tables: of n tables on m devices some device has n / m of them, rounded up.

The class relaxation spreads them evenly, in shares that no device can have. docs/explanation/bounds.md proves the cuts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Floats, Ints, Scope
from emplace.solver.relaxation.aggregate import world_load
from emplace.solver.relaxation.program import Relaxation

_MOST_TO_A_DEVICE = 2
"""Whole tables to a device, the longest ones: with more of them, rounding up raises a bound by less, and takes as long."""
_LEAST_VIOLATION = 1e-3
"""Share of the makespan: each round is a linear program more, for which less is not worth it."""


class _Cut(NamedTuple):
    """Some tables that may be whole on one kind of device, in one stage."""

    over_us: float
    """By how much the relaxation violates it."""
    kind: int
    stage: int
    tables: tuple[int, ...]
    least_us: float
    """What each of them takes at least where it is whole."""


class PackingCuts:
    """On m devices of a kind, let N of n tables be whole, each with at least w in stage k, where q m < n <= (q + 1) m. Then

    s[k] >= w (q + (N - q m) / (n - q m))  +  what the other tables put on every device.
    """

    def __init__(self, cover: Cover) -> None:
        self.whole = np.flatnonzero((cover.option_scope == Scope.DEVICE) & (cover.count == 1))
        self.table, self.kind = cover.option_table[self.whole], cover.option_kind[self.whole]
        self.load_us = cover.least_us[self.whole, self.kind]
        self.devices = np.bincount(cover.device_kind, minlength=cover.num_kinds)
        self.world = world_load(cover)[:, :-1]
        self.taken: set[tuple[int, int, tuple[int, ...]]] = set()

    def violated(self, relaxation: Relaxation) -> tuple[Floats, Floats, Ints]:
        """Rows [O, cuts], their capacities and stages: the most violated cut of each kind and stage."""
        tolerance_us = _LEAST_VIOLATION * float(relaxation.makespan.sum())
        everywhere_us = relaxation.x @ self.world
        cuts = [
            cut
            for kind in np.unique(self.kind).tolist()
            for stage in range(len(relaxation.makespan))
            if (cut := self._most_violated(kind, stage, relaxation, float(everywhere_us[stage]))) is not None
            and cut.over_us > tolerance_us
            and cut[1:4] not in self.taken
        ]
        self.taken.update(cut[1:4] for cut in cuts)
        rows = [self._row(cut) for cut in cuts]
        coefficient = np.stack([row for row, _ in rows], axis=1) if rows else np.empty((len(relaxation.x), 0))
        return coefficient, np.array([capacity for _, capacity in rows]), np.array([cut.stage for cut in cuts], dtype=np.int64)

    def _most_violated(self, kind: int, stage: int, relaxation: Relaxation, everywhere_us: float) -> _Cut | None:
        """Of the tables that take most in the stage where they are whole, those that the relaxation has most of."""
        here = np.flatnonzero(self.kind == kind)
        tables, place = np.unique(self.table[here], return_inverse=True)
        share = np.bincount(place, weights=relaxation.x[self.whole[here]], minlength=len(tables))
        least_us = np.full(len(tables), np.inf)
        np.minimum.at(least_us, place, self.load_us[here, stage])
        some = np.flatnonzero(share > 0)
        devices = int(self.devices[kind])
        by_time = some[np.argsort(-least_us[some], kind="stable")][: _MOST_TO_A_DEVICE * devices]
        best: _Cut | None = None
        for number in range(devices + 1, len(by_time) + 1):
            longest = by_time[:number]
            by_share = longest[np.argsort(-share[longest], kind="stable")]
            sizes = np.arange(devices + 1, number + 1)
            whole = (sizes - 1) // devices
            rest = (share[by_share].cumsum()[sizes - 1] - whole * devices) / (sizes - whole * devices)
            over_us = least_us[longest[-1]] * (whole + rest) + everywhere_us - relaxation.makespan[stage]
            most = int(over_us.argmax())
            if best is None or over_us[most] > best.over_us:
                chosen = tuple(sorted(tables[by_share[: sizes[most]]].tolist()))
                best = _Cut(float(over_us[most]), kind, stage, chosen, float(least_us[longest[-1]]))
        return best

    def _row(self, cut: _Cut) -> tuple[Floats, float]:
        devices, number = int(self.devices[cut.kind]), len(cut.tables)
        whole = (number - 1) // devices
        row = self.world[:, cut.stage].copy()
        of_cut = self.whole[(self.kind == cut.kind) & np.isin(self.table, cut.tables)]
        each_us = cut.least_us / (number - whole * devices)
        row[of_cut] += each_us
        return row, each_us * whole * devices - cut.least_us * whole
