"""The order of measuring: a profile that stops early has a fair share of everything, and nothing is measured twice in a sweep."""

from __future__ import annotations

from collections import Counter

import pytest

from emplace.placement.model import ComputeKernel
from emplace.profiler.design.experiments import FULL, QUICK, Effort, make_design
from emplace.profiler.design.points import Design, Key, Kind
from emplace.profiler.measure.rounds import rounds


def design_of(effort: Effort) -> Design:
    return make_design(effort, 2, 0, (ComputeKernel.FUSED, ComputeKernel.DENSE), 2**26)


def order(design: Design, done: frozenset[Key] = frozenset()) -> list[Key]:
    return [(one.kind, index, one.sweep) for one in rounds(design, done) for index in one.indices]


@pytest.mark.parametrize("effort", [QUICK, FULL])
def test_every_sweep_of_steps_waits_for_the_one_before_and_everything_else_comes_once(effort: Effort) -> None:
    design = design_of(effort)
    keys = order(design)
    assert len(set(keys)) == len(keys) == design.size
    for kind in Kind:
        sweeps = [sweep for found, _, sweep in keys if found is kind]
        assert sweeps == sorted(sweeps)
        assert set(sweeps) == (set(range(effort.step_sweeps)) if kind is Kind.STEP else {0})


def test_a_full_profile_measures_every_step_at_two_times() -> None:
    """What a step takes differs more from one time of the machine to another than from one repetition to the next."""
    assert design_of(FULL).step_sweeps == 2


def test_a_whole_step_takes_turns_with_the_reference_alone() -> None:
    assert all(len(one.indices) == 1 for one in rounds(design_of(FULL), frozenset()) if one.kind is Kind.STEP)


def test_at_any_moment_the_parts_are_done_alike() -> None:
    design = design_of(FULL)
    sizes = Counter(kind for kind, _, _ in order(design))
    done: Counter[Kind] = Counter()
    for kind, _, _ in order(design):
        done[kind] += 1
        shares = [done[each] / size for each, size in sizes.items()]
        assert max(shares) - min(shares) <= 4 / min(sizes.values()) + 0.01


def test_what_is_done_is_left_out_and_the_rest_keeps_its_order() -> None:
    design = design_of(FULL)
    done = frozenset(order(design)[10:200:3])
    left = order(design, done)
    assert set(left) == set(order(design)) - done
    for kind in Kind:
        of_kind = [(sweep, index) for found, index, sweep in left if found is kind]
        assert of_kind == sorted(of_kind)
