"""The CostModel that a set of samples supports, with the error of every part on points it did not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from emplace.placement.cost_model import WHOLE_STEPS, CostModel, KernelCost, LargestMeasured, OtherBackward, Residual
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import ToolError
from emplace.placement.host import DeviceKind, DeviceType, HostSpec
from emplace.placement.model import ComputeKernel, DataType, Optimizer
from emplace.placement.sums import add_up
from emplace.profiler.design.point_models import dense_model
from emplace.profiler.design.points import Design, Kind, LookupPoint, Sample
from emplace.profiler.fit.equations import Equation, fit_equations, held_out_residuals
from emplace.profiler.fit.far_rows import with_far_rows
from emplace.profiler.fit.regression import Array, LookupFit, LookupPoints, fit_lookup, fit_variants, held_out, residuals_by_regime
from emplace.profiler.fit.samples import Timed, drift, repeat_noise, together, usual_reference_us
from emplace.profiler.fit.step_fit import COLLECTIVES, DENSE_LAYERS, FIXED, NAMES, Known, StepFit, ranks_per_core
from emplace.profiler.fit.updates import fit_updates

_EXPONENTS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""The powers of the reference's slowness that whole steps are tried to have."""
_LOOKUPS_SLOW_DOWN = 2.0
"""The power of their reference's slowness that lookups have at most. The reference is a forward and a backward, and where updates take most
of it forwards slow down more than it does."""
_FEWEST_LOOKUPS, _FEWEST_STEPS, _FEWEST_OTHERS = 10, 8, 3

_OTHERS: list[tuple[Optimizer, DataType]] = [
    *((one, DataType.FP32) for one in Optimizer if one is not Optimizer.ROWWISE_ADAGRAD),
    *((Optimizer.ROWWISE_ADAGRAD, one) for one in DataType if one is not DataType.FP32),
]
"""What a backward may be measured with besides row-wise Adagrad in fp32."""

TimedPoints = dict[tuple[Kind, int], Timed]


def fit_cost_model(design: Design, samples: list[list[Sample]], host: HostSpec) -> CostModel:
    """The cost model of this host with its errors: fits lookups first, then everything else.

    Slow moments of the machine are taken out of the times of dense layers and collectives, and of whole steps as far as that
    lowers the error on steps not fitted: how long the ranks of a reference step wait for each other may vary more than the machine's
    speed. Raises ToolError when too few points were measured for a part.
    """
    shared = ranks_per_core(host, len(samples))
    timed = together(samples, shared)
    usual = {point: one.at_usual_speed() for point, one in timed.items()}
    kernels, residuals = _kernels(design, timed, host.node.devices[0])
    updates, errors = fit_updates(design, usual, len(samples))
    known = Known(tuple(kernels), updates)
    fit = StepFit(host, len(samples), known)
    equations = fit.equations(design, usual)
    _refuse_too_few(WHOLE_STEPS, sum(one.what == WHOLE_STEPS for one in equations), _FEWEST_STEPS)
    _refuse_too_few(DENSE_LAYERS, sum(one.what == DENSE_LAYERS for one in equations), _FEWEST_OTHERS)
    exponent, equations, step_errors = min(
        _corrected(fit, design, timed), key=lambda way: next(error.mape for error in way[2] if error.what == WHOLE_STEPS)
    )
    coefficients = dict(zip(NAMES, fit_equations(equations).tolist(), strict=True))
    model = fit.cost_model(coefficients, known)
    if len(samples) == 1:
        # Nothing was exchanged. A job of one rank pays nothing; should more be priced with this model, the host's figures hold.
        model = model.model_copy(update=dict.fromkeys(COLLECTIVES, datasheet_cost_model(host).all_to_all))
    found = {
        "residuals": (*residuals, *errors, *step_errors),
        "noise": repeat_noise(samples),
        "drift": drift(samples),
        "reference_step_us": usual_reference_us(samples, Kind.STEP),
        "reference_exponent": exponent,
    }
    return model.model_copy(update=found | {"largest": _largest(design, timed, len(samples))})


def _corrected(fit: StepFit, design: Design, timed: TimedPoints) -> Iterator[tuple[float, list[Equation], list[Residual]]]:
    """(exponent, equations, errors on times not fitted): slow moments of the machine taken out, of whole steps to each of the exponents."""
    for exponent in _EXPONENTS:
        usual = {point: one.at_usual_speed(exponent if point[0] is Kind.STEP else 1.0) for point, one in timed.items()}
        equations = fit.equations(design, usual)
        yield exponent, equations, held_out_residuals(equations, design.seed, FIXED)


def _largest(design: Design, timed: TimedPoints, ranks: int) -> LargestMeasured:
    """The largest of everything that was measured."""
    sent = [design.collectives[index].sent_bytes for kind, index in timed if kind is Kind.COLLECTIVE] if ranks > 1 else []
    groups = [one.tables for (kind, _), one in timed.items() if kind is Kind.LOOKUP]
    dense = [design.dense[index] for kind, index in timed if kind is Kind.DENSE]
    return LargestMeasured(
        lookups=max(add_up(table.lookups for table in tables) for tables in groups),
        output_bytes=max(sum(table.bags * table.bag_bytes for table in tables) for tables in groups),
        sent_bytes=max(sent, default=0),
        dense_flops=max(point.batch * dense_part(dense_model(point)).training_flops for point in dense),
    )


