"""Stage times from a trace of PyTorch's profiler (Kineto's JSON, Chrome's trace format) of a training loop with TorchRec.

TorchRec and FBGEMM name what they do: `record_function` ranges of modules and awaitables, autograd nodes of lookups and exchanges. A kernel
on a device belongs to the stage in whose range it was launched; without devices the ranges themselves are the time.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.stages import Stage
from emplace.placement.sums import add_up

MOST_BYTES = 2**31
"""The largest trace that is read, unpacked."""
STAGE_NAMES = {
    Stage.INPUT_DIST: r"## (all2all_data:|KJT|SplitsAllToAll|dist_init)|\[(splits_dist|input_dist)",
    Stage.LOOKUP_FORWARD: r"\[lookup\]",
    Stage.OUTPUT_DIST: r"\[output_dist|## (All2All_Pooled_fwd|alltoall_fwd|reduce_scatter\w*_fwd|EmbeddingBagCollectionAwaitable|PooledEmbeddings)",
    Stage.GRADIENT_DIST: r"(All2All|ReduceScatter|AllGather)\w*Backward|## (All2All_Pooled_bwd|alltoall_bwd|reduce_scatter\w*_bwd)",
    Stage.LOOKUP_BACKWARD: r"(torch::autograd::CppNode<)?SplitLookupFunction|fbgemm::split_embedding_backward",
    Stage.ALL_REDUCE: r"(gloo|nccl):all_?reduce|Optimizer\.step#",
}
"""How names of ranges begin. The dense layers are all else."""
_LATEST_US = 1e18
"""Times are microseconds since 1970 or since the machine started: none is later."""
_ROUNDING_US = 1.0
"""So much may steps that follow each other overlap."""
_MOST_WORK = 2.0
"""So many times as long as the step its ranges may last: some go on after it. A device may lag behind by any number of steps."""
_STEP = re.compile(r"ProfilerStep#\d+")
_RANGES, _LAUNCHES, _ON_DEVICE = ("user_annotation", "cpu_op"), ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")

Interval = tuple[float, float]
Thread = tuple[Any, Any]
ByStage = defaultdict[Stage, list[Interval]]
"""What one step did."""


@dataclass(frozen=True)
class TraceTimes:
    """What the steps of a trace took, on one rank. Waiting for slower ranks is inside the exchange that waited."""

    steps: int
    step_us: float
    """Median."""
    stages_us: dict[Stage, float]
    """Medians over steps: of devices, how long any of their kernels ran; without devices, how long ranges lasted."""
    on_device: bool


def read_trace(path: Path) -> TraceTimes:
    """The times of a trace file (.json, .json.gz). Raises InvalidDocument for one that holds no steps or no lookups of TorchRec's."""
    source = str(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDocument(source, [BrokenRule("", source, f"can't be read: {error}")]) from None
    if len(text) > MOST_BYTES:
        raise InvalidDocument(source, [BrokenRule("", source, "must be smaller than 2 GiB: profile fewer steps")])
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(source, [BrokenRule("", source, f"is no JSON: {error}")]) from None
    events = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(events, list):
        raise InvalidDocument(source, [BrokenRule("/traceEvents", "", "must be the events of a trace that PyTorch's profiler exported")])
    return _times([event for event in events if _is_complete(event)], source)


def _is_complete(event: Any) -> bool:
    """Whether it is something with a name, a beginning and a length, on a thread."""
    return (
        isinstance(event, dict)
        and event.get("ph") == "X"
        and isinstance(event.get("name"), str)
        and _is_time(event.get("ts"))
        and _is_time(event.get("dur"))
        and event["dur"] >= 0
        and all(isinstance(event.get(key), int | str | None) for key in ("pid", "tid"))
    )


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LATEST_US


def _times(events: list[dict[str, Any]], source: str) -> TraceTimes:
    steps = _steps(events, source)
    ranges = _ranges(event for event in events if event.get("cat") in _RANGES and _step_at(steps, event["ts"]) is not None)
    if not any(stage is Stage.LOOKUP_FORWARD for thread in ranges.values() for _, stage in thread.found):
        raise _refusal(
            source,
            "must hold lookups of TorchRec's ([lookup]_...): was it recorded with a sharded EmbeddingBagCollection, CPU activities included?",
        )
    on_device = [event for event in events if event.get("cat") in _ON_DEVICE]
    done = _of_devices(events, on_device, ranges, steps) if on_device else _of_ranges(ranges, steps)
    if not any(done):
        raise _refusal(
            source, "must say which kernels its steps launched (correlation of cuda_runtime and kernel): record CPU and CUDA activities"
        )
    step_us = median(map(_duration, steps))
    working_us = [_length([each for intervals in by_stage.values() for each in intervals]) for by_stage in done]
    if not on_device and median(working_us) > _MOST_WORK * step_us:
        raise _refusal(
            source, f"has stages of {median(working_us):,.0f} us in a step of {step_us:,.0f} us: it can't be of one rank's whole steps"
        )
    stages_us = {stage: median(_length(by_stage[stage]) for by_stage in done) for stage in Stage}
    if not on_device:
        stages_us[Stage.DENSE] = median(max(0.0, _duration(step) - work_us) for step, work_us in zip(steps, working_us, strict=True))
    return TraceTimes(len(steps), step_us, stages_us, bool(on_device))


def _steps(events: list[dict[str, Any]], source: str) -> list[Interval]:
    """When each step was, in order. Raises InvalidDocument where there are none, and where they are of several ranks."""
    found = [event for event in events if event.get("cat") == "user_annotation" and event["dur"] > 0 and _STEP.fullmatch(event["name"])]
    if not found:
        raise _refusal(
            source,
            "must hold steps (ProfilerStep#0, ...): give the profiler a schedule, such as schedule=torch.profiler.schedule(wait=1, warmup=1, "
            "active=5), and call its step() after each training step",
        )
    steps = sorted(map(_interval, found))
    overlap = any(following < end - _ROUNDING_US for (_, end), (following, _) in pairwise(steps))
    if overlap or len({event.get("pid") for event in found}) > 1:
        raise _refusal(
            source, "must be of one rank: its steps (ProfilerStep#0, ...) overlap or are of several processes; give one rank's trace"
        )
    return steps


def _refusal(source: str, rule: str) -> InvalidDocument:
    return InvalidDocument(source, [BrokenRule("/traceEvents", "", rule)])


def _interval(event: dict[str, Any]) -> Interval:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _duration(interval: Interval) -> float:
    return interval[1] - interval[0]


def _step_at(steps: list[Interval], ts: float) -> int | None:
    """The number of the step around a moment."""
    index = bisect_right(steps, ts, key=itemgetter(0)) - 1
    return index if index >= 0 and ts < steps[index][1] else None


class _Ranges:
    """What one thread did of the stages, in the order of its beginning."""

    def __init__(self, found: list[tuple[Interval, Stage]]) -> None:
        self.found = sorted(found)
        self._starts = [start for (start, _), _ in self.found]
        self._ended = list(accumulate((end for (_, end), _ in self.found), max))
        """When each and all before it have ended."""

    def stage_at(self, ts: float) -> Stage:
        """The stage of the innermost range around a moment: of those that began before it, the last that has not ended."""
        index = bisect_right(self._starts, ts) - 1
        while index >= 0 and self._ended[index] > ts:
            (_, end), stage = self.found[index]
            if ts < end:
                return stage
            index -= 1
        return Stage.DENSE


def _ranges(events: Iterable[dict[str, Any]]) -> dict[Thread, _Ranges]:
    """By thread, the ranges that are of a stage."""
    patterns = {stage: re.compile(pattern) for stage, pattern in STAGE_NAMES.items()}
    found: dict[Thread, list[tuple[Interval, Stage]]] = defaultdict(list)
    for event in events:
        stage = next((stage for stage, pattern in patterns.items() if pattern.match(event["name"])), None)
        if stage is not None:
            found[event.get("pid"), event.get("tid")].append((_interval(event), stage))
    return {thread: _Ranges(each) for thread, each in found.items()}


def _of_ranges(ranges: dict[Thread, _Ranges], steps: list[Interval]) -> list[ByStage]:
    """By step, the ranges that began in it."""
    done: list[ByStage] = [defaultdict(list) for _ in steps]
    for thread in ranges.values():
        for interval, stage in thread.found:
            if (step := _step_at(steps, interval[0])) is not None:
                done[step][stage].append(interval)
    return done


def _of_devices(
    events: list[dict[str, Any]], on_device: list[dict[str, Any]], ranges: dict[Thread, _Ranges], steps: list[Interval]
) -> list[ByStage]:
    """By step, what ran on devices because it was launched in it, by the stage in whose range that was."""
    launched = {_correlation(event): event for event in events if event.get("cat") in _LAUNCHES}
    launched.pop(None, None)  # what launches nothing
    done: list[ByStage] = [defaultdict(list) for _ in steps]
    for event in on_device:
        launch = launched.get(_correlation(event))
        if launch is not None and (step := _step_at(steps, launch["ts"])) is not None:
            around = ranges.get((launch.get("pid"), launch.get("tid")), _Ranges([]))
            done[step][around.stage_at(float(launch["ts"]))].append(_interval(event))
    return done


def _correlation(event: dict[str, Any]) -> int | None:
    """What a launch and its kernel have in common."""
    arguments = event.get("args")
    number = arguments.get("correlation") if isinstance(arguments, dict) else None
    return number if isinstance(number, int) else None


def _length(intervals: list[Interval]) -> float:
    return add_up(end - start for start, end in _joined(intervals))


def _joined(intervals: list[Interval]) -> Iterator[Interval]:
    """Without overlaps."""
    begun: Interval | None = None
    for start, end in sorted(intervals):
        if begun is None or start > begun[1]:
            if begun is not None:
                yield begun
            begun = start, end
        else:
            begun = begun[0], max(begun[1], end)
    if begun is not None:
        yield begun
