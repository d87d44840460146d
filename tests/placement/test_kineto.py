"""Stage times of profiler traces: of a run on two CPU ranks, and of a device that is written down here in the same format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from emplace.placement.errors import InvalidDocument
from emplace.placement.kineto import read_trace
from emplace.placement.stages import Stage

CPU_TRACE = Path(__file__).parent / "traces" / "cpu-two-ranks.json.gz"
"""Three reference steps (runtime/reference_step.py) on two ranks over gloo, of torch 2.13 and torchrec 1.8."""
GPU_TRACE = CPU_TRACE.with_name("h200-rm2.json.gz")
"""Three steps of RM2 on one H200, of torch 2.11 and torchrec 1.6. The spans of the steps were put in afterwards."""
RANGES = {
    Stage.INPUT_DIST: "## all2all_data:kjt values ##",
    Stage.LOOKUP_FORWARD: "[lookup]_[ebc]_[table_wise]",
    Stage.OUTPUT_DIST: "[output_dist]_[ebc]_[table_wise]",
    Stage.DENSE: "aten::addmm",
    Stage.GRADIENT_DIST: "All2All_Pooled_WaitBackward",
    Stage.LOOKUP_BACKWARD: "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op_pt2>",
    Stage.ALL_REDUCE: "nccl:all_reduce",
}


def device_trace(stages_us: dict[Stage, float], step_us: float, steps: int = 2) -> dict[str, Any]:
    """A process launches one kernel a stage within 10 us each, far ahead of the device."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        thread = {"pid": 0, "tid": 7} if cat in ("kernel",) else {"pid": 1, "tid": 2}
        events.append({"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args} | thread)

    for step in range(steps):
        start = step * step_us
        add("user_annotation", f"ProfilerStep#{step}", start, step_us)
        busy = start + 100.0
        for number, (stage, length_us) in enumerate(stages_us.items()):
            launched, correlation = start + 10.0 * number, 100 * step + number
            add("cpu_op" if "::" in RANGES[stage] else "user_annotation", RANGES[stage], launched, 9.0)
            add("cpu_op", "aten::empty", launched + 1, 2.0)
            add("cuda_runtime", "cudaLaunchKernel", launched + 5, 1.0, correlation=correlation)
            add("kernel", "some_kernel", busy, length_us, correlation=correlation, stream=7)
            add("kernel", "its neighbour", busy + length_us / 4, length_us / 2, correlation=correlation, stream=8)
            busy += length_us
    return {"schemaVersion": 1, "traceEvents": events}


def test_kernels_belong_to_the_stage_that_launched_them(tmp_path: Path) -> None:
    lengths = {stage: 100.0 * (number + 1) for number, stage in enumerate(Stage)}
    (tmp_path / "trace.json").write_text(json.dumps(device_trace(lengths, 5000.0)))
    found = read_trace(tmp_path / "trace.json")
    assert (found.steps, found.step_us, found.on_device) == (2, 5000, True)
    assert found.stages_us == pytest.approx(lengths)


def test_kernels_of_a_gpu_are_told_by_the_operators_that_launched_them() -> None:
    """FBGEMM's own kernels are most of what RM2's lookups take."""
    found = read_trace(GPU_TRACE)
    assert (found.steps, found.on_device) == (3, True)
    assert found.stages_us[Stage.LOOKUP_FORWARD] == pytest.approx(479 + 63, rel=0.01)  # the lookup, and the check of its ids
    assert found.stages_us[Stage.LOOKUP_BACKWARD] == pytest.approx(2459, rel=0.01)  # of it 1956 for the update, the rest for sorting
    assert sum(found.stages_us.values()) == pytest.approx(3401, rel=0.02)  # of 8.7 ms: launching takes longer
    assert found.step_us == pytest.approx(8695, rel=0.01)


def test_what_ran_before_the_first_step_does_not_count(tmp_path: Path) -> None:
    trace = device_trace(dict.fromkeys(Stage, 100.0), 5000.0, steps=3)
    first = next(event for event in trace["traceEvents"] if event["name"] == "ProfilerStep#0")
    first["name"] = "warming up"
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    found = read_trace(tmp_path / "trace.json")
    assert found.steps == 2
    assert found.stages_us == pytest.approx(dict.fromkeys(Stage, 100.0))


def cpu_events(exchanges_us: list[float], **changes: Any) -> list[dict[str, Any]]:
    """Steps of 100 us of lookups, an exchange, and 700 us of dense layers, one after the other."""
    events, start = [], 1e6
    for number, exchange_us in enumerate(exchanges_us):
        step_us = 100 + exchange_us + 700
        for name, at, dur in (
            (f"ProfilerStep#{number}", start, step_us),
            (RANGES[Stage.LOOKUP_FORWARD], start, 100.0),
            (RANGES[Stage.OUTPUT_DIST], start + 100, exchange_us),
        ):
            events.append({"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "name": name, "ts": at, "dur": dur} | changes)
        start += step_us + 10
    return events


def written(folder: Path, events: list[Any]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_one_slow_step_moves_neither_stages_nor_what_is_left_for_dense_layers(tmp_path: Path) -> None:
    steady, slow = (read_trace(written(tmp_path, cpu_events([200.0] * 4 + [last]))) for last in (200.0, 9200.0))
    assert steady == slow
    assert steady.step_us == 1000
    assert {stage: length for stage, length in steady.stages_us.items() if length} == pytest.approx(
        {Stage.LOOKUP_FORWARD: 100, Stage.OUTPUT_DIST: 200, Stage.DENSE: 700}
    )


@pytest.mark.parametrize("other", [{"pid": 2, "ts": 1e9}, {"ts": 1e6 + 7}])
def test_a_trace_of_several_ranks_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="must be of one rank"):
        read_trace(written(tmp_path, cpu_events([200.0]) + cpu_events([200.0], **other)[:1]))


def test_a_device_may_lag_behind_its_steps(tmp_path: Path) -> None:
    """The process launches ahead of it."""
    lengths = dict.fromkeys(Stage, 1000.0)
    found = read_trace(written(tmp_path, device_trace(lengths, 500.0)["traceEvents"]))
    assert found.step_us == 500
    assert found.stages_us == pytest.approx(lengths)


def test_stages_that_last_far_longer_than_the_step_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="has stages of 5,100 us in a step of 1,000 us"):
        read_trace(written(tmp_path, [*cpu_events([200.0]), cpu_events([200.0], dur=5000.0)[2]]))


@pytest.mark.parametrize(
    "broken",
    [
        {"dur": float("nan")},
        {"dur": float("inf")},
        {"dur": -5000},
        {"ts": 10**400},
        {"tid": [1]},
        {"pid": {}},
        {"args": {"correlation": [1]}},
    ],
)
def test_an_event_that_is_none_does_not_count(broken: dict[str, Any], tmp_path: Path) -> None:
    events = cpu_events([200.0])
    sound = read_trace(written(tmp_path, events))
    more = [{**events[1], "name": "cudaLaunchKernel", "cat": "cuda_runtime"} | broken, {**events[1], "dur": 900.0} | broken]
    assert read_trace(written(tmp_path, [*events, more["correlation" not in str(broken)]])) == sound


def test_kernels_whose_launches_are_not_known_are_refused(tmp_path: Path) -> None:
    launches = [{**cpu_events([200.0])[1], "cat": cat} for cat in ("cuda_runtime", "kernel")]
    with pytest.raises(InvalidDocument, match="must say which kernels its steps launched"):
        read_trace(written(tmp_path, cpu_events([200.0]) + launches))


def test_stages_of_a_run_on_cpus_make_up_its_step() -> None:
    found = read_trace(CPU_TRACE)
    assert (found.steps, found.on_device) == (3, False)
    assert all(found.stages_us[stage] > 0 for stage in Stage)
    # What an all-reduce overlaps with counts twice.
    assert found.step_us <= sum(found.stages_us.values()) <= found.step_us + found.stages_us[Stage.ALL_REDUCE] * 3
    assert found.stages_us[Stage.LOOKUP_BACKWARD] > found.stages_us[Stage.LOOKUP_FORWARD]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no JSON"),
        ("[1, 2]", "must be the events"),
        ('{"traceEvents": {}}', "must be the events"),
        ('{"traceEvents": [3, {"ph": "X"}, {"ph": "X", "name": 5, "ts": 1, "dur": 1}]}', "must hold steps"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": true, "dur": 1}]}', "must hold steps"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 1}]}', "must hold lookups"),
    ],
)
def test_what_is_no_trace_of_torchrec_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(InvalidDocument, match=says):
        read_trace(tmp_path / "trace.json")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="can't be read"):
        read_trace(tmp_path / "none.json")
    damaged = bytearray(gzip.compress(b"{}" * 1000))
    damaged[12] ^= 0xFF
    for content in (b"not packed", bytes(damaged)):
        (tmp_path / "no.json.gz").write_bytes(content)
        with pytest.raises(InvalidDocument, match="can't be read"):
            read_trace(tmp_path / "no.json.gz")
