"""Measured times as linear equations in the coefficients of a step, and their fit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from emplace.placement.cost_model import Residual
from emplace.profiler.fit.regression import Array, fit_nonnegative, held_out, residuals_by_regime

_MOST_FITS = 20
"""The most times that a fit is repeated because steps changed sides."""


@dataclass(frozen=True)
class Equation:
    """One measured time: known_us + quantities @ coefficients = time_us."""

    what: str
    quantities: Array
    """[columns]"""
    time_us: float
    known_us: float = 0.0
    """What lookups take of it, by their own fit."""
    launched: Array | None = None
    """[columns] of a step on CUDA: the quantities of launching it, which it takes where that is longer."""
    weight: float = 1.0
    """How much its relative error counts."""

    def is_on_device(self, coefficients: Array) -> bool:
        """Whether it is as long as its device takes."""
        return self.launched is None or bool(self._device_us(coefficients) > self.launched @ coefficients)

    def predict(self, coefficients: Array) -> float:
        """Microseconds by these coefficients [columns]."""
        device_us = self._device_us(coefficients)
        return device_us if self.launched is None else max(device_us, float(self.launched @ coefficients))

    def side(self, *, on_device: bool) -> tuple[Array, float]:
        """(quantities [columns], known microseconds) of the device, or of launching where it is not the device that counts."""
        return (self.quantities, self.known_us) if on_device or self.launched is None else (self.launched, 0.0)

    def _device_us(self, coefficients: Array) -> float:
        return float(self.known_us + self.quantities @ coefficients)


def fit_equations(equations: list[Equation]) -> Array:
    """[columns] the coefficients of the equations' quantities.

    A step on CUDA is as long as its launches or its device take, whichever is longer. Which one that is follows from the coefficients, so
    they are fitted again until no step changes sides.
    """
    on_device = np.array([equation.launched is None for equation in equations])
    weights = np.array([equation.weight for equation in equations])
    for _ in range(_MOST_FITS):
        quantities, times, known = _arrays(equations, on_device)
        coefficients = fit_nonnegative(quantities, times, known, weights, of_predicted=True)
        before, on_device = on_device, np.array([equation.is_on_device(coefficients) for equation in equations])
        if (before == on_device).all():
            break
    return coefficients


def held_out_residuals(equations: list[Equation], seed: int, fixed: NDArray[np.bool_]) -> list[Residual]:
    """The errors on times that the fit did not see: for each kind of equation, all of them first and then each regime.

    `fixed` [columns] says which coefficients don't grow with what is asked.
    """
    coefficients = fit_equations(equations)
    quantities, times, _ = _arrays(equations, np.array([equation.is_on_device(coefficients) for equation in equations]))
    fixed_us = quantities[:, fixed] @ coefficients[fixed]

    def predict(seen: NDArray[np.intp], unseen: NDArray[np.intp]) -> Array:
        found = fit_equations([equations[index] for index in seen])
        return np.array([equations[index].predict(found) for index in unseen])

    predicted = held_out(len(equations), seed, predict)
    kinds = [equation.what for equation in equations]
    chosen = {what: np.array([kind == what for kind in kinds]) for what in dict.fromkeys(kinds)}
    found = (residuals_by_regime(what, predicted[these], times[these], fixed_us[these]) for what, these in chosen.items())
    return list(chain.from_iterable(found))


def _arrays(equations: list[Equation], on_device: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """(quantities [equations, columns], times, known parts), of launching where it is not the device that counts."""
    sides = [equation.side(on_device=bool(counts)) for equation, counts in zip(equations, on_device, strict=True)]
    times, known = np.array([equation.time_us for equation in equations]), np.array([known_us for _, known_us in sides])
    return np.array([quantities for quantities, _ in sides]), times, known
