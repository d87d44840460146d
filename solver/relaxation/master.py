"""The master program of the bound's column generation, in HiGHS: it grows, and goes on from where it last ended."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from emplace.solver.highs import add_rows, new_program, use_primal_simplex
from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.relaxation.program import Rows

OVERLOAD_PRICE = 1e3
"""Price of a capacity exceeded once over, in sums of makespans: far above any that capacity can have on real hosts."""


@dataclass(frozen=True)
class Optimum:
    """Over the options that the master holds."""

    value: float
    x: Floats
    """[of the options, as they were added]"""
    makespan: Floats
    """[K]"""
    overload: float
    """What all memory rows and the budget are exceeded by, in shares of their limit."""
    dual: Floats
    """[R + 1] of the rows and of the budget."""


class OptionMaster:
    """minimise price . s + overload  over  x >= 0, one in sum for each table, s >= lower, the rows, and the budget on the sum of s.

    Memory rows and the budget are elastic at a high price, so that there always is a solution. Times are in units of `scale`.
    """

    def __init__(self, rows: Rows, tables: int, lower: Floats, budget: float, scale: float) -> None:
        self._rows, self._budget, self._scale = rows, budget, scale
        limit, stages = rows.capacity / _weight(rows, scale), len(lower)
        makespan = np.zeros((stages, len(limit)))
        makespan[rows.stage[~rows.memory], np.flatnonzero(~rows.memory)] = -rows.slope[~rows.memory]
        soft = np.flatnonzero(rows.memory)
        if np.isfinite(budget):
            makespan, limit = np.column_stack([makespan, np.full(stages, scale / budget)]), np.append(limit, 1.0)
            soft = np.append(soft, len(limit) - 1)
        overload = np.zeros((len(soft), len(limit)))
        overload[np.arange(len(soft)), soft] = -1.0
        self._stages, self._first_option, self._first_table = stages, stages + len(soft), len(limit)
        self._highs = new_program()
        add_rows(self._highs, np.full(len(limit), -np.inf), limit)
        add_rows(self._highs, np.ones(tables), np.ones(tables))
        self._add_columns(lower / scale, makespan)
        self._add_columns(np.zeros(len(soft)), overload)

    def add(self, options: Ints, tables: Ints) -> None:
        """Options of the rows, and the table of each."""
        share = np.zeros((len(options), self._first_table))
        share[:, : len(self._rows.stage)] = self._rows.coefficient[options] / _weight(self._rows, self._scale)
        self._add_columns(np.zeros(len(options)), share, tables)

    def start_at(self, basic: Bools, dual: Floats) -> None:
        """Start where these of the options that were added are basic, and of the limits those with the least duals: [R + 1] of the rows
        and of the budget, or of fewer rows. Left alone where that makes no basis."""
        price = np.zeros(len(self._rows.stage) + 1)
        price[: len(dual) - 1], price[-1] = dual[:-1], dual[-1]
        loose = self._highs.getNumRow() - self._stages - int(basic.sum())
        if not 0 <= loose <= self._first_table:
            return
        status, basis = highspy.HighsBasisStatus, highspy.HighsBasis()
        row = np.full(self._highs.getNumRow(), status.kUpper, dtype=object)
        row[np.argsort(price[: self._first_table], kind="stable")[:loose]] = status.kBasic
        basis.row_status = row.tolist()
        overloads = self._first_option - self._stages
        basis.col_status = [
            *[status.kBasic] * self._stages,
            *[status.kLower] * overloads,
            *(status.kBasic if each else status.kLower for each in basic.tolist()),
        ]
        basis.valid = True
        self._highs.setBasis(basis)
        use_primal_simplex(self._highs)

    def solve(self, price: Floats, *, elastic: bool, seconds: float = np.inf) -> Optimum | None:
        """None where it takes longer than `seconds`, or HiGHS gives up: a bound holds without. With `elastic` the objective is the
        overload, and nothing else."""
        if seconds <= 0.0:
            return None
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        overload = np.full(self._first_option - self._stages, 1.0 if elastic else OVERLOAD_PRICE)
        cost = np.concatenate([np.zeros(self._stages) if elastic else price, overload])
        self._highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        # What comes are options and prices: the last solution stays one.
        use_primal_simplex(self._highs)
        return self._optimum(1.0 if elastic else self._scale)

    def _optimum(self, unit: float) -> Optimum:
        """In the units of the rows; the objective is in `unit`."""
        solution, rows = self._highs.getSolution(), len(self._rows.stage)
        column, dual = np.array(solution.col_value), -unit * np.array(solution.row_dual[: self._first_table])
        on_budget = dual[rows:].sum() / self._budget
        return Optimum(
            value=self._highs.getInfo().objective_function_value * unit,
            x=column[self._first_option :],
            makespan=column[: self._stages] * self._scale,
            overload=float(column[self._stages : self._first_option].sum()),
            dual=np.append(dual[:rows] / _weight(self._rows, self._scale), on_budget),
        )

    def _add_columns(self, lower: Floats, share: Floats, tables: Ints | None = None) -> None:
        """Columns of at least `lower` that take `share` [columns, limits], and each is one of a table's choices."""
        column, row = np.nonzero(share)
        value = share[column, row]
        if tables is not None:
            column, row = np.append(column, np.arange(len(share))), np.append(row, self._first_table + tables)
            value, order = np.append(value, np.ones(len(share))), np.argsort(column, kind="stable")
            column, row, value = column[order], row[order], value[order]
        start = np.searchsorted(column, np.arange(len(share))).astype(np.int32)
        upper = np.full(len(share), np.inf)
        done = self._highs.addCols(len(share), np.zeros(len(share)), lower, upper, len(row), start, row.astype(np.int32), value)
        if done == highspy.HighsStatus.kError:
            raise RuntimeError(f"the linear program was not built: shares from {value.min()} to {value.max()}")


def _weight(rows: Rows, scale: float) -> Floats:
    """[R] the unit of each row's limit."""
    return np.where(rows.memory, 1.0, scale)
