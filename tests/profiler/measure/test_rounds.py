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
def test_every_sweep_has_every_point_once_and_waits_for_the_one_before(effort: Effort) -> None:
    design = design_of(effort)
    keys = order(design)
    assert len(set(keys)) == len(keys) == design.size * design.sweeps
    assert [sweep for _, _, sweep in keys] == sorted(sweep for _, _, sweep in keys)
    assert {(kind, sweep) for kind, _, sweep in keys} == {(kind, sweep) for kind in Kind for sweep in range(effort.sweeps)}


def test_a_full_profile_measures_every_point_at_two_times() -> None:
    """What a point takes differs more from one time of the machine to another than from one repetition to the next."""
    assert design_of(FULL).sweeps == 2


def test_at_any_moment_the_parts_are_done_alike() -> None:
    design = design_of(FULL)
    sizes = Counter(kind for kind, _, sweep in order(design) if sweep == 0)
    done: Counter[Kind] = Counter()
    for kind, _, _ in order(design)[: design.size]:
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
