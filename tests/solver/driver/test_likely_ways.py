"""Searching first with the ways that the cases of the bound take."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.plan import PlanOptions
from emplace.planning import build_question
from emplace.solver.budget import Budget
from emplace.solver.driver import likely_ways
from emplace.solver.driver.likely_ways import solve_likely_first
from emplace.solver.driver.solve_program import solve_program
from emplace.solver.driver.solve_variants import type_search
from emplace.solver.driver.type_search import TypeProgram
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.extract import Placement
from emplace.solver.model.warm_start import with_warm_start
from emplace.solver.progress import Monitor
from emplace.solver.result import Result


@cache
def beside_servers() -> TypeProgram:
    """Five tables of 38 GiB, of which two fit into HBM."""
    asked = build_question(builtin_model("dlrm-dcnv2"), builtin_host("big-basin-16g"), PlanOptions())
    [variant] = [variant for variant in variants(asked) if variant.topology.servers]
    program = type_search(price(asked, variant.topology, variant.tiers), Monitor()).next_below(math.inf)
    assert program is not None
    return program


def test_cases_come_lowest_first_and_hold_different_placements() -> None:
    cases = beside_servers().cases
    assert len(cases) > 1
    for one, other in pairwise(cases):
        assert one.bound_us <= other.bound_us
        assert (one.allowed != other.allowed).any()


def test_tables_change_places_that_no_search_moves() -> None:
    """Without, ten times the work ends 5% above the bound: one large table too many is on servers, and none gets off."""
    program = beside_servers()
    found = solve_likely_first(program, Budget(1.0, gap=1e-3, seed=0), Monitor())
    assert found.solution is not None
    assert found.solution.fits
    assert found.lower_bound_us <= program.bound_us
    assert found.gap < 0.04


def test_a_warm_start_is_searched_from_with_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    program, asked_for = beside_servers(), []

    def solved(priced: object, *_: object) -> Result[Placement]:
        asked_for.append(priced)
        return Result.infeasible("told so")

    started = replace(program, priced=with_warm_start(program.priced, {}))
    monkeypatch.setattr(likely_ways, solve_program.__name__, solved)
    solve_likely_first(started, Budget(1.0, gap=1e-3, seed=0), Monitor())
    assert asked_for == [started.priced]
