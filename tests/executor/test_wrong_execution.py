"""An execution that does something else than the plan says is caught, by the verdict that can see it."""

from __future__ import annotations

import pytest

from emplace.executor.launch import Launch
from emplace.executor.run import run_plans
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from tests.executor.plans import build_plan, make_model, mixed_layouts

pytestmark = pytest.mark.torch

PROGRAM = ["tests.executor.programs.wrong_rank"]


@pytest.fixture(scope="module")
def wrong(here: HostSpec, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measurement]:
    models = [make_model(name) for name in ("moved", "swapped", "swapped-and-denied", "right")]
    plans = [build_plan(model, here, mixed_layouts(model), ranks=2) for model in models]
    workdir = tmp_path_factory.mktemp("wrong")
    measurements = run_plans(plans, Launch(steps=1, seed=7, workdir=workdir, timeout_s=240, program=PROGRAM))
    return {model.name: measurement for model, measurement in zip(models, measurements, strict=True)}


def _failed(measurement: Measurement) -> dict[str, str]:
    return {verdict.name: verdict.detail for verdict in measurement.verdicts if not verdict.passed and verdict.name != "throughput"}


def test_the_same_program_is_right_when_it_changes_nothing(wrong: dict[str, Measurement]) -> None:
    assert _failed(wrong["right"]) == {}


def test_a_table_on_the_wrong_rank(wrong: dict[str, Measurement]) -> None:
    failed = _failed(wrong["moved"])
    assert "missing: item rows 0..5000 columns 0..16 on rank 0" in failed["placement"]
    assert "not in the plan: item rows 0..5000 columns 0..16 on rank 1" in failed["placement"]
    assert not wrong["moved"].verified


def test_swapped_column_ranges(wrong: dict[str, Measurement]) -> None:
    assert "user" in _failed(wrong["swapped"])["placement"]


def test_swapped_column_ranges_that_look_right(wrong: dict[str, Measurement]) -> None:
    """Only the update shows it: the shards claim to be what the plan says."""
    failed = _failed(wrong["swapped-and-denied"])
    assert list(failed) == ["numerics"]
    assert "table user" in failed["numerics"]