@dataclass(frozen=True)
class _Lookups:
    """The measured lookup points of one kernel with one optimizer and data type."""

    points: Sequence[LookupPoint]
    timed: Sequence[Timed]
    on_cuda: bool

    def direction(self, name: str, kernel: ComputeKernel) -> LookupPoints:
        """Their times in one direction, `forward` or `backward`."""
        times = np.array([timed.forward_us if name == "forward" else timed.backward_us for timed in self.timed])
        groups, slowness = [timed.tables for timed in self.timed], np.array([timed.slowness**_LOOKUPS_SLOW_DOWN for timed in self.timed])
        is_backward = name == "backward"
        return LookupPoints(groups, times, slowness, self.on_cuda, is_backward, is_backward and kernel is ComputeKernel.DENSE)


def _kernels(design: Design, timed: TimedPoints, device: DeviceKind) -> tuple[list[KernelCost], list[Residual]]:
    """What each kernel costs, and the errors of its fits.

    The costs are those of row-wise Adagrad in fp32, with a backward for each other optimizer or data type that was measured enough.
    Raises ToolError where too few points of a kernel were measured.
    """
    costs, residuals = [], []
    for kernel in dict.fromkeys(point.kernel for point in design.lookups):
        fits: dict[str, LookupFit] = {}
        standard = _select(design, timed, device, kernel, Optimizer.ROWWISE_ADAGRAD, DataType.FP32)
        _refuse_too_few(f"{kernel} lookups", len(standard.points), _FEWEST_LOOKUPS)
        for name in ("forward", "backward"):
            fits[name], errors = _fitted(f"{kernel} {name}", standard.direction(name, kernel), design.seed)
            residuals += errors
        others, errors = _other_backwards(design, timed, device, kernel, fits["backward"].cache_bytes)
        residuals += errors
        directions = {name: fit.cost for name, fit in fits.items()}
        costs.append(KernelCost(device=device.kind, kernel=kernel, **directions, other_backwards=tuple(others)))
    return with_far_rows(costs), residuals


def _fitted(what: str, points: LookupPoints, seed: int) -> tuple[LookupFit, list[Residual]]:
    """The fit of all points, and the errors of fits that did not see the points they predict."""
    predicted = held_out(len(points.times_us), seed, lambda seen, unseen: fit_lookup(_part(points, seen)).predict(_part(points, unseen)))
    fit = fit_lookup(points)
    return fit, residuals_by_regime(what, predicted, points.times_us, fit.fixed_us(points))


def _other_backwards(
    design: Design, timed: TimedPoints, device: DeviceKind, kernel: ComputeKernel, cache_bytes: int
) -> tuple[list[OtherBackward], list[Residual]]:
    """The backwards of all other optimizers and data types that were measured enough, and their errors.

    They are fitted together: few points can't tell everything of each, nor how large the cache is.
    """
    selected = {variant: _select(design, timed, device, kernel, *variant) for variant in _OTHERS}
    found = {each: chosen.direction("backward", kernel) for each, chosen in selected.items() if len(chosen.points) >= _FEWEST_LOOKUPS}
    if not found:
        return [], []
    every, backwards, residuals = list(found.values()), [], []
    for number, ((optimizer, data_type), points, fit) in enumerate(zip(found, every, fit_variants(every, cache_bytes), strict=True)):
        predicted = held_out(len(points.times_us), design.seed, partial(_predict_variant, every, number, cache_bytes))
        which = {"data_type": data_type} if optimizer is Optimizer.ROWWISE_ADAGRAD else {"optimizer": optimizer}
        backwards.append(OtherBackward.model_validate(which | {"backward": fit.cost}))
        what = f"{kernel} backward with {optimizer} in {data_type}"
        residuals += residuals_by_regime(what, predicted, points.times_us, fit.fixed_us(points))
    return backwards, residuals


def _predict_variant(
    variants: list[LookupPoints], number: int, cache_bytes: int, seen: NDArray[np.intp], unseen: NDArray[np.intp]
) -> Array:
    """Predicted times of the unseen points of variant `number`, by a fit of its seen points and of all other variants."""
    points = variants[number]
    known = [*variants[:number], _part(points, seen), *variants[number + 1 :]]
    return fit_variants(known, cache_bytes)[number].predict(_part(points, unseen))


def _select(
    design: Design, timed: TimedPoints, device: DeviceKind, kernel: ComputeKernel, optimizer: Optimizer, data_type: DataType
) -> _Lookups:
    wanted = (kernel, optimizer, data_type)
    found = [
        (point, timed[Kind.LOOKUP, index])
        for index, point in enumerate(design.lookups)
        if (Kind.LOOKUP, index) in timed and (point.kernel, point.optimizer, point.data_type) == wanted
    ]
    return _Lookups([point for point, _ in found], [one for _, one in found], device.type is DeviceType.CUDA)


def _part(points: LookupPoints, chosen: NDArray[np.intp]) -> LookupPoints:
    groups = [points.groups[index] for index in chosen]
    return replace(points, groups=groups, times_us=points.times_us[chosen], slowness=points.slowness[chosen])


def _refuse_too_few(what: str, points: int, fewest: int) -> None:
    if points < fewest:
        raise ToolError(f"only {points} points of {what} were measured, a fit needs {fewest}")
