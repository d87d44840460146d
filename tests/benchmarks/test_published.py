"""Published times of GPU hosts: lookups and TorchRec's steps are predicted as well as the page says, and the page is what is generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.published import fbgemm_lookups, torchrec_dlrm
from benchmarks.published.page import page
from benchmarks.published.points import Point, mean_error, worst_factor

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


@pytest.fixture(scope="module")
def lookups() -> list[Point]:
    return list(fbgemm_lookups.points())


def test_lookups_on_one_h100(lookups: list[Point]) -> None:
    assert len(lookups) == 10
    assert mean_error(lookups) < 0.2
    assert worst_factor(lookups) < 1.5
    # That cache is empty when the benchmark begins, and evicts what it would need again.
    assert [point.what for point in lookups if not point.is_in_range] == ["fused_uvm_caching, sgd, forward"]


def test_a_step_of_torchrec_that_launches_decide() -> None:
    small = next(torchrec_dlrm.points())
    assert small.published_ms == 10.0
    assert 0.75 < small.ratio < 1.33
    assert small.is_in_range
    assert small.slow_ms < 2.6 * small.fast_ms


def test_the_page_is_of_these_times(lookups: list[Point]) -> None:
    rows = [line for line in page(lookups).splitlines() if line.startswith("| fused")]
    assert len(rows) == len(lookups)
    assert set(rows) <= set(PAGE.read_text(encoding="utf-8").splitlines())


def test_a_point_knows_how_far_it_is_off() -> None:
    point = Point("p", "what", "torchrec-eager", 2.0, 1.0, 0.5, 1.5)
    assert (point.ratio, worst_factor([point])) == (0.5, 2.0)
    assert mean_error([point]) == pytest.approx(1.0)
    assert not point.is_in_range
