"""The CostModel that a set of samples supports, with the error of every part on points it did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement.cost_model import CostModel, KernelCost, Residual, datasheet_cost_model
from placement.errors import ToolError
from placement.host import HostSpec
from placement.model import ComputeKernel, DataType, Optimizer
from profiler.fit import Array, LookupFit, LookupPoints, fit_lookup, held_out, residual
from profiler.points import Design, Kind, LookupPoint, Sample
from profiler.samples import Timed, repeat_noise, together
from profiler.step_fit import COLLECTIVES, DENSE_LAYERS, WHOLE_STEPS, StepFit, fit_points
from profiler.step_fit import residuals as step_residuals

_FEWEST_LOOKUPS, _FEWEST_STEPS, _FEWEST_OTHERS = 10, 8, 3

_Shares = dict[str, dict[Any, float]]
TimedPoints = dict[tuple[Kind, int], Timed]


def fit_cost_model(design: Design, samples: list[list[Sample]], host: HostSpec) -> CostModel:
    """Fit lookups, then everything else. Raises ToolError when too few points were measured for a part."""
    timed = together(samples)
    kernels, shares, residuals = _kernels(design, timed, host.node.devices[0].kind)
    fit = StepFit(host, len(samples), tuple(kernels))
    points = fit.points(design, timed)
    _refuse_too_few(WHOLE_STEPS, sum(point.what == WHOLE_STEPS for point in points), _FEWEST_STEPS)
    _refuse_too_few(DENSE_LAYERS, sum(point.what == DENSE_LAYERS for point in points), _FEWEST_OTHERS)
    model = fit.cost_model(fit_points(points), tuple(kernels)).model_copy(update=shares)
    if len(samples) == 1:
        # Nothing was exchanged. A job of one rank pays nothing; should more be priced with this model, the host's figures hold.
        model = model.model_copy(update=dict.fromkeys(COLLECTIVES, datasheet_cost_model(host).all_to_all))
    return model.model_copy(update={"residuals": (*residuals, *step_residuals(points, design.seed)), "noise": repeat_noise(samples)})


@dataclass(frozen=True)
class _Lookups:
    """The measured lookup points of one kernel: those the fit is made of, and variants that only are compared with it."""

    points: Sequence[LookupPoint]
    timed: Sequence[Timed]

    def direction(self, name: str, kernel: ComputeKernel) -> LookupPoints:
        times = np.array([timed.forward_us if name == "forward" else timed.backward_us for timed in self.timed])
        return LookupPoints([timed.tables for timed in self.timed], times, kernel is ComputeKernel.DENSE and name == "backward")


def _kernels(design: Design, timed: TimedPoints, device: str) -> tuple[list[KernelCost], _Shares, list[Residual]]:
    """Of row-wise Adagrad in fp32, and what the backward of `fused` takes of that with other optimizers and data types."""
    costs, residuals = [], []
    shares: _Shares = {}
    for kernel in dict.fromkeys(point.kernel for point in design.lookups):
        fits: dict[str, LookupFit] = {}
        standard = _select(design, timed, kernel, Optimizer.ROWWISE_ADAGRAD, DataType.FP32)
        _refuse_too_few(f"{kernel} lookups", len(standard.points), _FEWEST_LOOKUPS)
        for name in ("forward", "backward"):
            points = standard.direction(name, kernel)
            fits[name] = fit_lookup(points)
            predicted = held_out(len(points.times_us), design.seed, partial(_predict_unseen, points))
            residuals.append(residual(f"{kernel} {name}", predicted, points.times_us))
        costs.append(KernelCost(device=device, kernel=kernel, forward=fits["forward"].cost, backward=fits["backward"].cost))
        if kernel is ComputeKernel.FUSED:
            shares, of_variants = _variants(design, timed, fits)
            residuals += of_variants
    return costs, shares, residuals


def _select(design: Design, timed: TimedPoints, kernel: ComputeKernel, optimizer: Optimizer, data_type: DataType) -> _Lookups:
    wanted = (kernel, optimizer, data_type)
    found = [
        (point, timed[Kind.LOOKUP, index])
        for index, point in enumerate(design.lookups)
        if (Kind.LOOKUP, index) in timed and (point.kernel, point.optimizer, point.data_type) == wanted
    ]
    return _Lookups([point for point, _ in found], [one for _, one in found])


def _predict_unseen(points: LookupPoints, seen: NDArray[np.intp], unseen: NDArray[np.intp]) -> Array:
    return fit_lookup(_part(points, seen)).predict(_part(points, unseen))


def _part(points: LookupPoints, chosen: NDArray[np.intp]) -> LookupPoints:
    return LookupPoints([points.groups[index] for index in chosen], points.times_us[chosen], points.with_gradient)


def _variants(design: Design, timed: TimedPoints, fits: dict[str, LookupFit]) -> tuple[_Shares, list[Residual]]:
    """Median shares of the fit's backward, and how far the fit with them is from points with other optimizers and data types."""
    optimizers: dict[Optimizer, float] = {}
    data_types: dict[DataType, float] = {}
    residuals = []
    variants: list[tuple[dict[Any, float], Any, _Lookups]] = [
        *((optimizers, one, _select(design, timed, ComputeKernel.FUSED, one, DataType.FP32)) for one in Optimizer),
        *((data_types, one, _select(design, timed, ComputeKernel.FUSED, Optimizer.ROWWISE_ADAGRAD, one)) for one in DataType),
    ]
    for shares, variant, found in variants:
        if variant in (Optimizer.ROWWISE_ADAGRAD, DataType.FP32) or len(found.points) < _FEWEST_OTHERS:
            continue
        for name in ("forward", "backward"):
            points = found.direction(name, ComputeKernel.FUSED)
            predicted = fits[name].predict(points)
            if name == "backward":
                shares[variant] = float(np.median(points.times_us / predicted))
                predicted = predicted * shares[variant]
            residuals.append(residual(f"fused {name} with {variant}", predicted, points.times_us))
    return {"optimizer_share": optimizers, "data_type_share": data_types}, residuals


def _refuse_too_few(what: str, points: int, fewest: int) -> None:
    if points < fewest:
        raise ToolError(f"only {points} points of {what} were measured, a fit needs {fewest}")
