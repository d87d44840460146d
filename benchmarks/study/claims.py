"""What Acun et al. (HPCA 2021) say, and what the model finds: each claim with its evidence, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import emplace
from benchmarks.study.cases import FLEET_TARGETS, StudyCase, fleet_throughputs
from benchmarks.study.sweeps import line, throughputs
from emplace.app.reports.sweep_text import short
from emplace.placement.plan import PlanStatus
from emplace.studies.comparing import are_apart
from emplace.studies.recommend import RankedHost
from emplace.studies.sweep import Sweep

CPU, BASIN, ZION = "cpu-dual-socket", "big-basin-32g", "zion"
LINEAR = 1.6
"""Twice as much of something that brings so many times the throughput is called about linear."""
DEVICE, SYSTEM, REMOTE, BOTH = "device memory", "system memory, CPUs look up", "remote servers", "both memories, CPUs look up"
"""System memory is looked up by CPUs here, as on the paper's hosts."""


@dataclass(frozen=True)
class ClaimFinding:
    """`sure` says why the answer holds for all figures in their ranges, or why not."""

    claim: str
    agrees: bool
    finds: str
    sure: str


def findings(sweeps: Mapping[str, Sweep], cases: Sequence[StudyCase]) -> Iterator[ClaimFinding]:
    m1, m2, m3 = cases
    yield _batch(sweeps["batch"])
    yield _batch_of_each(sweeps["batch"])
    yield _length()
    yield _capacity(cases)
    yield _remote(m1, m2)
    yield _system_memory(m1, m2)
    yield _scale_out()
    yield _trainers()
    yield _sparse_servers(cases)
    yield _readers(cases)
    yield _watts(m1, m2)
    yield _too_large(m3)
    yield _zion(m3)


def _batch(sweep: Sweep) -> ClaimFinding:
    parts, agrees = [], True
    for host in (CPU, BASIN):
        found = throughputs(sweep, host)
        first, last = found[1] / found[0], found[-1] / found[-2]
        agrees = agrees and first > LINEAR and last < first
        parts.append(f"{host}: from 10 to 20 examples a rank {first:.2f} times the throughput, from 6400 to 12,800 {last:.2f} times")
    return ClaimFinding(
        "Throughput grows about linearly with the batch, up to saturation.", agrees, "; ".join(parts), "shapes, which no range changes"
    )


def _batch_of_each(sweep: Sweep) -> ClaimFinding:
    values = list(sweep.axes[0].values)
    shares = {host: [each / max(throughputs(sweep, host)) for each in throughputs(sweep, host)] for host in (CPU, BASIN)}
    at = {(host, batch): shares[host][values.index(batch)] for host in shares for batch in (200, 1600)}
    finds = f"at 200 examples a rank {CPU} has {at[CPU, 200]:.0%} of its highest throughput and {BASIN} {at[BASIN, 200]:.0%}, at 1600 {at[CPU, 1600]:.0%} and {at[BASIN, 1600]:.0%}"
    return ClaimFinding(
        "CPUs train with small batches (about 200), GPUs need large ones.",
        at[CPU, 200] > 2 * at[BASIN, 200],
        finds,
        "shapes, which few figures change",
    )


def _length() -> ClaimFinding:
    sweep = emplace.sweep("suite", CPU, ["/length=8,16,32,64"], settings=["truncate=100000", "batch=1600"])
    spent = [sum((each.stages_us or {}).get(stage, 0.0) for stage in ("lookup_forward", "lookup_backward")) for each in line(sweep, CPU)]
    grows = [after / before for before, after in pairwise(spent)]
    finds = f"lookups of {CPU} take {', '.join(f'{each:.2f}' for each in grows)} times as long for each doubling of the mean length from 8 to 64"
    return ClaimFinding(
        "The cost of lookups grows about linearly with the length of features.",
        all(1.4 < each < 2.05 for each in grows),
        finds,
        "follows from the cost model, not from a figure; repeated rows cost less than new ones",
    )


