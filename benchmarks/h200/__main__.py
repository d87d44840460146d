"""The tables of docs/lab/gpu.md: what a fit of the samples says of points and models that it did not see, and what datasheets say.

    python -m benchmarks.h200

It takes half a minute on any machine; no time is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from benchmarks.h200.measured import Trained, design, host, samples, trained
from benchmarks.markdown import head
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.stack import Pace
from emplace.profiler.design.points import Kind, LookupPoint
from emplace.profiler.fit.modelling import fit_cost_model
from emplace.profiler.fit.samples import Timed, together

BANDS_US = (0, 120, 300, 1000, np.inf)


def main() -> None:
    model = fit_cost_model(design(), samples(), host())
    sections = (fit_errors(model), steps(model, trained()), datasheet_lookups())
    print("\n\n".join("\n".join(section) for section in sections))


def fit_errors(model: CostModel) -> Iterator[str]:
    """How far the fit is from points that it did not see."""
    yield head("fitted without these points", "points", "mean error", "median", "worst")
    for each in model.residuals:
        if each.regime is None:
            yield f"| {each.what} | {each.points} | {each.mape:.1%} | {each.median:.1%} | {each.worst:.0%} |"


def steps(model: CostModel, runs: list[Trained]) -> Iterator[str]:
    """Whole steps of models that no profile has seen: measured, by the fit, by datasheets."""
    yield head("model", "measured ms", "by the fit, ms", "ratio", "at the profile's speed", "by datasheets, ms", "ratio")
    prices = {pace: datasheet_cost_model(host(), pace=pace) for pace in Pace}
    ratios = []
    for run in runs:
        measured_us, fitted_us = run.measured_us, run.step_us(model)
        ranged = sorted(run.step_us(each) for each in prices.values())
        typical_us = run.step_us(prices[Pace.TYPICAL])
        ratio, usual = fitted_us / measured_us, fitted_us / measured_us * run.slowness
        ratios.append((ratio, usual, typical_us / measured_us))
        yield (
            f"| {run.plan.model.name} | {measured_us / 1e3:.2f} | {fitted_us / 1e3:.2f} | {ratio:.2f} | {usual:.2f} "
            f"| {typical_us / 1e3:.2f} ({ranged[0] / 1e3:.2f} to {ranged[-1] / 1e3:.2f}) | {typical_us / measured_us:.2f} |"
        )
    errors, means = np.abs(np.array(ratios) - 1).mean(axis=0), np.exp(np.log(ratios).mean(axis=0))
    of_fit, of_usual, of_sheet = (f"{error:.1%} off, {mean:.2f} in the mean" for error, mean in zip(errors, means, strict=True))
    yield f"| all {len(runs)} | | | {of_fit} | {of_usual} | | {of_sheet} |"


def datasheet_lookups() -> Iterator[str]:
    """Lookups alone: datasheet prices over what was measured, by how long it took."""
    labels = [f"{low} to {high:.0f} us" if high < np.inf else f"over {low} us" for low, high in pairwise(BANDS_US)]
    yield head("datasheet price / measured", *labels)
    points, prices = design().lookups, datasheet_cost_model(host())
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (kind, index), one in together(samples()).items():
        if kind is Kind.LOOKUP:
            forward_us, backward_us = _priced_us(prices, points[index], one)
            found.setdefault((str(points[index].kernel), "forward"), []).append((one.forward_us, forward_us / one.forward_us))
            found.setdefault((str(points[index].kernel), "backward"), []).append((one.backward_us, backward_us / one.backward_us))
    for (kernel, direction), each in found.items():
        times, ratios = np.array(each).T
        bands = [(times >= low) & (times < high) for low, high in pairwise(BANDS_US)]
        shown = [f"{np.exp(np.log(ratios[band]).mean()):.2f} ({band.sum()})" if band.any() else "" for band in bands]
        yield f"| {kernel} {direction} | {' | '.join(shown)} |"


def _priced_us(prices: CostModel, point: LookupPoint, one: Timed) -> tuple[float, float]:
    cost = prices.kernel(host().node.devices[0].kind, point.kernel)
    assert cost is not None
    backward = cost.backward_of(point.optimizer, point.data_type)
    asked = [(t.lookups, t.unique_rows, t.row_bytes, t.bags, t.uneven_bags, t.bag_bytes, t.rows) for t in one.tables]
    return sum(float(cost.forward.time_us(*each)) for each in asked), sum(float(backward.time_us(*each)) for each in asked)


if __name__ == "__main__":
    main()
