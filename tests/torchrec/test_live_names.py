"""A plan for a described model leaves and comes back by the names that the live model has."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass

import pytest
from torch import nn
from torchrec.distributed.types import ShardingPlan

from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan, placements
from emplace.placement.plan import Plan, TablePlacement
from emplace.placement.reading import from_data
from tests.torchrec.models import Model, collection, config, planner, sharders

pytestmark = pytest.mark.torch


def _towers() -> list[nn.Module]:
    """Two collections, each with a table `user`, and a table whose name no document can have."""
    return [
        collection(config("user", 3000), config("page/id v2", features=["pages"])),
        collection(config("user", 500, features=["other"]), config("item")),
    ]


MODULES = {
    "below each other": Model(**dict(zip(("left", "right"), _towers(), strict=True))),
    "numbered": nn.ModuleList(_towers()),
    "in a row": nn.Sequential(*_towers()),
    "with dashes": nn.ModuleDict(dict(zip(("my-ebc", "other"), _towers(), strict=True))),
}


def _planned(module: nn.Module) -> tuple[ShardingPlan, Plan]:
    made = planner()
    plan = made.plan(module, sharders())
    assert made.last_plan is not None
    return plan, made.last_plan


@pytest.mark.parametrize("kind", ["below each other", "numbered", "in a row"])
def test_a_plan_is_exported_by_the_paths_and_tables_of_the_live_model(kind: str) -> None:
    plan, document = _planned(MODULES[kind])
    exported = to_torchrec(document)["plan"]
    plain = {path: ["page-id-v2" if "/" in name else name for name in tables] for path, tables in plan.plan.items()}
    assert {path: list(tables) for path, tables in exported.items()} == plain


@pytest.mark.parametrize("kind", MODULES)
def test_a_live_plan_is_imported_for_the_described_model(kind: str) -> None:
    plan, document = _planned(MODULES[kind])
    dumped = json.dumps({"plan": plan.plan}, default=lambda value: asdict(value) if is_dataclass(type(value)) else str(value))
    assert _imported(json.loads(dumped), document) == _placed(document.tables)


@pytest.mark.parametrize("kind", MODULES)
def test_what_was_exported_is_imported(kind: str) -> None:
    _, document = _planned(MODULES[kind])
    assert _imported(to_torchrec(document), document) == _placed(document.tables)


def _imported(theirs: object, document: Plan) -> list[tuple[str, set[object]]]:
    question = document.question
    return _placed(placements(from_data(theirs, TheirPlan, source="theirs"), "theirs", question, question.topology(with_servers=False)))


def _placed(tables: tuple[TablePlacement, ...]) -> list[tuple[str, set[object]]]:
    return [(table.name, {(shard.rank, shard.rows, shard.columns) for shard in table.shards}) for table in tables]
