"""Runs a plan for another host on CPU ranks here: the same placement, with tables and batches scaled down to fit.

It shows that TorchRec loads the plan, trains under it, puts every shard where the plan says and computes the right update. It
shows nothing about time or memory on the plan's host, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from emplace.executor.errors import NotRunnableHere
from emplace.executor.job import FEWEST_STEPS
from emplace.executor.launch import Launch
from emplace.executor.refusal import GLOO_SENDS, empty_lookup_reason, nowhere_reason, refuse_unsound
from emplace.executor.run import AUDITED, launch_plans
from emplace.executor.scaled import scaled_plan
from emplace.executor.verdicts import numerics_verdict, placement_verdict
from emplace.hardware.discover import discover_host
from emplace.placement.host import OF_CUDA, DeviceType, HostSpec
from emplace.placement.measurement import Emulation, Measurement, Verdict
from emplace.placement.model import ComputeKernel, DataType, ModelSpec, Optimizer, ShardingType
from emplace.placement.modules import Module
from emplace.placement.plan import Plan
from emplace.placement.qcomm import CommPrecision, Qcomm

MAX_EMULATED_RANKS = 16
MAX_EMULATED_ROWS = 100_000
MAX_EMULATED_BYTES = 256 * 2**20
"""The most bytes of the weights of all tables together; replicated tables count once here and are held by every rank."""
MAX_EMULATED_EXAMPLES = 128
NOT_CHECKED = "not checked: emulated"

_UVM = (ComputeKernel.FUSED_UVM, ComputeKernel.FUSED_UVM_CACHING)


def emulate_plan(plan: Plan, launch: Launch) -> Measurement:
    """Train under an emulation of `plan`, which may be for any host, and judge what an emulation can show.

    Ids of a trace are taken modulo the rows that are left.

    Raises NotRunnableHere for a plan that can't be emulated, InvalidDocument for one that its audit rejects, and
    ExecutionFailed with the root cause when a rank fails, time runs out or the launch is to stop.
    """
    refuse_impossible(plan)
    refuse_unsound(plan)
    emulated = emulated_plan(plan)
    if (reason := empty_lookup_reason(emulated)) is not None:
        raise NotRunnableHere(reason)
    job, [reports] = launch_plans([emulated], replace(launch, steps=launch.steps or FEWEST_STEPS))
    verdicts = (
        AUDITED,
        placement_verdict(emulated, [shard for each in reports for shard in each.held]),
        numerics_verdict(emulated, reports[0].update_errors),
        Verdict(name="memory", passed=None, detail=NOT_CHECKED),
        Verdict(name="throughput", passed=None, detail=NOT_CHECKED),
    )
    return Measurement(
        plan_digest=plan.content_digest(),
        host_fingerprint=str(discover_host().fingerprint),
        backend=reports[0].backend,
        software=reports[0].software,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        steps=len(reports[0].step_times_us),
        warmup_steps=job.warmup_steps,
        seed=job.seed,
        trace=None if launch.trace is None else launch.trace.name,
        emulated=_emulation(plan, emulated, holds=all(verdict.passed is not False for verdict in verdicts)),
        predicted_step_time_us=plan.step_time_us or 0.0,
        predicted_throughput_samples_per_s=plan.throughput_samples_per_s or 0.0,
        ranks=(),
        verdicts=verdicts,
        verified=False,
    )


def refuse_impossible(plan: Plan) -> None:
    """Raises NotRunnableHere for a plan that can't be emulated."""
    reason = nowhere_reason(plan)
    if reason is None and len(plan.ranks) > MAX_EMULATED_RANKS:
        reason = f"the plan has {len(plan.ranks)} ranks; an emulation runs at most {MAX_EMULATED_RANKS}"
    if reason is None and (names := _replicated_sequences(plan)):
        reason = f"FBGEMM's dense kernel for CPUs pools, so sequences that are data_parallel can't be emulated: {', '.join(names[:3])}"
    if reason is not None:
        raise NotRunnableHere(reason)


