"""docs/validation.md, from the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.markdown import head
from benchmarks.published.points import Point, data, mean_error, worst_factor
from emplace.placement.catalog import builtin_stack

_INTRODUCTION = """# Predicted beside published

Made by `python -m benchmarks.published`. Nothing here was measured by us: these are times that others published of GPU
hosts, and what Emplace says of the same model on the same host from datasheets and a [software
stack](explanation/cost-model.md#from-datasheets).

- *Ratio* is predicted over published.
- *Range* is the step with every figure of the stack at the fast end of its range, and at the slow.
- Of whole steps the plan is Emplace's own: which one was trained is not published.
- The cache of FBGEMM's benchmark is empty when it begins, and holds a share of the different ids of all its steps. A forward is predicted
  with as many misses as there are first uses, a backward with its size; what it evicts and needs again is in neither.
- A stack's figures are set once, from physics and these publications, and never for one point. So the table says how well one set
  of figures explains all of them; it does not say how well times are foretold that nobody has looked at.

![Predicted against published times](validation.svg)

In the grey band a prediction is within 20%.
"""


def page(points: Sequence[Point]) -> str:
    """The page, publication by publication."""
    parts = [_INTRODUCTION, *_summary(points)]
    for name in dict.fromkeys(point.publication for point in points):
        parts += _publication(name, [point for point in points if point.publication == name])
    return "\n".join(parts) + "\n"


def _summary(points: Sequence[Point]) -> Iterator[str]:
    inside = sum(point.is_in_range for point in points)
    widest = max(point.slow_ms / point.fast_ms for point in points)
    yield f"{inside} of {len(points)} published times lie in their range; the widest range ends at {widest:.2f} times where it begins.\n"


def _publication(name: str, points: Sequence[Point]) -> Iterator[str]:
    facts, stack = data(name), builtin_stack(points[0].stack)
    yield f"## {facts['title']}\n"
    yield f"Source: {facts['source']}. {facts.get('note') or facts.get('hardware')}\n"
    yield f"Stack `{stack.name}`: {stack.description.strip()}\n"
    yield f"Geometric mean error {mean_error(points):.1%}, the worst is off by a factor of {worst_factor(points):.2f}.\n"
    yield head("what", "published, ms", "predicted, ms", "ratio", "range, ms", "in it")
    for point in points:
        spread = f"{point.fast_ms:.3g} to {point.slow_ms:.3g}"
        yes = "yes" if point.is_in_range else "no"
        yield f"| {point.what} | {point.published_ms:.3g} | {point.predicted_ms:.3g} | {point.ratio:.2f} | {spread} | {yes} |"
    yield ""
