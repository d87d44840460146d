"""What a batch costs in quality: examples to reach it, from a user's own curve or a measured noise scale. Nothing else says it."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import from_data, read_file, text_of
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.target import AMOUNT_SCHEMA, number_of

MAX_POINTS = 1000


_LEAST, _MOST = 1.0, 1e18
Count = Annotated[
    float,
    Field(strict=True, ge=_LEAST, le=_MOST),
    BeforeValidator(number_of),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": _LEAST, "maximum": _MOST}, AMOUNT_SCHEMA]}),
]
"""5000000, or "5M"."""


def _either(schema: dict[str, Any]) -> None:
    """In the schema, too: that one of the two is said."""
    given, absent = {"not": {"type": "null"}}, {"type": "null"}
    ways = ({"examples": given, "steps": absent}, {"examples": absent, "steps": given})
    schema["anyOf"] = [{"properties": way, "required": [key]} for way, key in zip(ways, ("examples", "steps"), strict=True)]


class CurvePoint(Document):
    """A global batch, and what it took to reach the quality with it: examples or steps."""

    model_config = ConfigDict(json_schema_extra=_either)

    global_batch: Count
    examples: Count | None = None
    steps: Count | None = None

    @model_validator(mode="after")
    def _says_one(self) -> CurvePoint:
        if (self.examples is None) == (self.steps is None):
            raise broken_rule("/examples", "", "say either examples or steps to the quality")
        return self

    @property
    def needed(self) -> float:
        """Examples to the quality."""
        return self.examples if self.examples is not None else (self.steps or 0.0) * self.global_batch


class QualityCurve(Document):
    """A user's own measurement: what training took to one quality at several global batches."""

    schema_version: Literal[1] = 1
    quality: str = "the quality of the curve"
    """What was reached, such as "NE 0.78"."""
    points: Annotated[tuple[CurvePoint, ...], Field(min_length=1, max_length=MAX_POINTS)]

    @model_validator(mode="after")
    def _rises(self) -> QualityCurve:
        for number, (first, second) in enumerate(pairwise(self.points)):
            if second.global_batch <= first.global_batch:
                raise broken_rule(f"/points/{number + 1}/global_batch", second.global_batch, "must be more than the one before it")
        return self

    def examples(self, global_batch: float) -> float | None:
        """Examples to the quality, between two points straight in logarithms; None outside of them, where nobody measured."""
        if global_batch == self.points[0].global_batch:
            return self.points[0].needed
        for low, high in pairwise(self.points):
            if low.global_batch < global_batch <= high.global_batch:
                part = math.log(global_batch / low.global_batch) / math.log(high.global_batch / low.global_batch)
                return float(low.needed ** (1 - part) * high.needed**part)
        return None


@dataclass(frozen=True)
class Quality:
    """A curve, a noise scale, or a noise scale with a curve of one point, from which it goes on to other batches."""

    curve: QualityCurve | None = None
    noise: NoiseScale | None = None

    @property
    def is_absolute(self) -> bool:
        """Whether it knows how many examples there are, and not only how they compare between batches."""
        return self.curve is not None

    @property
    def scales(self) -> tuple[float, ...]:
        """Both ends of the noise scale's interval."""
        return () if self.noise is None else (self.noise.low, math.inf if self.noise.high is None else self.noise.high)

    def examples(self, global_batch: int) -> float | None:
        """Examples to the quality, in multiples of the least where no curve says how many; None where nothing is known."""
        if self.noise is None:
            return None if self.curve is None else self.curve.examples(global_batch)
        if self.curve is None:
            return weight(global_batch, self.noise.noise_scale) / self.noise.noise_scale
        return self._from_known(self.curve.points[0], global_batch, self.noise.noise_scale)

    def examples_range(self, global_batch: int) -> tuple[float, float] | None:
        """The fewest and the most examples over the interval of the noise scale; None where it is not known how many there are."""
        if self.curve is None:
            return None
        if self.noise is None:
            known = self.curve.examples(global_batch)
            return None if known is None else (known, known)
        ends = sorted(self._from_known(self.curve.points[0], global_batch, scale) for scale in self.scales)
        return ends[0], ends[-1]

    def _from_known(self, known: CurvePoint, global_batch: int, scale: float) -> float:
        return known.needed * weight(global_batch, scale) / weight(known.global_batch, scale)


def weight(global_batch: float, scale: float) -> float:
    """What examples to a quality are proportional to over batches: E = E_min (1 + B / B_noise) (arXiv 1812.06162, section 2.3)."""
    return 1.0 if math.isinf(scale) else scale + global_batch


def quality_of(curve: QualityCurve | None, noise: NoiseScale | None, model: str) -> Quality | None:
    """None where neither is given: then no quality is said. Raises InvalidDocument for a noise scale of another model."""
    if noise is not None and noise.model != model:
        rule = f"is not of {model}: measure it in the training of that model (emplace.noise_scale), as no model's noise says another's"
        raise InvalidDocument("--noise", [BrokenRule("/model", noise.model, rule)])
    if noise is not None and curve is not None and len(curve.points) > 1:
        rule = "says examples at every batch itself: leave out --noise, or give a curve of one point for the noise scale to go on from"
        raise InvalidDocument("--curve", [BrokenRule("/points", f"{len(curve.points)} points", rule)])
    return None if curve is None and noise is None else Quality(curve, noise)


def read_curve(path: Path) -> QualityCurve:
    """The curve in a YAML, JSON or CSV file; CSV has a line of names, `global_batch` and `examples` or `steps`. Raises InvalidDocument."""
    if path.suffix != ".csv":
        return read_file(path, QualityCurve)
    rows = list(csv.DictReader(StringIO(text_of(path)), skipinitialspace=True))
    return from_data({"points": [_given(row) for row in rows]}, QualityCurve, source=str(path))


def _given(row: dict[str | None, str | Sequence[str] | None]) -> dict[str, Any]:
    """A line's values by name, without empty ones. What has no name is refused as a key that is not known."""
    return {str(name).strip(): value for name, value in row.items() if value not in (None, "")}
