"""Tiny problems, of which only what matters is said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from emplace.solver.model.problem import Floats, Problem, Scope


def plain_problem(unit_time_us: Floats, *, hbm_capacity: ArrayLike, unit_hbm_bytes: ArrayLike = 0, **others: Any) -> Problem:
    """Trainers alike on one node, with one pool of system memory, and tables of one option, of one unit, for a single device; `others` says
    what is otherwise. Times are [U, G, K], and bytes [U, G] or what can be spread out to that."""
    units, kinds, stages = unit_time_us.shape
    capacity = np.array(hbm_capacity, dtype=np.int64)
    devices, alike = len(capacity), np.zeros(len(capacity), dtype=np.int64)
    options = len(others.get("option_first_unit", range(units + 1))) - 1
    scope = np.array(others.get("option_scope", np.full(options, Scope.DEVICE)), dtype=np.int64)
    usual: dict[str, Any] = {
        "device_kind": alike,
        "device_node": alike,
        "device_is_trainer": np.ones(devices, dtype=bool),
        "device_pool": alike,
        "ddr_capacity": np.zeros(1, dtype=np.int64),
        "constant_us": 0.0,
        "stage_base_us": np.zeros(stages),
        "option_table": np.arange(options),
        "option_kind": np.where(scope == Scope.DEVICE, 0, -1),
        "option_first_unit": np.arange(units + 1),
        "unit_ddr_bytes": np.zeros((units, kinds), dtype=np.int64),
    }
    said = usual | others | {"option_scope": scope, "hbm_capacity": capacity, "unit_time_us": unit_time_us}
    return Problem(**said, unit_hbm_bytes=np.zeros((units, kinds), dtype=np.int64) + np.array(unit_hbm_bytes))
