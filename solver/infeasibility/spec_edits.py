"""Changes to the options and the model that may make a question feasible, smallest first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from emplace.placement.memory import optimizer_state_bytes, weight_bytes
from emplace.placement.model import Constraints, DataType, Table, Tier
from emplace.placement.plan import Question
from emplace.placement.topology import allowed_tiers
from emplace.solver.infeasibility.merge_patch import Edit
from emplace.solver.infeasibility.shortage import Case

_MARGINS = (1.02, 1.1, 1.5)
"""What sums ask to save is necessary, not sufficient: times these."""
_SHOWN_TABLES = 5


def tier_edits(question: Question) -> Iterator[Edit]:
    """Allow one more tier that the host has. Nobody is sent to CPU lookups, which TorchRec can't run; what has them can add HBM alone."""
    asked = question.options.tiers
    for tier in allowed_tiers(question.host, None):
        if asked is not None and tier not in asked and (tier is Tier.HBM or Tier.CPU not in asked):
            tiers = [each for each in Tier if each in (*asked, tier)]
            words = {Tier.HBM: "HBM", Tier.DDR: "system memory", Tier.REMOTE: "remote servers"}[tier]
            yield Edit(f"use {words} too: --tiers {','.join(tiers)}", "tier", {"options": {"tiers": [str(each) for each in tiers]}})


def reserve_edits(question: Question) -> Iterator[Edit]:
    """Keep nothing free beyond what the host document reserves."""
    asked = {"hbm_reserve": question.options.hbm_reserve, "ddr_reserve": question.options.ddr_reserve}
    stated = {key: value for key, value in asked.items() if value is not None}
    if stated:
        flags = " and ".join(f"--{key.replace('_', '-')} {value}" for key, value in stated.items())
        yield Edit(f"drop {flags}: the host's own reserve remains", "reserve", {"options": dict.fromkeys(stated)})


def constraint_edits(question: Question, cases: list[Case]) -> Iterator[Edit]:
    """Drop the constraints of the tables that fit nowhere, then those of all tables."""
    bound = [table.name for table in question.model.tables if table.constraints != Constraints()]
    stuck = {name for case in cases for name, _ in case.tables}
    for names in ([name for name in bound if name in stuck], bound):
        if names:
            change = f"remove the constraints of {_listed(names)}"
            yield Edit(change, "constraints", {"model": {"tables": {name: {"constraints": None} for name in names}}})


def together_edits(question: Question) -> Iterator[Edit]:
    """Let tables part that must be together."""
    if question.model.together:
        yield Edit("don't keep tables together (together in the model document)", "together", {"model": {"together": None}})


def apart_edits(question: Question) -> Iterator[Edit]:
    """Let tables share devices that must be apart."""
    if question.model.apart:
        yield Edit("don't keep tables apart (apart in the model document)", "apart", {"model": {"apart": None}})


def narrower_type_edits(question: Question, cases: list[Case]) -> Iterator[Edit]:
    """Store as few of the largest fp32 tables as will do in fp16."""
    wide = sorted((table for table in question.model.tables if table.data_type is DataType.FP32), key=weight_bytes, reverse=True)
    saved = list(accumulate(weight_bytes(table) // 2 for table in wide))
    for over in _overs(cases):
        count = int(np.searchsorted(saved, over)) + 1
        if count <= len(wide):
            names = [table.name for table in wide[:count]]
            change = f"store {_listed(names)} in fp16 instead of fp32"
            yield Edit(change, "data_type", {"model": {"tables": {name: {"data_type": "fp16"} for name in names}}})


def hash_size_edits(question: Question, cases: list[Case]) -> Iterator[Edit]:
    """Cap the hash size of the largest tables at one number."""
    tables = question.model.tables
    rows = np.array([table.num_embeddings for table in tables])
    per_row = np.array([_bytes_of(question, table) for table in tables]) / rows
    caps = np.unique([1, *rows])[::-1]
    saved = np.array([(np.maximum(rows - cap, 0) * per_row).sum() for cap in caps])
    for over in _overs(cases):
        if saved[-1] < over:
            continue
        # Between the two caps around `over`, savings are linear in the cap.
        below = int(np.searchsorted(saved, over))
        cut = rows > caps[below]
        cap = int(caps[below] + (saved[below] - over) / per_row[cut].sum())
        names = [table.name for table in tables if table.num_embeddings > cap]
        change = f"limit num_embeddings to {cap} in {_listed(names)}"
        yield Edit(change, "hash_size", {"model": {"tables": {name: {"num_embeddings": cap} for name in names}}})


def _overs(cases: list[Case]) -> list[float]:
    """Bytes to save, with margins: those of the program that is closest to fitting."""
    sums = [case.sums[0].over_bytes for case in cases if case.sums]
    return [min(sums) * margin for margin in _MARGINS] if sums else []


def _bytes_of(question: Question, table: Table) -> int:
    return weight_bytes(table) + int(optimizer_state_bytes(question.model.optimizer, table.num_embeddings, table.embedding_dim))


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_TABLES])
    more = f" and {len(names) - _SHOWN_TABLES} more" if len(names) > _SHOWN_TABLES else ""
    return f"table{'s' if len(names) > 1 else ''} {shown}{more}"
