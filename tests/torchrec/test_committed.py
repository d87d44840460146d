"""A plan file that was committed beside the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from torchrec.distributed.planner import ParameterConstraints
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

from emplace.placement.plan import Plan
from emplace.torchrec import EmplaceShardingPlanner
from tests.torchrec.models import config, model, planner, sharders, shards, topology

pytestmark = pytest.mark.torch

GIB = 2**30


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = planner()
    made.plan(model(config("a", 2000), config("b")), sharders())
    return _written(made, tmp_path_factory.mktemp("committed") / "plan.json")


def _written(made: EmplaceShardingPlanner, path: Path) -> Path:
    assert made.last_plan is not None
    path.write_text(made.last_plan.model_dump_json(exclude_none=True))
    return path


def _refused(path: Path, *tables: Any, world_size: int = 2) -> tuple[PlannerErrorType, str]:
    with pytest.raises(PlannerError) as error:
        planner(topology(world_size), plan_file=path).plan(model(*tables), sharders())
    return error.value.error_type, str(error.value)


def test_it_is_used_for_its_own_model(committed: Path) -> None:
    made = planner(plan_file=committed)
    plan = made.plan(model(config("a", 2000), config("b")), sharders())
    assert made.last_plan == Plan.model_validate_json(committed.read_text())
    assert list(shards(plan)) == ["a", "b"]


def test_another_model_is_refused_with_what_changed(committed: Path) -> None:
    kind, text = _refused(committed, config("a", 3000), config("c"))
    assert kind is PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH
    assert "the table c is new" in text
    assert "the table b is gone" in text
    assert "num_embeddings of the table a was 2000 and is 3000" in text
    assert "was made for another model: plan again, and commit" in text


def test_tables_in_another_order(committed: Path) -> None:
    assert "the tables stand in another order" in _refused(committed, config("b"), config("a", 2000))[1]


def test_another_job_is_refused(committed: Path) -> None:
    kind, text = _refused(committed, config("a", 2000), config("b"), world_size=4)
    assert kind is PlannerErrorType.PLAN_LOADING_FAILED
    assert "must be for the topology's 4 ranks, 4 a node" in text


WHOLE = {"big": ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])}
"""A table that is the same on any device."""


@pytest.mark.parametrize(
    ("made_for", "used_on", "named"),
    [
        (
            {"hbm_cap": 80 * GIB},
            {"hbm_cap": 16 * GIB},
            "/ranks/0/hbm_bytes: must be at most the 15.00 GiB that topology and reservation leave",
        ),
        (
            {"device": "cpu", "ddr_cap": 80 * GIB},
            {"device": "cpu", "ddr_cap": 8 * GIB},
            "/nodes/0/ddr_bytes: must be at most the 15.00 GiB that topology and reservation leave",
        ),
        ({}, {"device": "cpu"}, "/question/host/node/devices: must be for the topology's devices, cpu"),
    ],
)
def test_another_machine_is_refused(made_for: dict[str, Any], used_on: dict[str, Any], named: str, tmp_path: Path) -> None:
    """The memory is named where most is missing. A sixteenth stays free."""
    module = model(config("big", 4 * 10**7, 128))
    made = planner(topology(**{"hbm_cap": 80 * GIB} | made_for), constraints=WHOLE)
    made.plan(module, sharders())
    path = _written(made, tmp_path / "plan.json")
    assert planner(topology(**{"hbm_cap": 80 * GIB} | made_for), constraints=WHOLE, plan_file=path).plan(module, sharders())
    with pytest.raises(PlannerError, match=re.escape(named)) as error:
        planner(topology(**used_on), constraints=WHOLE, plan_file=path).plan(module, sharders())
    assert error.value.error_type is PlannerErrorType.PLAN_LOADING_FAILED
    assert str(error.value).count("plan again for this job") == 1


def test_a_file_that_fails_the_audit(committed: Path, tmp_path: Path) -> None:
    data = json.loads(committed.read_text())
    data["tables"][0]["shards"] = data["tables"][0]["shards"][:1]
    data["tables"][0]["shards"][0]["rows"] = [0, 7]
    (tmp_path / "broken.json").write_text(json.dumps(data))
    kind, text = _refused(tmp_path / "broken.json", config("a", 2000), config("b"))
    assert kind is PlannerErrorType.PLAN_LOADING_FAILED
    assert "broken.json: /tables/" in text


def test_no_file(tmp_path: Path) -> None:
    kind, text = _refused(tmp_path / "none.json", config("a"))
    assert kind is PlannerErrorType.PLAN_LOADING_FAILED
    assert "none.json" in text
