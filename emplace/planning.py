"""Questions from what a person names, and audited plans from questions. The Python face, the command line and the service share them."""

from __future__ import annotations

from collections.abc import Sequence

from emplace.cost_model_store import CostModelStore, find_cost_model
from emplace.local_store import local_cost_models
from emplace.placement.audit import Violation, audit
from emplace.placement.catalog import LOCAL_HOST, find_host
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, Tier
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.stack import Stack
from emplace.placement.workload import Objective
from emplace.solver.progress import Monitor

_MAX_SHOWN_VIOLATIONS = 20


def resolve_host(name_or_path: str) -> HostSpec:
    """A built-in host, a host file, or `local`: this machine. Raises UnknownName, InvalidDocument."""
    if name_or_path != LOCAL_HOST:
        return find_host(name_or_path)
    from emplace.hardware.discover import discover_host

    return discover_host()


def build_question(
    model: ModelSpec, host: HostSpec, options: PlanOptions, cost_model: CostModel | None = None, stack: Stack | None = None
) -> Question:
    """The question with its cost model: the given one, else the datasheet's under the given stack, else the one that `emplace profile`
    kept, else the datasheet's under the default stack.

    Raises InvalidDocument when the cost model belongs to another host or lacks one of its devices, for a stack of other devices or
    beside a cost model, and for tables of this machine's CUDA trainers on remote servers.
    """
    if stack is not None:
        if cost_model is not None:
            raise InvalidDocument("options", [BrokenRule("/stack", stack.name, "goes without a cost model, which has prices of its own")])
        cost_model = datasheet_cost_model(host, stack)
    if cost_model is None:
        cost_model = measured_cost_model(local_cost_models(), host, options) or datasheet_cost_model(host)
    broken = _mismatch(cost_model, host)
    if broken is not None:
        raise InvalidDocument("cost model", [broken])
    question = Question(model=model, host=host, cost_model=cost_model, options=options)
    _refuse_unrunnable_servers(question)
    return question


def measured_cost_model(store: CostModelStore, host: HostSpec, options: PlanOptions) -> CostModel | None:
    """The model in `store` that was measured on this host; None where there is none, or where nobody has measured the remote servers.

    Raises InvalidDocument for one that can't be read.
    """
    stored = find_cost_model(store, host, options.ranks)
    if stored is None or host.remote_servers is None or _mismatch(stored, host) is None:
        return stored
    return None


def answer(question: Question, monitor: Monitor | None = None, warm_start: Plan | None = None, *, proof: bool = False) -> Plan:
    """Solve, from a plan for a similar question where one is given, then audit. A plan that fails the audit is never returned.

    With `proof` the plan carries one, which has been verified; finding it comes after the solve and is not in its limits. Raises
    ToolError naming the violations of a plan that failed, InvalidDocument for options that the host can't offer, such as more ranks
    than it has devices, and for a warm start that places no table of the model.
    """
    from emplace.placement.extrapolation import beyond_measured
    from emplace.solver.solve import solve_question

    if proof and question.options.objective is Objective.DEVICES:
        rule = "can't be proven: a proof is of one job, and here each smaller one would need its own; plan a job of so many ranks"
        raise InvalidDocument("options", [BrokenRule("/objective", Objective.DEVICES, rule)])
    plan = solve_question(question, monitor, warm_start)
    _withhold("plan", "audit", audit(plan))
    plan = plan.model_copy(update={"extrapolated": beyond_measured(plan)})
    return _with_proof(plan) if proof else plan


def _with_proof(plan: Plan) -> Plan:
    """With the strongest proof that is found up to what it claims. Raises ToolError for one that does not hold."""
    from emplace.placement.proof.verify import verify
    from emplace.solver.certificate.prover import prove

    proven = plan.model_copy(update={"proof": prove(plan)})
    _withhold("proof", "verification", verify(proven).violations)
    return proven


def _withhold(what: str, failed: str, violations: Sequence[Violation]) -> None:
    """Raises ToolError naming the violations, if there are any."""
    if violations:
        shown = [f"  {violation.where}: {violation.what}" for violation in violations[:_MAX_SHOWN_VIOLATIONS]]
        more = [f"  and {len(violations) - len(shown)} more"] if len(violations) > len(shown) else []
        raise ToolError("\n".join([f"the solver's {what} failed the {failed}, so it is withheld; please report this:", *shown, *more]))


def _refuse_unrunnable_servers(question: Question) -> None:
    """Raises InvalidDocument for CUDA trainers with servers on a machine that could run the plan. Elsewhere it is a what-if."""
    host = question.host
    if host.fingerprint is not None and host.has_cuda and question.options.allows(Tier.CPU):
        rule = "can't be run beside CUDA trainers: TorchRec's DistributedModelParallel has one kind of device; leave out the tier cpu"
        raise InvalidDocument("options", [BrokenRule("/tiers", str(Tier.CPU), rule)])
    if host.fingerprint is None or host.remote_servers is None or not question.options.allows(Tier.REMOTE):
        return
    if host.has_cuda:
        rule = "can't hold tables of CUDA trainers: TorchRec's DistributedModelParallel has one kind of device; leave out the tier remote"
        raise InvalidDocument("host", [BrokenRule("/remote_servers", "", rule)])


def _mismatch(cost_model: CostModel, host: HostSpec) -> BrokenRule | None:
    """Why the cost model can't price the host: it is another machine's, or lacks a device or kernel. None where it can."""
    if cost_model.fingerprint != host.fingerprint and cost_model.fingerprint is not None:
        return BrokenRule(
            "/fingerprint", cost_model.fingerprint, f"was measured on another machine; {host.name} is {host.fingerprint or 'not measured'}"
        )
    if cost_model.fingerprint is None and cost_model.host_name != host.name:
        return BrokenRule("/host_name", cost_model.host_name, f"is for another host; this question is about {host.name}")
    kinds = [device.kind for device in host.node.devices] + ([host.remote_servers.kind] if host.remote_servers else [])
    for kind in kinds:
        if cost_model.kernel(kind, ComputeKernel.FUSED) is None:
            return BrokenRule("/kernels", "", f"needs the kernel fused of the device {kind}")
        if all(dense.device != kind for dense in cost_model.dense):
            return BrokenRule("/dense", "", f"needs the dense layers of the device {kind}")
    return None
