"""A real, very small profile: FBGEMM and gloo at work; and what is left when it is interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import destroy_process_group, init_process_group

from emplace.hardware.discover import discover_host
from emplace.placement.catalog import builtin_model
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import InvalidDocument, ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.placement.reading import read_text
from emplace.profiler.design.experiments import QUICK, make_design
from emplace.profiler.design.points import Design, Sample
from emplace.profiler.fit.modelling import fit_cost_model
from emplace.profiler.fit.samples import rank_path
from emplace.profiler.measure.rank import measure
from emplace.profiler.profile import profile_host, profile_with
from emplace.runtime.ranks import RanksFailed, RanksTimedOut, run_ranks

pytestmark = pytest.mark.torch

STANDARD = (Optimizer.ROWWISE_ADAGRAD, DataType.FP32)
TINY = replace(
    QUICK,
    round_s=0.05,
    budget_s=0.0,
    lookup_points=52,
    variants=(STANDARD,) * 5 + ((Optimizer.ADAGRAD, DataType.FP32),),
    collective_sizes=5,
    dense_points=6,
    step_points=5,
    max_lookups=10_000,
    max_table_bytes=2**20,
    max_output_bytes=2**18,
    max_collective_bytes=2**16,
    max_dense_flops=1e6,
    max_step_batch=64,
    max_busy_lookups=10_000,
)
RANK = "emplace.profiler.measure.rank"
PROFILE = """
import sys
from pathlib import Path
from emplace.profiler.design.points import Operation
from emplace.profiler.profile import profile_host
profile_host(2, True, 0, lambda line: print(line, flush=True), Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class Profiled:
    """A profile that ended well: what it found, said, and left in its folder."""

    model: CostModel
    samples: list[list[Sample]]
    lines: list[str]
    left: list[Path]


def profile_tiny(workdir: Path, model: CostModel | None = None) -> Profiled:
    """A tiny profile; with a model, that stands in for its fit."""
    lines: list[str] = []
    seen: list[list[list[Sample]]] = []

    def fit(design: Design, samples: list[list[Sample]], host: HostSpec) -> CostModel:
        seen.append(samples)
        return model or fit_cost_model(design, samples, host)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emplace.profiler.profile.KERNELS_ON_CPU", (ComputeKernel.FUSED, ComputeKernel.DENSE))  # the fewest points of each
        patch.setattr("emplace.profiler.profile.fit_cost_model", fit)
        found = profile_with(TINY, 2, 0, lines.append, workdir)
    return Profiled(found, seen[0], lines, list(workdir.iterdir()))


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    return profile_tiny(tmp_path_factory.mktemp("profile") / "work")


def test_a_profile_of_this_machine_whose_time_is_up_at_once(profiled: Profiled) -> None:
    """Half of the points are measured all the same, and no more."""
    model, host = profiled.model, discover_host()
    assert (model.source, model.fingerprint, model.ranks) == (CostSource.MEASURED, host.fingerprint, 2)
    assert read_text(model.canonical_json(), CostModel, source="", as_json=True) == model
    fused = model.kernel(host.node.devices[0].kind, ComputeKernel.FUSED)
    assert fused is not None
    # A million lookups of 256 bytes take longer than a thousand, and no more than a minute.
    small, large = (float(fused.forward.time_us(n, n, 256, n, n, 256, 1e6)) for n in (1e3, 1e6))
    assert 0 < small < large < 60e6
    assert all(model.step_overhead_us + model.sharding_type_us[kind] + model.id_exchange.fixed_us > 0 for kind in ShardingType)
    part = dense_part(builtin_model("dlrm-dcnv2"))
    assert model.dense_cost(host.node.devices[0].kind).time_us(part, 64, 26) > 0
    assert {
        "fused forward",
        "fused backward",
        "dense forward",
        "dense backward",
        "dense layers",
        "whole steps",
        "input_dist",
        "all_to_all",
        "reduce_scatter",
        "permutation",
        "conversion",
        "all_reduce",
        "sgd of replicated parameters",
        "adagrad of replicated parameters",
        "rowwise_adagrad of replicated parameters",
    } == {one.what for one in model.residuals}
    assert model.noise is not None
    assert set(model.software) == {"torch", "torchrec", "fbgemm", "numpy"}
    size = make_design(TINY, 2, 0, (ComputeKernel.FUSED,), 2**22).size
    measured = next(int(match[1]) for line in profiled.lines if (match := re.match(r"measured (\d+) points", line)))
    assert size / 2 <= measured < size / 2 + 8
    assert any("points not fitted" in line for line in profiled.lines)
    assert profiled.left == []


def test_an_interrupted_profile_leaves_no_process_and_keeps_what_it_measured(tmp_path: Path) -> None:
    """What becomes of the ranks of a process that was killed is the same of a run: see tests/runtime/test_temporary.py."""
    process = subprocess.Popen([sys.executable, "-c", PROFILE, str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob("measured-*/rank-0.jsonl")))
    # the agent and two ranks name their folder in their command lines
    assert len(processes_naming(tmp_path)) >= 4
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) != 0
    wait_for(lambda: not processes_naming(tmp_path))
    assert [path.name.split("-")[0] for path in tmp_path.iterdir()] == ["measured"]


