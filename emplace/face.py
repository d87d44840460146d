"""What `import emplace` offers: plans, checks and audits from a program's own models and hosts.

Times are in microseconds, sizes in bytes. Every function raises a child of EmplaceError whose text is for people, and none prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from emplace.gate import Budgets, CheckResult
from emplace.one_check import checked
from emplace.placement.audit import Violation, refuse, structural_violations
from emplace.placement.audit import audit as violations_of
from emplace.placement.catalog import find_model, find_stack
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question, by_the_clock
from emplace.placement.reading import from_data, read_file
from emplace.planning import answer, build_question, resolve_host
from emplace.solver.progress import Monitor

Model: TypeAlias = ModelSpec | Mapping[str, Any] | str | Path
"""A document, its data, a built-in name or a path."""
Host: TypeAlias = HostSpec | Mapping[str, Any] | str | Path
"""A document, its data, a built-in name (`local` is this machine) or a path."""

_Doc = TypeVar("_Doc", bound=Document)


def plan(
    model: Model,
    host: Host,
    *,
    cost_model: CostModel | None = None,
    stack: str | Path | None = None,
    monitor: Monitor | None = None,
    warm_start: Plan | None = None,
    proof: bool = False,
    **options: Any,
) -> Plan:
    """Decide where each table of the model lives on the host, and prove how good that is.

    `options` are those of PlanOptions, such as tiers=["hbm"], nodes=2, ranks=8, objective="p95", work_limit=10.0 (seconds of
    counted work, the default), time_limit=60.0 (seconds of the wall), gap=0.001, seed=0. Without a cost model it is priced with
    the one measured on this host, else by the datasheet; the plan says which. `stack` asks for the datasheet's prices under that software
    stack, a built-in name or a file. `monitor` is told where the solve stands and may stop it.
    `warm_start` is a plan for a question that differs a little: the search begins there, and the plan names it.
    With `proof` the plan carries one; finding it is not in the limits, and it can't be had with the objective devices.

    The plan's status is optimal, feasible, infeasible (proven; `explanation` says why and what would help) or undecided.
    Raises InvalidDocument for what breaks a rule, UnknownName for a name or a file that isn't there, ToolError where this
    machine lacks something.
    """
    return answer(_question(model, host, options, cost_model, stack), monitor, warm_start, proof=proof)


def check(
    model: Model,
    host: Host,
    *,
    max_step_time_us: float | None = None,
    min_throughput: float | None = None,
    baseline: Plan | None = None,
    max_regression: float | None = None,
    max_power_w: float | None = None,
    sure: bool = False,
    cost_model: CostModel | None = None,
    stack: str | Path | None = None,
    plan: bool = False,
    **options: Any,
) -> CheckResult:
    """Whether the model fits the host within the budgets; `fits` is true, false (proven) or None (undecided).

    It ends as soon as that is certain, with the first plan that keeps the budgets; `plan` looks for the best one.

    `min_throughput` is in examples per second of all ranks together, `max_regression` in percent over the step time of
    `baseline`, `max_power_w` in watts of all servers; with `sure` times must hold over the whole range of a step that nobody measured. `options` are those of `plan`,
    but by default the answer is there within 10 s of time. Raises as `plan` does.
    """
    given = {
        "max_step_time_us": max_step_time_us,
        "min_throughput": min_throughput,
        "max_regression": max_regression,
        "baseline": baseline,
        "max_power_w": max_power_w,
        "sure": sure or None,
    }
    budgets = from_data({key: value for key, value in given.items() if value is not None}, Budgets, source="budgets")
    asked = _question(model, host, by_the_clock(options), cost_model, stack)
    return checked(asked, budgets, Monitor(), whole=plan)


def audit(plan: Plan, *, proof: bool = False) -> list[Violation]:
    """Everything that is wrong with a plan: coverage, capacities and predicted times derived again without the solver's code.

    An empty list is a sound plan. With `proof` the proof of a sound plan is verified too: without violations `plan.proof.bound_us`
    holds, which may be less than `plan.lower_bound_us`. Raises InvalidDocument where there is no proof.
    """
    violations = violations_of(plan)
    if not proof or violations:
        return violations
    from emplace.placement.proof.verify import verify

    return list(verify(plan).violations)


def explain(plan: Plan, *, monitor: Monitor | None = None) -> Plan:
    """The plan with its `diagnosis`: which stages, ranks and tables its step is made of, and what more hardware would bring.

    Each change of the hardware is solved with the limits of the plan's own question, so it takes several times as long as the plan.
    `monitor` is told where each solve stands; where it asks to stop, the changes that are left have estimates only. A plan without
    a placement comes back as it is: its `explanation` says why. Raises InvalidDocument for a plan whose tables are not placed soundly.
    """
    from emplace.diagnosing import diagnosed

    refuse("plan", structural_violations(plan))
    return diagnosed(plan, monitor)


def read_model(model: Model) -> ModelSpec:
    """The model document of a built-in name, a YAML or JSON file, or its data. Raises InvalidDocument, UnknownName."""
    if isinstance(model, ModelSpec | Mapping):
        return _document(model, ModelSpec, "model")
    return find_model(str(model))


def read_host(host: Host) -> HostSpec:
    """The host document of a built-in name, `local`, a YAML or JSON file, or its data. Raises InvalidDocument, UnknownName."""
    if isinstance(host, HostSpec | Mapping):
        return _document(host, HostSpec, "host")
    return resolve_host(str(host))


def read_plan(path: str | Path) -> Plan:
    """A plan that was written as JSON. Raises InvalidDocument."""
    return read_file(Path(path), Plan)


def _question(model: Model, host: Host, options: Mapping[str, Any], cost_model: CostModel | None, stack: str | Path | None) -> Question:
    asked = from_data(dict(options), PlanOptions, source="options")
    return build_question(read_model(model), read_host(host), asked, cost_model, None if stack is None else find_stack(str(stack)))


def _document(given: _Doc | Mapping[str, Any], kind: type[_Doc], source: str) -> _Doc:
    return given if isinstance(given, kind) else from_data(dict(given), kind, source=source)
