"""Distributions over jobs, held against the plain definition; and the trend of predictions."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import pytest

from emplace.studies.distribution import BucketScale, Distribution, FigureCounter, tally, three_digits
from emplace.studies.prediction_drift import Prediction, PredictionCounter

START = datetime(2026, 3, 1, tzinfo=UTC)


def counted(jobs: list[list[float]], scale: BucketScale = BucketScale.AMOUNT) -> Distribution:
    counter = FigureCounter()
    for figures in jobs:
        counter.add(tally(figures))
    found = counter.distribution(scale)
    assert found is not None
    return found


def quantile(jobs: list[list[float]], share: float) -> float:
    """The smallest figure that so large a share of the weight is at most, each job of weight one."""
    weighted = sorted((three_digits(figure), 1 / len(figures)) for figures in jobs for figure in figures)
    below = 0.0
    for figure, weight in weighted:
        below += weight
        if below >= share * len(jobs) - 1e-9:
            return figure
    return weighted[-1][0]


def test_quantiles_are_those_of_the_definition() -> None:
    rng = random.Random(3)
    for _ in range(50):
        jobs = [[10 ** rng.uniform(-2, 8) for _ in range(rng.randint(1, 40))] for _ in range(rng.randint(1, 30))]
        found = counted(jobs)
        named = {0.1: found.p10, 0.25: found.p25, 0.5: found.median, 0.75: found.p75, 0.9: found.p90}
        assert {share: quantile(jobs, share) for share in named} == named
        figures = [three_digits(figure) for job in jobs for figure in job]
        assert (found.min, found.max) == (min(figures), max(figures))
        mean = sum(sum(job) / len(job) for job in jobs) / len(jobs)
        assert found.mean == pytest.approx(mean, rel=5e-3)


def test_a_job_of_many_tables_weighs_as_much_as_one_of_one() -> None:
    found = counted([[10.0] * 1000, [20.0]])
    assert (found.jobs, found.count, found.mean) == (2, 1001, 15.0)
    assert (found.median, found.p75) == (10.0, 20.0)


def test_jobs_of_one_model_count_as_if_each_came_by_itself() -> None:
    together, apart = FigureCounter(), FigureCounter()
    together.add(tally([1, 2, 2]), jobs=3)
    for _ in range(3):
        apart.add(tally([2, 1, 2]))
    for each in (together, apart):
        each.add(())  # says nothing, and is not counted
        each.add_one(7)
    assert together.distribution(BucketScale.AMOUNT) == apart.distribution(BucketScale.AMOUNT)


@pytest.mark.parametrize(
    ("scale", "figures"),
    [
        (BucketScale.SHARE, [0.0, 0.05, 0.1, 0.95, 1.0]),
        (BucketScale.AMOUNT, [0.0, 1.0, 3.0, 64.0]),
        (BucketScale.AMOUNT, [0.0]),
        (BucketScale.AMOUNT, [1e-5, 1e12]),
        (BucketScale.AMOUNT, [30.0, 2e7]),
        (BucketScale.RATIO, [0.01, 1.0, 99.0]),
        (BucketScale.RATIO, [1.0]),
    ],
)
def test_buckets_hold_every_job_once(scale: BucketScale, figures: list[float]) -> None:
    found = counted([[figure] for figure in figures], scale)
    assert sum(bucket.share for bucket in found.buckets) == pytest.approx(1)
    assert all(bucket.low < bucket.high for bucket in found.buckets)
    assert [bucket.high for bucket in found.buckets[:-1]] == [bucket.low for bucket in found.buckets[1:]]
    for number, bucket in enumerate(found.buckets):
        is_last = number == len(found.buckets) - 1
        held = sum(bucket.low <= figure and (figure < bucket.high or is_last) for figure in found_figures(figures, found))
        assert bucket.share == pytest.approx(held / len(figures))


def found_figures(figures: list[float], found: Distribution) -> list[float]:
    """What lies below the first bucket is in it."""
    return [max(figure, found.buckets[0].low) for figure in figures]


def test_memory_does_not_grow_with_figures() -> None:
    rng, counter = random.Random(5), FigureCounter()
    for _ in range(200):
        counter.add(tally(10 ** rng.uniform(3, 5) for _ in range(500)))
    assert len(counter._weights) <= 1801


def predictions(ratios: list[float], every: timedelta) -> Prediction:
    counter = PredictionCounter()
    for number, ratio in enumerate(ratios):
        counter.add(1000.0 * ratio, 1000.0, START + number * every)
    found = counter.prediction()
    assert found is not None
    return found


def test_a_drift_is_found_with_its_size() -> None:
    found = predictions([0.9 * 1.02 ** (day / 30) for day in range(90)], timedelta(days=1))
    assert found.trend is not None
    assert found.trend.is_clear
    assert found.trend.per_30_days == pytest.approx(0.02, rel=1e-6)
    assert (found.period, found.dated, sum(period.jobs for period in found.periods)) == ("week", 90, 90)


def test_noise_is_no_drift() -> None:
    rng = random.Random(1)
    found = predictions([math.exp(rng.gauss(0, 0.1)) for _ in range(200)], timedelta(hours=1))
    assert found.trend is not None
    assert not found.trend.is_clear
    assert found.period == "day"


def test_measurements_of_less_than_a_day_show_no_trend() -> None:
    """What a machine does within minutes says nothing of 30 days."""
    ratios = [0.8, 0.9, 1.0, 1.2]
    assert predictions(ratios, timedelta(minutes=1)).trend is None
    assert predictions(ratios, timedelta(hours=7)).trend is None
    assert predictions(ratios, timedelta(hours=8)).trend is not None


def test_what_is_not_dated_is_in_no_period() -> None:
    counter = PredictionCounter()
    assert counter.prediction() is None
    counter.add(900.0, 1000.0, None)
    counter.add(1100.0, 1000.0, START)
    found = counter.prediction()
    assert found is not None
    assert (found.ratio.jobs, found.dated, len(found.periods), found.trend) == (2, 1, 1, None)


def test_years_are_told_apart_by_months() -> None:
    found = predictions([1.0] * 400, timedelta(days=2))
    assert (found.period, found.periods[0].starts.isoformat()) == ("month", "2026-03-01")
    assert found.trend is not None
    assert not found.trend.is_clear