def test_an_interrupted_profile_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profiled: Profiled) -> None:
    """What one rank lacks, or has only half a line of, is measured again; what all have is not."""
    monkeypatch.setattr("emplace.profiler.profile.measure", lambda *_: None)
    with pytest.raises(ToolError, match="only 0 points"):
        profile_tiny(tmp_path)
    monkeypatch.undo()
    (kept,) = tmp_path.glob("measured-*")
    done, half_a_line = len(profiled.samples[0]) - 6, 9
    for rank, samples in enumerate(profiled.samples):
        lines = [sample.canonical_json() + "\n" for sample in samples[: done + 1]]
        rank_path(kept, rank).write_text("".join(lines)[: None if rank == 0 else -half_a_line])
    again = profile_tiny(tmp_path, profiled.model)
    assert f"continuing: {done} measurements were made before an interruption" in again.lines
    for before, after in zip(profiled.samples, again.samples, strict=True):
        assert after[:done] == before[:done]
        assert len({(one.kind, one.index) for one in after}) == len(after) > done
        measured_again = next(one for one in after if (one.kind, one.index) == (before[done].kind, before[done].index))
        assert measured_again != before[done]
    assert again.left == []


def test_measurements_stay_until_the_cost_model_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profiled: Profiled) -> None:
    def measured(*arguments: Any) -> None:
        kept: Path = arguments[-1]
        for rank, samples in enumerate(profiled.samples):
            rank_path(kept, rank).write_text("".join(sample.canonical_json() + "\n" for sample in samples))

    def full(_: CostModel) -> None:
        raise ToolError("the disk is full")

    monkeypatch.setattr("emplace.profiler.profile.measure", measured)
    monkeypatch.setattr("emplace.profiler.profile.fit_cost_model", lambda *_: profiled.model)
    lines: list[str] = []
    with pytest.raises(ToolError, match="the disk is full"):
        profile_with(TINY, 2, 0, lines.append, tmp_path, full)
    assert lines[-1] == "what was measured so far is kept: the same profile, started again, goes on from there"
    assert [path.name.split("-")[0] for path in tmp_path.iterdir()] == ["measured"]
    stored: list[CostModel] = []
    profile_with(TINY, 2, 0, lines.append, tmp_path, stored.append)
    assert stored[0].kernels == profiled.model.kernels
    assert any(line.startswith("continuing: ") for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_the_second_sweep_measures_every_step_again(tmp_path: Path) -> None:
    """By one rank, in this process."""
    design = make_design(replace(TINY, step_sweeps=2, step_points=0), 1, 0, (ComputeKernel.FUSED,), 2**22)
    design = design.model_copy(update={"steps": design.steps[:3], "collectives": (), "dense": (), "lookups": ()})
    init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        samples = [sample for of_round in measure(design, torch.device("cpu"), frozenset()) for sample in of_round]
    finally:
        destroy_process_group()
    first, second = ([one for one in samples if one.sweep == sweep] for sweep in range(2))
    assert first + second == samples
    assert [(one.kind, one.index) for one in first] == [(one.kind, one.index) for one in second]
    assert 2 * len(first) == design.size == 6
    assert all(one.forward_us != again.forward_us for one, again in zip(first, second, strict=True))


def processes_naming(path: Path) -> list[int]:
    def names(pid: str) -> bool:
        try:
            return str(path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and names(pid)]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_failing_rank_is_named_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed, match=r"(?s)rank 0 failed: .*nowhere\.json"):
        run_ranks([RANK, str(tmp_path / "nowhere.json"), str(tmp_path), "0"], 1, tmp_path, 60, lambda: None)


def test_a_rank_that_finds_the_disk_full_says_so(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed, match=r"^rank 0 failed: no space left on the disk"):
        run_ranks(["tests.profiler.programs.full_disk", str(tmp_path / "design.json")], 1, tmp_path, 60, lambda: None)


def test_a_measurement_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RanksTimedOut, match="did not end within 1 s; rank 0 was last seen starting"):
        run_ranks([RANK, str(tmp_path / "nowhere.json"), str(tmp_path), "0"], 1, tmp_path, 1, lambda: None)
    wait_for(lambda: not processes_naming(tmp_path))


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RanksTimedOut("did not end within 1 s; rank 0 was last seen starting"), "the measurement did not end within 1 s; rank 0"),
        (RanksFailed("rank 1 failed: ValueError: no", 1), "the measurement failed: rank 1 failed: ValueError: no"),
    ],
)
def test_a_profile_whose_ranks_fail_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: RanksFailed, said: str) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("emplace.profiler.profile.run_ranks", fail)
    with pytest.raises(ToolError, match=f"^{said}"):
        profile_with(TINY, 2, 0, lambda _: None, tmp_path)


@pytest.mark.parametrize("ranks", [0, -1, 65])
def test_an_impossible_number_of_ranks_is_refused(tmp_path: Path, ranks: int) -> None:
    with pytest.raises(InvalidDocument, match="/ranks: must be from 1 to 64"):
        profile_host(ranks, True, 0, print, tmp_path)


def test_a_machine_with_two_kinds_of_gpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = discover_host()
    other = local.node.devices[0].model_copy(update={"kind": "other"})
    mixed: HostSpec = local.model_copy(update={"node": local.node.model_copy(update={"devices": (local.node.devices[0], other)})})
    monkeypatch.setattr("emplace.profiler.profile.discover_host", lambda: mixed)
    with pytest.raises(ToolError, match="several kinds of GPU"):
        profile_host(1, True, 0, print, tmp_path)
