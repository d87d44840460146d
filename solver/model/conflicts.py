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
    if groups:
        import scipy  # takes longer to import than an easy check
    for group in groups:
        may = np.ones((len(group), num_devices), dtype=bool) if allowed is None else allowed[list(group)]
        if (scipy.sparse.csgraph.maximum_bipartite_matching(scipy.sparse.csr_matrix(may), perm_type="column") < 0).any():
            yield group
