"""Fixes of an infeasible question: changes of several kinds, each solved before it is offered."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import Fix, Question
from emplace.solver.budget import ANY_PLAN_GAP, FIX_SECONDS, Budget
from emplace.solver.driver.solve_program import is_feasible
from emplace.solver.infeasibility.hardware_edits import hbm_edits, node_edits, server_edits, system_memory_edits
from emplace.solver.infeasibility.merge_patch import Edit, patched
from emplace.solver.infeasibility.shortage import Case
from emplace.solver.infeasibility.spec_edits import (
    apart_edits,
    constraint_edits,
    hash_size_edits,
    narrower_type_edits,
    reserve_edits,
    tier_edits,
    together_edits,
)
from emplace.solver.progress import Monitor


def find_fixes(question: Question, cases: list[Case], monitor: Monitor) -> list[Fix]:
    """What needs no hardware comes first, and changes to the model after changes to the question; then the least memory to add."""
    found = []
    for edit in tier_edits(question):
        found += _first_verified(question, iter([edit]), monitor)
    for series in (
        reserve_edits(question),
        constraint_edits(question, cases),
        together_edits(question),
        apart_edits(question),
        narrower_type_edits(question, cases),
        hash_size_edits(question, cases),
    ):
        found += _first_verified(question, series, monitor)
    hardware = []
    for series in (
        hbm_edits(question, cases),
        system_memory_edits(question, cases),
        server_edits(question, cases),
        node_edits(question, cases),
    ):
        hardware += _first_verified(question, series, monitor)
    return found + sorted(hardware, key=lambda fix: fix.cost_bytes or 0)


def _first_verified(question: Question, series: Iterator[Edit], monitor: Monitor) -> list[Fix]:
    """The first edit of a series that a plan was found with, if any."""
    while not monitor.stopped():
        if (edit := next(series, None)) is None:
            break
        if _helps(question, edit, monitor):
            return [Fix(change=edit.change, kind=edit.kind, verified=True, cost_bytes=edit.cost_bytes, patch=edit.patch)]
    return []


def _helps(question: Question, edit: Edit, monitor: Monitor) -> bool:
    try:
        return is_feasible(patched(question, edit.patch), Budget(FIX_SECONDS, ANY_PLAN_GAP, question.options.seed), monitor)
    except InvalidDocument:
        return False  # more than the host or the documents can have