def _capacity(cases: Sequence[StudyCase]) -> ClaimFinding:
    fits = {case.model: case.of(BASIN, DEVICE).figures.status for case in cases}
    agrees = fits["m3"] is PlanStatus.INFEASIBLE and all(fits[model] is not PlanStatus.INFEASIBLE for model in ("m1", "m2"))
    said = ", ".join(f"{model} {'does not fit' if status is PlanStatus.INFEASIBLE else 'fits'}" for model, status in fits.items())
    return ClaimFinding(
        "M1 and M2 fit the GPU memory of one Big Basin, M3 does not.",
        agrees,
        f"of {BASIN}: {said}",
        "proven, for dim 128 and element-wise Adagrad, which are assumed from this claim",
    )


def _remote(m1: StudyCase, m2: StudyCase) -> ClaimFinding:
    agrees, parts, apart = True, [], True
    for case in (m1, m2):
        near, far = case.of(BASIN, DEVICE), case.of(BASIN, REMOTE)
        agrees = agrees and (far.value or 0.0) < (near.value or 0.0)
        apart = apart and are_apart(near.figures, far.figures)
        parts.append(
            f"{case.model} {short(far.value or 0.0)} against {short(near.value or 0.0)} examples/s in GPU memory; most of a step is {_stage(far)}"
        )
    return ClaimFinding(
        "With tables on remote servers every lookup crosses the network.", agrees, f"{BASIN}: {'; '.join(parts)}", _said(apart)
    )


def _system_memory(m1: StudyCase, m2: StudyCase) -> ClaimFinding:
    agrees, parts, apart = True, [], True
    for case in (m1, m2):
        near, far = case.of(BASIN, DEVICE), case.of(BASIN, SYSTEM)
        agrees = agrees and (far.value or 0.0) < (near.value or 0.0)
        apart = apart and are_apart(near.figures, far.figures)
        parts.append(
            f"{case.model} {short(far.value or 0.0)} against {short(near.value or 0.0)} examples/s; more {far.figures.binds.resource if far.figures.binds else ''} would gain most, most of a step is {_stage(far)}"
        )
    return ClaimFinding(
        "With tables in the system memory of the GPU server, its CPUs' bandwidth counts, and vectors cross PCIe.",
        agrees,
        f"{BASIN}: {'; '.join(parts)}",
        _said(apart),
    )


def _scale_out() -> ClaimFinding:
    sweep = emplace.sweep("m3", BASIN, ["/remote_servers/count=4,8,16"], tiers=["remote"])
    found = throughputs(sweep, BASIN)
    grows = [after / before for before, after in pairwise(found)]
    said = " and ".join(f"{each:.2f}" for each in grows)
    return ClaimFinding(
        "Tables on remote servers scale out.",
        all(each > LINEAR for each in grows),
        f"M3 on one {BASIN}: each doubling of the servers from 4 to 16 brings {said} times the throughput",
        "of one trainer node, whose own link fills first; room for tables does grow with every server",
    )


def _trainers() -> ClaimFinding:
    found = fleet_throughputs("m1", [1, 2, 4, 8, 16, 32], sparse_servers=8)
    grows = [after / before for before, after in pairwise(found)]
    finds = f"M1 on CPU servers with 8 sparse and 2 dense ones: each doubling of the trainers from 1 to 32 brings {', '.join(f'{each:.2f}' for each in grows)} times the throughput"
    return ClaimFinding(
        "Trainers add throughput about linearly up to a degree.",
        grows[0] > 1.8 and grows[-1] < 1.2,
        finds,
        "a queueing model, not held against real fleets",
    )


def _sparse_servers(cases: Sequence[StudyCase]) -> ClaimFinding:
    parts, agrees = [], True
    for case in cases:
        sized = (case.fleet.counts or {})["sparse_servers"]
        least = {bound.by: bound.least for bound in sized.bounds}
        agrees = agrees and max(least["capacity"], least["sparse_server_cpu"]) >= least["sparse_server_network"]
        parts.append(f"{case.model} takes {sized.count}: {', '.join(f'{by} alone {count}' for by, count in least.items())}")
    return ClaimFinding(
        "Sparse parameter servers are sized by capacity and lookup load.",
        agrees,
        f"fleets of CPU servers for {', '.join(FLEET_TARGETS.values())} examples/s: {'; '.join(parts)}",
        "a queueing model, not held against real fleets",
    )


