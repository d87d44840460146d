"""The figures of one plan in a study."""

from __future__ import annotations

from emplace.placement.beside_stages import beside_stages_us, waits_for
from emplace.placement.document import Document
from emplace.placement.plan import Plan, PlanStatus
from emplace.placement.price_range import step_range
from emplace.placement.step_costs import step_costs
from emplace.studies.power import Running, running
from emplace.studies.resources import Elasticity, elasticities

OVERHEAD = "overhead"
"""What a step lasts beside its stages, where devices wait for nothing."""


class Binding(Document):
    """What a step mostly is."""

    stage: str
    """A stage, `overhead`, or what devices wait for: `launches` or `input`."""
    share: float
    """Its share of the step; all of it where devices wait, as no step is shorter whatever its stages need."""
    resource: str | None = None
    """The rate of the host of which more would gain most, where any would gain something."""


class Figures(Document):
    """What is known of one question's best plan. Figures are absent where there is none."""

    status: PlanStatus
    reason: str | None = None
    """Why nothing fits."""
    gap: float | None = None
    step_time_us: float | None = None
    step_range_us: tuple[float, float] | None = None
    """Over the ranges of the software stack, where nothing was measured."""
    lower_bound_us: float | None = None
    throughput: float | None = None
    """Examples per second of all trainers."""
    throughput_range: tuple[float, float] | None = None
    stages_us: dict[str, float] | None = None
    """They add up to the step; what devices wait for has the rest of it."""
    binds: Binding | None = None
    trainers: int | None = None
    running: Running | None = None
    elasticities: tuple[Elasticity, ...] = ()


def figures_of(plan: Plan) -> Figures:
    """The figures of an audited plan."""
    if not plan.has_placement:
        reasons = plan.explanation.reasons if plan.explanation else ()
        return Figures(status=plan.status, reason=reasons[0] if reasons else None, lower_bound_us=plan.lower_bound_us)
    step_us, examples = plan.step_time_us or 0.0, plan.question.model.local_batch_size * plan.num_trainers
    spread, gains, stages = step_range(plan), elasticities(plan), _stages_us(plan)
    return Figures(
        status=plan.status,
        gap=plan.gap,
        step_time_us=step_us,
        step_range_us=None if spread is None else (spread.fast_us, spread.slow_us),
        lower_bound_us=plan.lower_bound_us,
        throughput=plan.throughput_samples_per_s,
        throughput_range=None if spread is None else (examples * 1e6 / spread.slow_us, examples * 1e6 / spread.fast_us),
        stages_us=stages,
        binds=Binding(stage=floor, share=1.0, resource=_most(gains)) if (floor := waits_for(plan)) else _binding(stages, step_us, gains),
        trainers=plan.num_trainers,
        running=running(plan),
        elasticities=gains,
    )


def _stages_us(plan: Plan) -> dict[str, float]:
    made_of = step_costs(plan.sized_question, plan.tables, plan.topology())
    stages = {str(stage.stage): stage.time_us for stage in made_of.stages}
    beside_us = beside_stages_us(plan)
    if beside_us > 0:
        stages[waits_for(plan) or OVERHEAD] = beside_us
    return stages


def _binding(stages: dict[str, float], step_us: float, gains: tuple[Elasticity, ...]) -> Binding:
    stage = max(stages, key=lambda each: stages[each])
    return Binding(stage=stage, share=stages[stage] / step_us, resource=_most(gains))


def _most(gains: tuple[Elasticity, ...]) -> str | None:
    return gains[0].resource if gains and gains[0].percent > 0 else None
