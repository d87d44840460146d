"""Which plans can't be executed on this machine, and why."""

from __future__ import annotations

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
    reason = reason or unsupported_reason(plan.question.model, on_cuda=cuda_ranks(plan) > 0)
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
    return _untrainable(plan.question.model)


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
    if (reason := _untrainable(spec)) is not None:
        return reason
    if spec.dense_precision not in (None, Precision.FP32):
        return f"dense layers run here in fp32; the model says {spec.dense_precision}: leave out its dense_precision"
    if spec.optimizer is Optimizer.ADAM and not on_cuda:
        return "optimizer adam runs on CUDA only: FBGEMM has no CPU kernel for it; use sgd, adagrad or rowwise_adagrad"
    if not on_cuda and (names := _tables_of(spec, DataType.BF16)):
        return f"bf16 tables run on CUDA only: FBGEMM has no CPU kernel for them; here are {names}"
    return _unsupported_modules(spec, on_cuda=on_cuda)


def _untrainable(spec: ModelSpec) -> str | None:
    if names := _tables_of(spec, DataType.INT8):
        return f"int8 tables can't be trained by TorchRec's EmbeddingBagCollection; here are {names}"
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
