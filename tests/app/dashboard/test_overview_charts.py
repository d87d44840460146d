"""The charts of the overview: their data, then what is drawn of it."""

from __future__ import annotations

import re

import pytest

from emplace.app.dashboard.charts.spread import histogram_chart, spread_chart
from emplace.app.dashboard.drawing.histogram import draw_histogram
from emplace.app.dashboard.drawing.spread import draw_spread
from emplace.studies.distribution import BucketScale, Distribution, FigureCounter


def of(scale: BucketScale, *figures: float) -> Distribution:
    counter = FigureCounter()
    for figure in figures:
        counter.add_one(figure)
    found = counter.distribution(scale)
    assert found is not None
    return found


def test_shares_stand_on_a_scale_of_all_that_there_is() -> None:
    chart = spread_chart("Utilisation", {"dense": of(BucketScale.SHARE, 0.1, 0.2, 0.3), "my_disk": of(BucketScale.SHARE, 1.0)})
    assert chart is not None
    assert (chart.axis.low, chart.axis.high) == (0.0, 1.0)
    assert [(row.label, row.jobs, row.median) for row in chart.rows] == [("dense layers", 3, 0.2), ("my disk", 1, 1.0)]
    drawn = draw_spread(chart)
    assert drawn.count('class="limit"') == 2
    assert "half of 3 jobs from 10% to 30%" in drawn
    assert spread_chart("Utilisation", {}) is None


def test_counts_have_room_beside_the_largest() -> None:
    chart = spread_chart("Servers", {"trainers": of(BucketScale.AMOUNT, 1, 400), "readers": of(BucketScale.AMOUNT, 0)})
    assert chart is not None
    assert chart.axis.high > 400
    assert "400" in draw_spread(chart)


def test_bars_are_as_tall_as_their_buckets_are_full() -> None:
    chart = histogram_chart("Hash size", of(BucketScale.AMOUNT, 100, 100, 100, 1500))
    assert [(bar.low, bar.share) for bar in chart.bars] == [(100, 0.75), (200, 0), (500, 0), (1000, 0.25)]
    assert chart.note == "median 100, mean 450, 100 to 1.50k"
    heights = [float(height) for height in re.findall(r'class="segment second"[^>]* height="([\d.]+)"', draw_histogram(chart))]
    assert heights[3] == pytest.approx(heights[0] / 3, abs=0.01)
    assert heights[1] == 0