def _readers(cases: Sequence[StudyCase]) -> ClaimFinding:
    counts = ", ".join(f"{case.model} {(case.fleet.counts or {})['readers'].count}" for case in cases)
    waits = [case.model for case in cases if (best := case.best_on(BASIN)) and best.figures.binds and best.figures.binds.stage == "input"]
    return ClaimFinding(
        "Readers are scaled until reading is no bottleneck.",
        True,
        f"readers of the same fleets: {counts}; with as many as it takes, {' and '.join(waits) or 'no model'} on {BASIN} still waits for input to cross its network",
        "built in: readers are counted by their network alone, what decoding takes is not known",
    )


def _watts(m1: StudyCase, m2: StudyCase) -> ClaimFinding:
    parts, different, apart = [], False, True
    for case in (m1, m2):
        gpu, cpu = case.best_on(BASIN), case.fleet
        of_gpu = gpu.figures.running.throughput_per_w if gpu and gpu.figures.running else None
        of_cpu = cpu.running.throughput_per_w if cpu.running else None
        if gpu is None or of_gpu is None or of_cpu is None:
            continue
        by_speed = (gpu.figures.throughput or 0.0) / ((cpu.throughput or 0.0) / (cpu.running.servers if cpu.running else 1))
        different = different or by_speed > 1.5 * of_gpu / of_cpu
        slow, _ = gpu.value_range or (0.0, 0.0)
        _, fast = cpu.throughput_range or (0.0, 0.0)
        apart = apart and slow / (gpu.figures.throughput or 1.0) * of_gpu > fast / (cpu.throughput or 1.0) * of_cpu
        parts.append(
            f"{case.model}: {BASIN} has {by_speed:.0f} times the throughput of a server of a CPU fleet, and {of_gpu / of_cpu:.1f} times that for each watt"
        )
    return ClaimFinding("Throughput per watt decides the choice of host as much as throughput.", different, "; ".join(parts), _said(apart))


def _too_large(m3: StudyCase) -> ClaimFinding:
    fleet = m3.fleet.running.throughput_per_w if m3.fleet.running else None
    remote, both = (_per_watt(m3.of(BASIN, place)) for place in (REMOTE, BOTH))
    agrees = remote is not None and fleet is not None and remote < fleet
    finds = f"M3, examples/s for each watt: {_figure(remote)} on {BASIN} with tables on remote servers, {_figure(both)} with them in both memories, {_figure(fleet)} on a fleet of CPU servers"
    sure = "with remote servers only; with device and system memory together the model finds the opposite"
    return ClaimFinding(
        "Models that embeddings dominate and that don't fit GPU memory can be less efficient on GPUs than on CPUs.", agrees, finds, sure
    )


def _zion(m3: StudyCase) -> ClaimFinding:
    zion, basin = m3.best_on(ZION), m3.best_on(BASIN)
    agrees = zion is not None and basin is not None and (zion.value or 0.0) > (basin.value or 0.0)
    said = [
        f"{each.host} {short(each.value or 0.0)} examples/s in {each.place}, most of a step {_stage(each)}"
        for each in (zion, basin)
        if each
    ]
    apart = zion is not None and basin is not None and are_apart(zion.figures, basin.figures)
    return ClaimFinding(
        "Zion's large system memory is for models that don't fit GPU memory.", agrees, f"M3: {'; '.join(said)}", _said(apart)
    )


def _per_watt(candidate: RankedHost) -> float | None:
    return candidate.figures.running.throughput_per_w if candidate.figures.running else None


def _stage(candidate: RankedHost) -> str:
    binds = candidate.figures.binds
    return "nothing" if binds is None else f"`{binds.stage}` ({binds.share:.0%})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _said(apart: bool) -> str:
    return "sure: ranges are apart" if apart else "not sure: ranges overlap"