def _replicated_sequences(plan: Plan) -> list[str]:
    model = plan.question.model
    sequences = {table.name for table in model.tables if not model.module_of(table).is_pooled}
    return [table.name for table in plan.tables if table.name in sequences and table.sharding_type is ShardingType.DATA_PARALLEL]


def emulated_plan(plan: Plan) -> Plan:
    """The plan on CPU ranks: same nodes, ranks, sharding types, kernels and columns; fewer rows and examples.

    Predicted figures are left as they are: they belong to the full plan.
    """
    question = plan.question
    model = question.model.model_copy(
        update={
            "local_batch_size": min(question.model.local_batch_size, MAX_EMULATED_EXAMPLES),
            "optimizer": Optimizer.ADAGRAD if question.model.optimizer is Optimizer.ADAM else question.model.optimizer,
            "modules": None if question.model.modules is None else tuple(map(_on_cpu, question.model.modules)),
            "tables": tuple(
                table.model_copy(update={"data_type": DataType.FP32}) if table.data_type is DataType.BF16 else table
                for table in question.model.tables
            ),
        }
    )
    on_cpu = question.model_copy(update={"model": model, "host": _cpu_host(question.host)})
    return scaled_plan(plan.model_copy(update={"question": on_cpu}), MAX_EMULATED_ROWS, MAX_EMULATED_BYTES)


def _on_cpu(module: Module) -> Module:
    forward, backward = (
        each if each in GLOO_SENDS else CommPrecision.FP16 for each in (module.sent_in.forward_precision, module.sent_in.backward_precision)
    )
    qcomm = Qcomm(forward_precision=forward, backward_precision=backward)
    return module.model_copy(
        update={"index_dedup": False, "output_data_type": DataType.FP32, "qcomm": None if module.qcomm is None else qcomm}
    )


def _cpu_host(host: HostSpec) -> HostSpec:
    """The host with a CPU device in place of each of its devices."""
    cpu = dict.fromkeys(OF_CUDA) | {"type": DeviceType.CPU}
    devices = tuple(device.model_copy(update=cpu) for device in host.node.devices)
    return host.model_copy(update={"node": host.node.model_copy(update={"devices": devices})})


def _emulation(plan: Plan, emulated: Plan, *, holds: bool) -> Emulation:
    model, small = plan.question.model, emulated.question.model
    return Emulation(
        host=plan.host.name,
        holds=holds,
        rows=_rows(model),
        emulated_rows=_rows(small),
        local_batch_size=model.local_batch_size,
        emulated_local_batch_size=small.local_batch_size,
        stand_ins=tuple(_stand_ins(plan)),
    )


def _rows(model: ModelSpec) -> int:
    return sum(table.num_embeddings for table in model.tables)


def _stand_ins(plan: Plan) -> list[str]:
    """What ran otherwise than on the plan's host, besides sizes."""
    model = plan.question.model
    found = []
    if plan.question.host.has_cuda:
        found.append("CPU ranks over gloo stood in for CUDA devices over NCCL")
    kernels = sorted({table.compute_kernel for table in plan.tables if table.compute_kernel in _UVM})
    if kernels:
        found.append(f"{' and '.join(kernels)} ran from plain system memory, as FBGEMM runs them on CPUs: no UVM, no cache was exercised")
    if model.optimizer is Optimizer.ADAM:
        found.append("adagrad stood in for adam, for which FBGEMM has no CPU kernel")
    if any(table.data_type is DataType.BF16 for table in model.tables):
        found.append("fp32 stood in for bf16 tables, for which FBGEMM has no CPU kernel")
    modules = model.modules or ()
    if any(module.index_dedup for module in modules):
        found.append("ids that come again were sent again, not once as index_dedup says: FBGEMM has no CPU kernel for it")
    if any(module.output_data_type is not DataType.FP32 for module in modules):
        found.append("vectors were put out in fp32")
    if any(_on_cpu(module).qcomm != module.qcomm for module in modules):
        found.append("vectors were sent in fp16, the narrowest that gloo sends")
    return found
