"""Fixes of an infeasible question: changes of several kinds, each solved before it is offered."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import Fix, Question
from emplace.solver.driver.attempt import is_feasible
from emplace.solver.infeasibility.hardware_edits import hbm_edits, node_edits, server_edits, system_memory_edits
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.infeasibility.shortage import Case
from emplace.solver.infeasibility.spec_edits import (
    Edit,
    apart_edits,
    constraint_edits,
    hash_size_edits,
    narrower_type_edits,
    reserve_edits,
    tier_edits,
    together_edits,
)
from emplace.solver.result import Limits, ShouldStop

VERIFY_SECONDS = 1.0
"""Work spent on one change."""
VERIFY_GAP = 0.9
"""Any plan shows that the change helps."""


def find_fixes(question: Question, cases: list[Case], should_stop: ShouldStop | None) -> list[Fix]:
    """What needs no hardware comes first, and changes to the model after changes to the question; then the least memory to add."""
    found = []
    for edit in tier_edits(question):
        found += _first_verified(question, iter([edit]), should_stop)
    for series in (
        reserve_edits(question),
        constraint_edits(question, cases),
        together_edits(question),
        apart_edits(question),
        narrower_type_edits(question, cases),
        hash_size_edits(question, cases),
    ):
        found += _first_verified(question, series, should_stop)
    hardware = []
    for series in (
        hbm_edits(question, cases),
        system_memory_edits(question, cases),
        server_edits(question, cases),
        node_edits(question, cases),
    ):
        hardware += _first_verified(question, series, should_stop)
    return found + sorted(hardware, key=lambda fix: fix.cost_bytes or 0)


def _first_verified(question: Question, series: Iterator[Edit], should_stop: ShouldStop | None) -> list[Fix]:
    """The first edit of a series that a plan was found with, if any."""
    while should_stop is None or not should_stop():
        if (edit := next(series, None)) is None:
            break
        if _helps(question, edit, should_stop):
            return [Fix(change=edit.change, kind=edit.kind, verified=True, cost_bytes=edit.cost_bytes, patch=edit.patch)]
    return []


def _helps(question: Question, edit: Edit, should_stop: ShouldStop | None) -> bool:
    try:
        return is_feasible(patched(question, edit.patch), Limits(VERIFY_SECONDS, VERIFY_GAP, question.options.seed), should_stop)
    except InvalidDocument:
        return False  # more than the host or the documents can have
