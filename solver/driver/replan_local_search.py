"""A plan made better table by table, from the places that several plans have for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from emplace.placement.moving import move_cost_us, moved_bytes
from emplace.placement.plan import TablePlacement
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Floats, Ints

MAX_ROUNDS = 5
"""Passes over all units: the last ones seldom move any."""
_Plan = tuple[TablePlacement, ...]


@dataclass(frozen=True)
class _Place:
    """One place for the tables of a unit."""

    tables: _Plan
    ranks: Ints
    """[n] the ranks that it loads."""
    time_us: Floats
    """[n, K]"""
    hbm_bytes: Ints
    """[n]"""
    ddr_bytes: Ints
    """[n]"""
    move_us: float


class ReplanLocalSearch:
    """Step time and the price of moving, over plans in which every unit (a table, or a group kept together) has one of its places."""

    def __init__(
        self, priced: PricedQuestion, start: _Plan, us_per_gib: float, plans: Iterable[_Plan], held: Mapping[str, TablePlacement]
    ) -> None:
        self._priced, self._start, self._us_per_gib = priced, start, us_per_gib
        names = [table.name for table in priced.question.model.tables]
        self._index = {name: number for number, name in enumerate(names)}
        grouped = {name: group for group in priced.question.model.together or () for name in group}
        self._units = list(dict.fromkeys(grouped.get(name, (name,)) for name in names))
        self._places: list[dict[_Plan, _Place]] = [{} for _ in self._units]
        for plan in plans:
            for number, tables in enumerate(self._by_unit(plan)):
                self._add(number, tables)
        for number, unit in enumerate(self._units):
            if all(name in held for name in unit):
                self._add(number, tuple(held[name] for name in unit))
        unit_of = {name: number for number, unit in enumerate(self._units) for name in unit}
        self._apart: list[set[int]] = [set() for _ in self._units]
        for group in priced.question.model.apart or ():
            for name in group:
                self._apart[unit_of[name]] |= {unit_of[other] for other in group} - {unit_of[name]}
        fixed_hbm, fixed_ddr = priced.fixed_bytes
        self._pool = priced.problem.device_pool
        self._hbm = priced.problem.hbm_capacity + fixed_hbm
        self._ddr = priced.problem.ddr_capacity.copy()
        np.add.at(self._ddr, self._pool, fixed_ddr)

    def improved(self, plan: _Plan) -> _Plan:
        """`plan`, with units moved to other places while each move lowers the cost."""
        chosen = [self._places[number][_bare(tables)] for number, tables in enumerate(self._by_unit(plan))]
        time_us = np.repeat(self._priced.problem.stage_base_us[None, :], len(self._pool), axis=0)
        hbm, ddr = self._hbm.copy(), self._ddr.copy()
        for place in chosen:
            self._book(place, time_us, hbm, ddr, 1)
        for _ in range(MAX_ROUNDS):
            changed = False
            for number in sorted(range(len(chosen)), key=lambda each: (-chosen[each].move_us, each)):
                changed |= self._moved(number, chosen, time_us, hbm, ddr)
            if not changed:
                break
        return self._in_order(chosen)

    def _moved(self, number: int, chosen: list[_Place], time_us: Floats, hbm: Ints, ddr: Ints) -> bool:
        """Put one unit where it costs least."""
        now = chosen[number]
        if len(self._places[number]) == 1:
            return False
        cost = {id(now): float(time_us.max(axis=0).sum()) + now.move_us}
        self._book(now, time_us, hbm, ddr, -1)
        best = now
        taken = {rank for other in self._apart[number] for rank in chosen[other].ranks.tolist()}
        for place in self._places[number].values():
            if place is not now and taken.isdisjoint(place.ranks.tolist()):
                self._book(place, time_us, hbm, ddr, 1)
                if (hbm >= 0).all() and (ddr >= 0).all():
                    cost[id(place)] = float(time_us.max(axis=0).sum()) + place.move_us
                    if cost[id(place)] < cost[id(best)] * (1 - 1e-12):
                        best = place
                self._book(place, time_us, hbm, ddr, -1)
        self._book(best, time_us, hbm, ddr, 1)
        chosen[number] = best
        return best is not now

    def _book(self, place: _Place, time_us: Floats, hbm: Ints, ddr: Ints, sign: int) -> None:
        time_us[place.ranks] += sign * place.time_us
        hbm[place.ranks] -= sign * place.hbm_bytes
        np.subtract.at(ddr, self._pool[place.ranks], sign * place.ddr_bytes)

    def _by_unit(self, plan: _Plan) -> list[_Plan]:
        placed = {table.name: table for table in plan}
        return [tuple(placed[name] for name in unit) for unit in self._units]

    def _add(self, number: int, tables: _Plan) -> None:
        key = _bare(tables)
        if key not in self._places[number]:
            load = self._priced.pricer.fixed_load(Fixed({self._index[table.name]: table for table in tables}, ()))
            ranks = np.unique([shard.rank for table in tables for shard in table.shards])
            move_us = move_cost_us(moved_bytes(self._priced.question.model, self._start, tables), self._us_per_gib)
            self._places[number][key] = _Place(key, ranks, load.time_us[ranks], load.hbm_bytes[ranks], load.ddr_bytes[ranks], move_us)

    def _in_order(self, chosen: list[_Place]) -> _Plan:
        placed = {table.name: table for place in chosen for table in place.tables}
        return tuple(placed[name] for name in self._index)


def _bare(tables: _Plan) -> _Plan:
    """Without bytes, so that equal placements are equal."""
    return tuple(
        table.model_copy(update={"shards": tuple(shard.model_copy(update={"hbm_bytes": 0, "ddr_bytes": 0}) for shard in table.shards)})
        for table in tables
    )
