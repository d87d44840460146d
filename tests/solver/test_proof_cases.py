"""Questions whose proofs were untrue once: each with a placement that the audit accepts and that the answer must not be above."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emplace.face import plan, read_host
from emplace.placement.audit import audit
from emplace.placement.plan import Plan
from emplace.solver.solve import solve_question
from tests.prices import bandwidth_prices
from tests.solver.questions import gpu_host, question, table

CASES = Path(__file__).parent / "cases"
ROUNDING = 1 + 1e-9


def answered(name: str) -> tuple[Plan, dict[str, Any]]:
    """The plan of a case, and the case: model, host and options, and a better placement than was once found."""
    case: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return plan(case["model"], case["host"], cost_model=bandwidth_prices(read_host(case["host"])), **case["options"]), case


@pytest.mark.parametrize("name", ["error-27", "error-46"])
def test_tables_that_are_kept_together_stay_table_wise(name: str) -> None:
    found, case = answered(name)
    assert audit(found) == []
    types = {table.name: table.sharding_type for table in found.tables}
    assert {types[table] for group in case["model"]["together"] for table in group} == {"table_wise"}


@pytest.mark.parametrize("name", sorted(each.stem for each in CASES.glob("bound-*.json")))
def test_no_bound_is_above_a_placement_that_runs(name: str) -> None:
    found, case = answered(name)
    assert audit(found) == []
    assert found.lower_bound_us is not None
    assert found.lower_bound_us <= case["better"]["step_time_us"] * ROUNDING


@pytest.mark.parametrize("name", sorted(each.stem for each in CASES.glob("infeasible-*.json")))
def test_what_fits_is_not_called_infeasible(name: str) -> None:
    found, case = answered(name)
    assert audit(found) == []
    assert found.has_placement
    assert found.lower_bound_us is not None
    assert found.lower_bound_us <= case["better"]["step_time_us"] * ROUNDING


@pytest.mark.parametrize(("model", "host", "tier"), [("tcw", "pair", "hbm"), ("cw3", "three", "hbm"), ("ps3", "three-ps", "remote")])
def test_a_pin_answers_no_better_than_the_same_question_without_it(model: str, host: str, tier: str) -> None:
    free, pinned = (plan(CASES / f"{name}.yaml", CASES / f"{host}.yaml", tiers=[tier]) for name in (model, f"{model}-pin"))
    assert free.gap is not None
    assert free.lower_bound_us is not None
    assert pinned.step_time_us is not None
    assert free.lower_bound_us <= pinned.step_time_us * ROUNDING
    assert free.gap <= free.question.options.gap


@pytest.mark.parametrize("local", [1, 2])
def test_uneven_pieces_of_a_grid_lie_side_by_side(local: int) -> None:
    """One node has room for a third of the columns."""
    spare = {"pin": {"sharding_type": "table_row_wise" if local > 1 else "table_wise", "ranks": list(range(local))}}
    tables = [
        table("pinned", 200_000 * local, 64, constraints=spare),
        table("grid", 420_000 * local, 48, constraints={"sharding_types": ["grid_shard"]}),
    ]
    found = solve_question(question(gpu_host(local, nodes=2, hbm="80MiB"), tables, tiers=["hbm"]))
    assert audit(found) == []
    widths = {end - start for start, end in (shard.columns for shard in found.tables[1].shards)}
    assert len(widths) == 2
