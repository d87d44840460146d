"""Which plans can't be executed on this machine, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import MIXED_DEVICES
from emplace.placement.audit import audit, refuse
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.model import DataType, ModelSpec, Optimizer, Precision
from emplace.placement.plan import Plan
from emplace.placement.qcomm import CommPrecision

DENSE = "dense"
"""Path of the dense layers in runtime.dlrm.Dlrm."""

GLOO_SENDS = (CommPrecision.FP32, CommPrecision.FP16)
"""TorchRec replaces the others by fp16 on CPUs."""

HINT = "--emulate checks that it loads, trains and agrees: the same placement on CPU ranks, scaled down"


def refuse_foreign(plan: Plan, here: HostSpec) -> None:
    """Raises NotRunnableHere with the reason when `plan` was not made for `here`, or TorchRec can't train it there."""
    reason = nowhere_reason(plan)
    if reason is None and (reason := _elsewhere(plan, here)) is not None:
        reason = f"{reason}; {HINT}"
    on_cuda = cuda_ranks(plan) > 0
    reason = reason or unsupported_reason(plan.question.model, on_cuda=on_cuda) or (None if on_cuda else empty_lookup_reason(plan))
    if reason is not None:
        raise NotRunnableHere(reason)


def refuse_unsound(plan: Plan, source: str = "plan") -> None:
    """Raises InvalidDocument with every violation that the audit finds."""
    refuse(source, audit(plan))


def nowhere_reason(plan: Plan) -> str | None:
    """Why a plan can neither be executed on any machine nor emulated; None where it can."""
    if not plan.has_placement:
        return f"the plan is {plan.status}: it has no placement to execute"
    if cuda_ranks(plan) and any(rank.is_server for rank in plan.ranks):
        return MIXED_DEVICES
    return _untrainable(plan.question.model, on_cuda=True)


def empty_lookup_reason(plan: Plan) -> str | None:
    """Why CPU ranks can't train under a plan that gives one of them no row to look up in; None where they can.

    A rank looks up all tables of a module that have one sharding type and data type together, and FBGEMM finds out by their weights that
    it is on a CPU.
    """
    model, rows = plan.question.model, defaultdict[tuple[Any, ...], dict[str, int]](dict)
    placed = {placement.name: placement for placement in plan.tables}
    for table in (table for table in model.tables if table.name in placed):
        for shard in placed[table.name].shards:
            lookup = (shard.rank, placed[table.name].sharding_type, table.data_type, model.module_of(table).path)
            rows[lookup][table.name] = shard.rows[1] - shard.rows[0]
    for (rank, sharding_type, *_), of_tables in rows.items():
        if not any(of_tables.values()):
            names = ", ".join([*of_tables][:3])
            return (
                f"{sharding_type} leaves rank {rank} no row of {names}, and FBGEMM can't look up on a CPU where there is none; "
                "plan with other sharding_types in the constraints of such small tables, or for fewer ranks"
            )
    return None


def _elsewhere(plan: Plan, here: HostSpec) -> str | None:
    """Why a plan is for another machine than `here`; None where it is for this one."""
    needed, present = cuda_ranks(plan), _cuda_devices(here)
    if needed > present:
        return f"{needed} CUDA devices needed, {present} here"
    host = plan.question.host
    if host.fingerprint is None:
        return f"the plan is for {host.name}, a host from datasheets, not for this machine; plan with --host local to run here"
    if host.fingerprint != here.fingerprint:
        return f"the plan is for another machine: its fingerprint is {host.fingerprint}, this one's is {here.fingerprint}"
    return None


def cuda_ranks(plan: Plan) -> int:
    """Ranks that need a CUDA device of their own."""
    kinds = {device.kind for device in plan.question.host.node.devices if device.type is DeviceType.CUDA}
    return sum(rank.device in kinds for rank in plan.ranks)


def _cuda_devices(host: HostSpec) -> int:
    return sum(device.count for device in host.node.devices if device.type is DeviceType.CUDA)


def unsupported_reason(spec: ModelSpec, *, on_cuda: bool) -> str | None:
    """Why a model can't be trained here as it says, wherever its tables are; None where it can."""
    if spec.dense_precision not in (None, Precision.FP32):
        return f"dense layers run here in fp32; the model says {spec.dense_precision}: leave out its dense_precision"
    if spec.optimizer is Optimizer.ADAM and not on_cuda:
        return "optimizer adam runs on CUDA only: FBGEMM has no CPU kernel for it; use sgd, adagrad or rowwise_adagrad"
    return _untrainable(spec, on_cuda=on_cuda) or _unsupported_modules(spec, on_cuda=on_cuda)


def _untrainable(spec: ModelSpec, *, on_cuda: bool) -> str | None:
    for data_type in DataType:
        if (reason := type_refusal(data_type, on_cuda=on_cuda)) is not None and (names := _tables_of(spec, data_type)):
            return f"{reason}; here are {names}"
    return None


def type_refusal(data_type: DataType, *, on_cuda: bool) -> str | None:
    """Why TorchRec can't train tables of a type, or None."""
    if data_type is DataType.INT8:
        return "int8 tables can't be trained by TorchRec's EmbeddingBagCollection and EmbeddingCollection"
    if data_type is DataType.BF16 and not on_cuda:
        return "bf16 tables run on CUDA only: FBGEMM has no CPU kernel for them"
    return None


def _unsupported_modules(spec: ModelSpec, *, on_cuda: bool) -> str | None:
    """Why the spec's modules can't be built here; None where they can."""
    modules = spec.modules or ()
    for module in () if on_cuda else modules:
        if module.index_dedup:
            return f"index_dedup runs on CUDA only: FBGEMM's jagged_unique_indices has no CPU kernel; module {module.path} has it"
        if module.output_data_type is not DataType.FP32:
            return (
                f"vectors are put out in fp32 on CPUs; module {module.path} says {module.output_data_type}: leave out its output_data_type"
            )
        if not_sent := [each for each in (module.sent_in.forward_precision, module.sent_in.backward_precision) if each not in GLOO_SENDS]:
            return f"gloo sends vectors in {' and '.join(GLOO_SENDS)}; module {module.path} says {not_sent[0]} in its qcomm"
    if len({module.index_dedup for module in modules if not module.is_pooled}) > 1:
        return "one sharder is for all EmbeddingCollections of a job: give all modules with pooling none the same index_dedup"
    for pooled in (True, False):
        if len({module.sent_in.canonical_json() for module in modules if module.is_pooled is pooled}) > 1:
            which = "that pool" if pooled else "with pooling none"
            return f"one sharder is for all modules {which} of a job: give them the same qcomm"
    if own := [module.path for module in modules if module.path.split(".")[0] == DENSE]:
        return f"{DENSE} is where the model that runs here has its dense layers: move the module {own[0]}"
    return None


def _tables_of(spec: ModelSpec, data_type: DataType) -> str:
    """Names of the first three tables of this data type; empty where there are none."""
    return ", ".join([table.name for table in spec.tables if table.data_type is data_type][:3])
