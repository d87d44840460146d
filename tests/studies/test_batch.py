"""Batch sizes through `emplace.batch` and `emplace batch`: throughput that saturates, and quality from nothing but what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import emplace
from emplace.app.cli.output import as_text
from emplace.app.reports.batch_svg import throughput_svg, to_quality_svg
from emplace.app.reports.batch_text import batch_view
from emplace.studies.batch import BatchPoint, BatchSizes
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]

HOST = "big-basin-32g"
BATCHES = (64, 1024, 4096, 16384)
SMALL: dict[str, Any] = {"settings": ["sparse=4", "mlp=64^2"], "work_limit": 0.2}
NOISE: dict[str, Any] = {
    "model": "suite",
    "noise_scale": 8192.0,
    "low": 4096.0,
    "high": 16384.0,
    "squared_gradient": 1.0,
    "gradient_variance": 8192.0,
    "small_batch": 64,
    "large_batch": 1024,
    "pairs": 50,
}
CURVE = {"quality": "NE 0.78", "points": [{"global_batch": 8192, "examples": "100M"}, {"global_batch": 32768, "steps": 6103.515625}]}


def points(found: BatchSizes) -> tuple[BatchPoint, ...]:
    return found.hosts[0].points


def asked(**given: Any) -> BatchSizes:
    return emplace.batch("suite", HOST, BATCHES, **SMALL, **given)


@pytest.fixture(scope="module")
def bare() -> BatchSizes:
    return asked()


def test_the_saturation_point_is_the_smallest_batch_with_nine_tenths_of_the_highest_throughput(bare: BatchSizes) -> None:
    rates = [point.figures.throughput or 0.0 for point in points(bare)]
    assert [point.local_batch for point in points(bare)] == list(BATCHES)
    assert bare.hosts[0].saturation == next(
        batch for batch, rate in zip(BATCHES, rates, strict=True) if rate >= bare.saturated_at * max(rates)
    )
    assert rates[0] < 0.5 * max(rates)
    assert not bare.hosts[0].still_rises


def test_the_global_batch_is_that_of_all_trainers(bare: BatchSizes) -> None:
    assert [point.global_batch for point in points(bare)] == [8 * batch for batch in BATCHES]


def test_where_throughput_still_rises_it_is_said() -> None:
    found = emplace.batch("suite", HOST, BATCHES[:2], **SMALL)
    assert found.hosts[0].still_rises
    assert "saturates later" in as_text(batch_view(found))
    assert 'class="ring"' not in throughput_svg(found)


def test_without_a_measurement_no_quality_is_said(bare: BatchSizes) -> None:
    assert all(point.to_quality is None for point in points(bare))
    assert bare.hosts[0].best is None
    assert "reached" not in as_text(batch_view(bare))


def test_a_curve_is_followed_and_not_left() -> None:
    found = asked(curve=CURVE)
    assert [point.to_quality is not None for point in points(found)] == [False, True, True, False]
    for point, examples in zip(points(found)[1:3], (1e8, 2e8), strict=True):
        to, throughput = point.to_quality, point.figures.throughput
        assert to is not None
        assert throughput is not None
        assert to.examples == pytest.approx(examples)
        assert to.time_s == pytest.approx(examples / throughput)
        assert to.time_range_s is not None
        assert to.time_s is not None
        assert to.time_range_s[0] < to.time_s < to.time_range_s[1]
    shown = as_text(batch_view(found))
    assert "to NE 0.78" in shown
    assert "not known" in shown


def test_between_two_points_of_a_curve_examples_are_straight_in_logarithms() -> None:
    found = emplace.batch("suite", HOST, [2048], curve=CURVE, **SMALL)
    to = points(found)[0].to_quality
    assert to is not None
    assert to.examples == pytest.approx(1e8 * 2**0.5)


def test_a_noise_scale_alone_compares_batches_and_counts_no_examples() -> None:
    found = asked(noise=NOISE)
    costs = []
    for point in points(found):
        to = point.to_quality
        assert to is not None
        assert (to.examples, to.time_s) == (None, None)
        assert to.examples_over_least is not None
        assert to.examples_over_least == pytest.approx(1 + (point.global_batch or 0) / 8192)
        costs.append(to.examples_over_least / (point.figures.throughput or 1.0))
    assert found.hosts[0].best == BATCHES[costs.index(min(costs))]
    low, high = found.hosts[0].best_range or (0, 0)
    assert low <= (found.hosts[0].best or 0) <= high
    assert "time over the best" in to_quality_svg(found)


def test_a_noise_scale_goes_on_from_a_curve_of_one_point() -> None:
    found = asked(noise=NOISE, curve={"points": [{"global_batch": 8192, "examples": 1e8}]})
    examples = [point.to_quality.examples for point in points(found) if point.to_quality]
    assert examples == pytest.approx([1e8 * (1 + 8 * batch / 8192) / 2 for batch in BATCHES])
    known, far = points(found)[1].to_quality, points(found)[3].to_quality
    assert known is not None
    assert far is not None
    assert known.time_range_s is not None
    assert far.time_range_s is not None
    assert far.time_range_s[1] / far.time_range_s[0] > 1.4 * known.time_range_s[1] / known.time_range_s[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"noise": NOISE | {"model": "m1"}}, "no model's noise says another's"),
        ({"noise": NOISE, "curve": CURVE}, "a curve of one point"),
        ({"noise": NOISE | {"low": 9000.0}}, "must not be above noise_scale"),
        ({"curve": {"points": [{"global_batch": 8, "examples": 1, "steps": 1}]}}, "either examples or steps"),
        ({"curve": {"points": [{"global_batch": 8, "steps": 1}, {"global_batch": 8, "steps": 1}]}}, "must be more than the one before"),
        ({"curve": {"points": [{"global_batch": "many", "examples": 1}]}}, "must be a number above 0"),
    ],
)
def test_what_is_wrong_with_a_measurement_is_said_before_anything_is_solved(given: dict[str, Any], said: str) -> None:
    with pytest.raises(emplace.InvalidDocument, match=said):
        asked(**given)


@pytest.mark.parametrize("batches", ["", "64,", "64,64", "0", "1.5", "many"])
def test_batches_that_are_none_are_refused(batches: str, emplace_here: Emplace) -> None:
    done = emplace_here("batch", "suite", "--host", HOST, "--batches", batches)
    assert done.returncode == 2
    assert "--batches" in done.stderr


def test_the_command_reads_a_curve_of_csv_and_writes_a_document(tmp_path: Path, emplace_here: Emplace) -> None:
    (tmp_path / "curve.csv").write_text("global_batch, examples\n512, 100M\n32768, 200M\n")
    small = ("--set", "sparse=4", "--set", "mlp=64^2", "--work-limit", "0.2", "--processes", "1")
    done = emplace_here(
        "batch", "suite", "--host", HOST, "--batches", "64,4096", "--curve", tmp_path / "curve.csv", *small, "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    found = BatchSizes.model_validate(json.loads(done.stdout))
    assert [round(point.to_quality.examples or 0) for point in points(found) if point.to_quality] == [100_000_000, 200_000_000]


def test_a_csv_with_other_names_is_refused(tmp_path: Path, emplace_here: Emplace) -> None:
    (tmp_path / "curve.csv").write_text("batch,examples\n512,100M\n")
    done = emplace_here("batch", "suite", "--host", HOST, "--batches", "64", "--curve", tmp_path / "curve.csv")
    assert done.returncode == 2
    assert "global_batch" in done.stderr
