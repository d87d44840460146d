"""`profile_host`: measure this machine with all ranks at work, fit, and say how well the fit predicts what it did not see."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from emplace.hardware.discover import discover_host
from emplace.hardware.machine import available_memory_bytes, usable_memory_bytes
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.units import show_gib
from emplace.profiler.alone import alone
from emplace.profiler.design.experiments import (
    FULL,
    FULL_ON_CUDA,
    KERNELS_ON_CPU,
    KERNELS_ON_CUDA,
    QUICK,
    QUICK_ON_CUDA,
    Effort,
    make_design,
)
from emplace.profiler.design.points import Design, Sample
from emplace.profiler.fit.modelling import fit_cost_model
from emplace.profiler.fit.samples import keep_common, rank_path, read_samples
from emplace.runtime.ranks import RanksFailed, RanksTimedOut, run_ranks
from emplace.runtime.software import software_versions
from emplace.runtime.temporary import temporary_folder

Report = Callable[[str], None]
Keep = Callable[[CostModel], object]
"""Stores a cost model that was measured."""

MAX_PROFILED_RANKS = 64
_PROGRAM = "emplace.profiler.measure.rank"
_KEPT, _LOCK = "measured-", "lock-"
_OVERRUN_S = 300.0
"""A launch may take so long beyond twice the budget: half of the points are measured even where that takes longer than the budget."""
_TABLE_MEMORY_SHARE = 0.25
_NOISY = 0.1
_PROGRESS_S = 5.0


def _keep_nowhere(_: CostModel) -> None:
    pass


def profile_host(
    ranks: int, quick: bool, seed: int, report: Report, workdir: Path, seconds: float | None = None, keep: Keep = _keep_nowhere
) -> CostModel:
    """The cost model of this host, measured with `ranks` ranks side by side, and given to `keep`, which stores it.

    That takes about a minute when `quick`, else up to a quarter of an hour, or about `seconds` where they are given.

    What was measured is kept in `workdir` until the cost model is stored. A call that was interrupted, however it ended, is continued
    by the next one with the same arguments and the same `workdir`; one that ends well leaves nothing there, and no process is left by
    either. Raises InvalidDocument for an impossible number of ranks, ToolError when the measurement fails or another process is
    at the same one, and what `keep` raises.
    """
    quick_one, full = (QUICK_ON_CUDA, FULL_ON_CUDA) if discover_host().has_cuda else (QUICK, FULL)
    effort = quick_one if quick else full
    return profile_with(effort if seconds is None else replace(effort, budget_s=seconds), ranks, seed, report, workdir, keep)


def profile_with(effort: Effort, ranks: int, seed: int, report: Report, workdir: Path, keep: Keep = _keep_nowhere) -> CostModel:
    """The same with any effort. Raises as `profile_host` does."""
    host = discover_host()
    _refuse_what_cannot_be_measured(host, ranks)
    on_cuda = host.node.devices[0].type is DeviceType.CUDA
    table_bytes = int(usable_memory_bytes() * _TABLE_MEMORY_SHARE / ranks)
    if (free_bytes := available_memory_bytes()) < table_bytes * ranks:
        raise ToolError(
            f"measuring needs {show_gib(table_bytes * ranks)} of memory, {show_gib(free_bytes)} are free; end what takes it, then try again"
        )
    design = make_design(effort, ranks, seed, KERNELS_ON_CUDA if on_cuda else KERNELS_ON_CPU, table_bytes)
    report(f"{host.description}; measuring with {ranks} rank(s), {_show_measurements(design)} in {effort.budget_s:.0f} s")
    key = _key(design, host, ranks)
    busy = f"another profile is measuring this machine with {ranks} rank(s); wait until it has ended"
    kept = workdir / f"{_KEPT}{key}"
    with _refusing_a_bad_disk(workdir), alone(workdir / f"{_LOCK}{key}", busy), _telling_what_is_kept(kept, report):
        samples = _measured(design, ranks, report, workdir, kept)
        report(f"measured {_show_measured(samples[0])}, fitting")
        model = fit_cost_model(design, samples, host).model_copy(
            update={"software": software_versions(), "measured_at": datetime.now(UTC).isoformat(timespec="seconds")}
        )
        keep(model)
        shutil.rmtree(kept)
    _report_errors(model, report)
    return model


@contextmanager
def _refusing_a_bad_disk(workdir: Path) -> Iterator[None]:
    """Raises ToolError where what is measured can't be written under `workdir`, which is made."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ToolError(f"{error.filename or workdir}: can't be used for measurements: {error.strerror}") from None


