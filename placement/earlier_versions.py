"""Documents of earlier versions, read as what they meant.

In version 1 of plans and questions `time_limit` was of counted work; it is called `work_limit` since. A plan within the gap that was asked
for could be called `optimal`; it is `feasible` since.
"""

from __future__ import annotations

from typing import Any

from emplace.placement.terms import OPTIMAL_GAP


def question_of_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a question of version 1 as one of version 2."""
    options = data.get("options")
    if not isinstance(options, dict) or "time_limit" not in options or "work_limit" in options:
        return data
    renamed = {"work_limit" if key == "time_limit" else key: value for key, value in options.items()}
    return data | {"options": renamed}


def plan_of_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a plan of version 1 as one of version 2. Its question has no version: where one has, nothing is changed."""
    solver, question = data.get("solver"), data.get("question")
    if isinstance(question, dict) and "schema_version" in question:
        return data
    gap = data.get("gap")
    if data.get("status") == "optimal" and isinstance(gap, float) and gap > OPTIMAL_GAP:
        data = data | {"status": "feasible"}
    return data | {"schema_version": 2, "solver": {"limit_kind": "work"} | solver if isinstance(solver, dict) else solver}
