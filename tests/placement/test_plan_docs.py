"""docs/reference/plan.md: it lists every key of a plan document, and no other; its example is a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from emplace.placement import certificate, diagnosis
from emplace.placement import plan as documents
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.document import Document
from emplace.placement.host import MAX_RANKS
from emplace.placement.plan import Plan, PlanOptions, PlanStatus, Question, StoppedBy
from emplace.placement.reading import from_data
from emplace.placement.stages import Stage
from emplace.solver.result import Limit, Result
from tests.prices import bandwidth_prices

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "plan.md").read_text(encoding="utf-8")
SECTIONS = {
    "Plan": documents.Plan,
    "Model and host": documents.ModelReference,
    "Cost model": documents.CostModelReference,
    "Ranks": documents.RankLoad,
    "Nodes": documents.NodeLoad,
    "Tables": documents.TablePlacement,
    "Shards": documents.Shard,
    "Hot ranks": documents.HotRank,
    "Explanation": documents.Explanation,
    "Fixes": documents.Fix,
    "Diagnosis": diagnosis.Diagnosis,
    "Stages": diagnosis.StageCost,
    "Costs of tables": diagnosis.TableCost,
    "Changes": diagnosis.HardwareChange,
    "Solver": documents.SolverRecord,
    "Fewest": documents.FewestDevices,
    "Sizes": documents.JobSize,
    "Proof": certificate.Proof,
    "Parts": certificate.ProofPart,
    "Two cases": certificate.Cases,
    "Proofs of cases": certificate.ProofCase,
    "Ways": certificate.HasWay,
    "Numbers of pieces": certificate.HasAtMost,
    "Weights": certificate.Weights,
    "Largest shards": certificate.LargestShard,
    "Fullest ranks": certificate.FullestRank,
    "Question": documents.Question,
    "Options": documents.PlanOptions,
}


def rows_of(section: str) -> list[str]:
    """The first cells of a section's table."""
    found = re.search(rf"^##+ {section}\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return re.findall(r"^\| (`.*?`) \|", found[1], re.MULTILINE)


@pytest.mark.parametrize(("section", "document"), SECTIONS.items(), ids=list(SECTIONS))
def test_every_key_is_explained_and_no_other(section: str, document: type[BaseModel]) -> None:
    keys = [key for cell in rows_of(section) for key in re.findall(r"`(\w+)`", cell)]
    assert sorted(keys) == sorted(document.model_fields)


def test_every_document_of_a_plan_has_a_section() -> None:
    parts = (documents, diagnosis, certificate)
    mine = {value for part in parts for value in vars(part).values() if isinstance(value, type) and value.__module__ == part.__name__}
    assert {kind for kind in mine if issubclass(kind, Document)} == set(SECTIONS.values())


def test_every_answer_is_explained() -> None:
    assert rows_of("Status")[-len(PlanStatus) :] == [f"`{status}`" for status in PlanStatus]


def test_every_word_is_named() -> None:
    ends = {Result(object(), 1.0, 0.5, "", limit).stopped_by for limit in Limit} | {
        Result[object].infeasible("").stopped_by,
        StoppedBy.IMPORTED,
    }
    assert ends == set(StoppedBy)
    words = {*Stage, *ends}
    assert [word for word in words if f"`{word}`" not in TEXT] == []


def test_limits_and_defaults_are_stated() -> None:
    defaults = PlanOptions()
    for fact in (
        f"1 .. {MAX_RANKS:,}",
        f"default `{defaults.objective}`",
        f"default {defaults.work_limit:g} where",
        f"default {defaults.gap:g} |",
        f"default {defaults.seed} |",
    ):
        assert fact in TEXT


def test_the_example_is_a_plan() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    host = builtin_host("dgx-h100")
    question = Question(model=builtin_model("ncf"), host=host, cost_model=bandwidth_prices(host), options=PlanOptions(ranks=2))
    shown = from_data(json.loads(block) | {"question": question.to_data()}, Plan, source="docs/reference/plan.md")
    assert shown.model.digest == question.model.content_digest()
    assert shown.host.digest == question.host.content_digest()
    optional = {key for key, field in Plan.model_fields.items() if type(None) in get_args(field.annotation)}
    assert set(Plan.model_fields) - set(json.loads(block)) - {"question"} <= optional