@contextmanager
def _telling_what_is_kept(kept: Path, report: Report) -> Iterator[None]:
    """Says so where an error, an interrupt or the end of the time leaves measurements."""
    try:
        yield
    except BaseException:
        if any(path.stat().st_size for path in kept.glob("*")):
            with suppress(OSError):  # who listened may be gone
                report("what was measured so far is kept: the same profile, started again, goes on from there")
        raise


def _measured(design: Design, ranks: int, report: Report, workdir: Path, kept: Path) -> list[list[Sample]]:
    """The samples of each rank: those that `kept` holds from before, and the rest, which is measured now."""
    kept.mkdir(exist_ok=True)
    before, damaged = keep_common(kept, ranks, design)
    if before:
        report(f"continuing: {before} measurements were made before an interruption")
    if damaged:
        report(f"{damaged} lines of earlier measurements were damaged and are left out: what they held is measured again")
    with temporary_folder("profile", workdir) as scratch:
        measure(design, ranks, report, scratch, kept)
    return read_samples(kept, ranks)


def _key(design: Design, host: HostSpec, ranks: int) -> str:
    """What names measurements that may be continued: the same points, machine and software give the same key, whatever their time."""
    points = design.model_copy(update={"budget_s": 0.0})
    return sha256(f"{points.content_digest()} {host.fingerprint} {ranks} {software_versions()}".encode()).hexdigest()[:16]


def measure(design: Design, ranks: int, report: Report, scratch: Path, kept: Path) -> None:
    """Have the ranks append to their files in `kept` what these lack, with temporary files in `scratch`. Raises ToolError where it fails."""
    (scratch / "design.json").write_text(design.canonical_json())
    deadline = time.monotonic() + design.budget_s
    arguments = [str(scratch / "design.json"), str(kept), str(deadline)]
    progress = _Progress(design, report, kept)
    try:
        run_ranks([_PROGRAM, *arguments], ranks, scratch, 2 * design.budget_s + _OVERRUN_S, progress)
    except RanksTimedOut as late:
        raise ToolError(f"the measurement {late}") from None
    except RanksFailed as failure:
        raise ToolError(f"the measurement failed: {failure}") from None
    progress()


class _Progress:
    """When called, reports how many measurements the first rank has written, at most once in _PROGRESS_S seconds."""

    def __init__(self, design: Design, report: Report, kept: Path) -> None:
        self._design, self._report, self._path = design, report, rank_path(kept, 0)
        self._started = self._said = time.monotonic()

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._said < _PROGRESS_S or not self._path.exists():
            return
        self._said = now
        done = self._path.read_bytes().count(b"\n")
        self._report(f"{done} of {_show_measurements(self._design)}, {now - self._started:.0f} of {self._design.budget_s:.0f} s")


def _show_measured(samples: list[Sample]) -> str:
    points = len({(sample.kind, sample.index) for sample in samples})
    again = len(samples) - points
    return f"{points} points" + (f", {again} of them again" if again else "")


def _show_measurements(design: Design) -> str:
    return f"at most {design.size} measurements"


def _refuse_what_cannot_be_measured(host: HostSpec, ranks: int) -> None:
    if len(host.node.devices) > 1:
        raise ToolError("this machine has several kinds of GPU; only machines with equal GPUs can be measured")
    device = host.node.devices[0]
    most = device.count if device.type is DeviceType.CUDA else MAX_PROFILED_RANKS
    if not 1 <= ranks <= most:
        raise InvalidDocument("options", [BrokenRule("/ranks", str(ranks), f"must be from 1 to {most} on this host")])


def _report_errors(model: CostModel, report: Report) -> None:
    for one in (one for one in model.residuals if one.regime is None):
        report(
            f"error on points not fitted, {one.what}: mean {one.mape:.1%}, median {one.median:.1%}, worst {one.worst:.0%} of {one.points} points"
        )
    noise, drift = model.noise or 0.0, model.drift or 0.0
    report(f"the same work took up to {drift:.0%} longer at one time than at another; the fit is of the machine as it usually was")
    report(f"repeat noise {noise:.1%}" + ("; the machine was busy or unsteady, so measure again when it is idle" if noise > _NOISY else ""))
