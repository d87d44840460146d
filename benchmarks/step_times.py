"""Plans trained side by side in several launches, and the times of the steps that ranks took together.

A launch gives every model memory of its own, which makes it a few percent faster or slower for as long as the launch lasts,
however many steps it takes. Only more launches tell that from what the plan does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from emplace.executor.launch import Launch
from emplace.executor.run import run_plans
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan

Times = NDArray[np.float64]


def train(plans: Mapping[str, Plan], launches: int, launch: Launch) -> dict[str, list[Measurement]]:
    """The measurements of each plan, one for each launch. Launches differ in their batches and in who is built after whom.

    Raises EmplaceError when a plan is refused or fails.
    """
    found: dict[str, list[Measurement]] = {name: [] for name in plans}
    for number in range(launches):
        seed = launch.seed + number
        order: list[str] = np.random.default_rng(seed).permutation(list(plans)).tolist()
        for name, measured in zip(order, run_plans([plans[name] for name in order], replace(launch, seed=seed)), strict=True):
            found[name].append(measured)
    return found


def step_times_us(measured: Sequence[Measurement]) -> Times:
    """[launches, steps] microseconds of every step on its slowest rank: all ranks start it together."""
    return np.array([np.max([rank.step_times_us for rank in launch.ranks], axis=0) for launch in measured])


def launch_medians(times: Times) -> Times:
    """[launches] the median step of each."""
    return np.asarray(np.median(times, axis=1))


def round_medians(times: Times, rounds: int) -> Times:
    """[launches, rounds] the median step of each round. Plans that take turns have their rounds while the machine is equally fast."""
    return np.asarray(np.median(times.reshape(len(times), rounds, -1), axis=2))


def slowness(measured: Measurement) -> float:
    """How many times as long as in its profile the reference step took, where prices were measured beside it."""
    assert measured.reference is not None
    return measured.reference.slowness


def typical(times: Times) -> float:
    """The median over launches of each one's median step."""
    return float(np.median(launch_medians(times)))
