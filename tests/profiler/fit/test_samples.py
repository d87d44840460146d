"""What the ranks measured, brought together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emplace.placement.model import ComputeKernel
from emplace.profiler.design.experiments import QUICK, make_design
from emplace.profiler.design.points import Kind, Sample
from emplace.profiler.fit.samples import drift, keep_common, rank_path, read_samples, repeat_noise, together, usual_reference_us
from tests.profiler.fit.known_costs import exact


def test_a_point_that_one_rank_lacks_does_not_count() -> None:
    _, samples = exact()
    assert set(together([samples, samples[:-3]])) == {(sample.kind, sample.index) for sample in samples[:-3]}


def test_work_on_a_shared_core_takes_as_long_as_all_ranks_on_it() -> None:
    _, samples = exact()
    alone, shared = together([samples, samples]), together([samples, samples], ranks_per_core=2.0)
    for (kind, index), one in alone.items():
        share = 2.0 if kind in (Kind.DENSE, Kind.LOOKUP) else 1.0
        assert (shared[kind, index].forward_us, shared[kind, index].backward_us) == (share * one.forward_us, share * one.backward_us)


def test_a_slow_moment_of_the_machine_is_noticed_and_can_be_taken_out() -> None:
    """The third of three points was measured while everything of its kind took half as long again."""
    moments = [(100.0, 40.0), (200.0, 40.0), (450.0, 60.0)]
    for kind in (Kind.DENSE, Kind.STEP):
        of_rank = [
            Sample(kind=kind, index=index, forward_us=(time_us,) * 4, backward_us=(time_us,) * 4, reference_us=(reference_us,) * 4)
            for index, (time_us, reference_us) in enumerate(moments)
        ]
        timed = together([of_rank, of_rank])
        assert [timed[kind, index].slowness for index in range(3)] == pytest.approx([1, 1, 1.5])
        assert [timed[kind, index].forward_us for index in range(3)] == pytest.approx([100, 200, 450])
        usual = [timed[kind, index].at_usual_speed() for index in range(3)]
        assert [one.forward_us for one in usual] == pytest.approx([100, 200, 300])
        assert [one.backward_us for one in usual] == pytest.approx([100, 200, 300])
        assert 0.2 < drift([of_rank, of_rank]) <= 0.5
        assert usual_reference_us([of_rank, of_rank], kind) == 40
        assert usual_reference_us([of_rank, of_rank], Kind.LOOKUP) is None


def test_a_point_of_two_sweeps_is_their_mean_each_at_its_speed() -> None:
    """The second sweep found the machine slower by half. What one rank alone measured of it does not count."""

    def sample(index: int, sweep: int, time_us: float, reference_us: float) -> Sample:
        times = {"forward_us": (time_us,) * 4, "backward_us": (3 * time_us,) * 4, "reference_us": (reference_us,) * 4}
        return Sample.model_validate({"kind": Kind.LOOKUP, "index": index, "sweep": sweep} | times)

    first = [sample(0, 0, 100.0, 40.0), sample(1, 0, 200.0, 40.0), sample(2, 0, 300.0, 40.0)]
    again = [sample(0, 1, 150.0, 60.0), sample(1, 1, 300.0, 60.0)]
    timed = together([first + again, first + again[:1]])
    found = [timed[Kind.LOOKUP, index] for index in range(3)]
    assert [one.forward_us for one in found] == pytest.approx([125, 200, 300])
    assert [one.backward_us for one in found] == pytest.approx([375, 600, 900])
    assert [one.slowness for one in found] == pytest.approx([1.25, 1, 1])


def test_noise_is_what_equal_measurements_differ_by() -> None:
    steady = Sample(kind=Kind.DENSE, index=0, forward_us=(100.0,) * 6, backward_us=(0.1, 0.2, 0.3, 5.0))
    drifting = steady.model_copy(update={"forward_us": (100.0, 100.0, 100.0, 120.0, 120.0, 120.0)})
    assert repeat_noise([[steady], [steady]]) == 0.0
    assert repeat_noise([[drifting], [drifting]]) == pytest.approx(20 / 110)


def test_a_line_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    sample = Sample(kind=Kind.STEP, index=0, forward_us=(1.0,), backward_us=(0.0,))
    (tmp_path / "rank-0.jsonl").write_text(sample.canonical_json() + "\n" + json.dumps({"kind": "st"})[:-3])
    assert read_samples(tmp_path, 1) == [[sample]]


DESIGN = make_design(QUICK, 1, 0, (ComputeKernel.FUSED,), 2**22)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[" * 100_000,
        '"\udcff"',
        '{"kind": "step"}',
        '{"kind": "step", "index": 0, "forward_us": [1, -2], "backward_us": [0, 0]}',
        '{"kind": "step", "index": 0, "forward_us": [1, NaN], "backward_us": [0, 0]}',
        '{"kind": "step", "index": 0, "forward_us": [], "backward_us": []}',
        '{"kind": "step", "index": 1000000, "forward_us": [1, 1], "backward_us": [0, 0]}',
        '{"kind": "step", "index": -1, "forward_us": [1, 1], "backward_us": [0, 0]}',
        '{"kind": "dense", "index": 0, "sweep": 1, "forward_us": [1, 1], "backward_us": [0, 0]}',
        '{"kind": "lookup", "index": 0, "forward_us": [1, 1], "backward_us": [0, 0]}',
    ],
)
def test_a_damaged_line_is_measured_again_and_the_others_are_kept(line: str, tmp_path: Path) -> None:
    sound = Sample(kind=Kind.STEP, index=1, forward_us=(1.0, 1.0), backward_us=(0.0, 0.0))
    text = f"{line}\n{sound.canonical_json()}\n{sound.canonical_json()}\n"
    (tmp_path / "rank-0.jsonl").write_text(text, errors="surrogateescape")
    assert keep_common(tmp_path, 1, DESIGN) == (1, 1)
    assert read_samples(tmp_path, 1) == [[sound]]


def test_after_an_interruption_all_ranks_go_on_from_the_same_sweep(tmp_path: Path) -> None:
    """A point that one rank has measured again and the other has not is measured again by both, or they would wait for each other."""

    def sample(sweep: int) -> Sample:
        return Sample(kind=Kind.STEP, index=0, sweep=sweep, forward_us=(1.0, 1.0), backward_us=(0.0, 0.0))

    for rank, sweeps in enumerate((2, 1)):
        rank_path(tmp_path, rank).write_text("".join(sample(sweep).canonical_json() + "\n" for sweep in range(sweeps)))
    assert keep_common(tmp_path, 2, DESIGN.model_copy(update={"step_sweeps": 2})) == (1, 0)
    assert read_samples(tmp_path, 2) == [[sample(0)], [sample(0)]]
