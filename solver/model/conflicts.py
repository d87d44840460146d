"""Tables that may share no device: the groups, and whether they can be and are kept apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emplace.solver.model.problem import Assignment, Bools, Ints, Problem, Scope, target_devices

Groups = tuple[tuple[int, ...], ...]
"""Tables of the program, no two of a group on one device."""


def keeps_apart(problem: Problem, groups: Groups, assignment: Assignment) -> bool:
    """Whether no two tables of a group load one device."""
    covered = {table: devices_held(problem, assignment, table) for group in groups for table in group}
    return all(np.bincount(np.concatenate([covered[table] for table in group])).max() <= 1 for group in groups)


def devices_held(problem: Problem, assignment: Assignment, table: int) -> Ints:
    """The devices that a table of the assignment loads, rising."""
    scope = Scope(problem.option_scope[assignment.option[table]])
    return np.unique(np.concatenate([target_devices(problem, scope, target) for target in assignment.targets[table]]))


def crowded(groups: Groups, allowed: Bools | None, num_devices: int) -> Iterator[tuple[int, ...]]:
    """Groups with fewer devices than they need, even one for each table: no placement keeps them apart."""
    for group in groups:
        if len(group) > num_devices or (allowed is not None and not _have_one_each(allowed[list(group)])):
            yield group


def _have_one_each(may: Bools) -> bool:
    """Whether each row can be given a column of its own that it may have, by augmenting paths."""
    owner: dict[int, int] = {}
    given: dict[int, int] = {}
    is_free = np.ones(may.shape[1], dtype=bool)

    def end_of_path(row: int) -> tuple[int, dict[int, int]] | None:
        """A free column that the row, or an owner that can move, reaches; and by which row each column was reached."""
        reached_by: dict[int, int] = {}
        queue = [row]
        for each in queue:
            if (free := may[each] & is_free).any():
                column = int(free.argmax())
                return column, reached_by | {column: each}
            new = [column for column in np.flatnonzero(may[each]).tolist() if column not in reached_by]
            reached_by |= dict.fromkeys(new, each)
            queue += [owner[column] for column in new]
        return None

    for row in range(len(may)):
        if (found := end_of_path(row)) is None:
            return False
        reached_by: dict[int, int] = found[1]
        column: int | None = found[0]
        is_free[found[0]] = False
        while column is not None:
            mover = reached_by[column]
            owner[column], left = mover, given.get(mover)
            given[mover] = column
            column = left
    return True
