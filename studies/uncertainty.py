"""Which figure of a software stack makes a step's range as wide as it is: what to measure first."""

from __future__ import annotations

from emplace.placement.datasheet import follows_datasheet
from emplace.placement.document import Document
from emplace.placement.plan import Plan
from emplace.placement.price_range import step_under_us
from emplace.placement.stack import Estimate, Pace


class Doubt(Document):
    """What one figure of the stack alone does to a step."""

    figure: str
    source: str
    step_range_us: tuple[float, float]
    """With this figure at either end of its range and all others typical."""

    @property
    def width_us(self) -> float:
        return self.step_range_us[1] - self.step_range_us[0]


def doubts(plan: Plan) -> list[Doubt]:
    """Figures that the plan's step depends on, widest first; none where prices are measured or given."""
    question = plan.sized_question
    stack = question.cost_model.stack
    if stack is None or not plan.has_placement or not follows_datasheet(question.cost_model, question.host):
        return []
    found = []
    for name in type(stack).model_fields:
        figure = getattr(stack, name)
        if not isinstance(figure, Estimate):
            continue
        ends = []
        for end in (figure.low, figure.high):
            # All others typical; a figure's own three are one.
            fixed = figure.model_copy(update={"low": end, "typical": end, "high": end})
            ends.append(step_under_us(plan, stack.model_copy(update={name: fixed}), Pace.TYPICAL))
        if max(ends) > min(ends):
            found.append(Doubt(figure=name, source=figure.source, step_range_us=(min(ends), max(ends))))
    return sorted(found, key=lambda doubt: (-doubt.width_us, doubt.figure))
