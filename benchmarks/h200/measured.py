"""Reads what was measured."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emplace.placement.cost_model import CostModel
from emplace.placement.derived_loads import derive_loads
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data, read_file
from emplace.profiler.design.points import Design, Sample

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Trained:
    """A plan that was trained, and what was measured."""

    plan: Plan
    measurement: Measurement

    @property
    def measured_us(self) -> float:
        """The median step."""
        assert self.measurement.step_time_us is not None
        return self.measurement.step_time_us

    @property
    def slowness(self) -> float:
        """How much slower the machine was than in the profile."""
        assert self.measurement.reference is not None
        return self.measurement.reference.slowness

    def step_us(self, prices: CostModel) -> float:
        """Microseconds of the plan's step by other prices."""
        question = self.plan.question.model_copy(update={"cost_model": prices})
        return derive_loads(question, self.plan.tables, question.topology(with_servers=False)).step_time_us


def host() -> HostSpec:
    """The machine as Emplace found it."""
    return read_file(DATA / "host.json", HostSpec)


def design() -> Design:
    """The points of the profiles."""
    return from_data(json.loads(_text("design.json.gz")), Design, source="design.json.gz")


def samples() -> list[list[Sample]]:
    """The one rank's samples."""
    return [[from_data(each, Sample, source="samples.jsonl.gz") for each in _lines("samples.jsonl.gz")]]


def trained() -> list[Trained]:
    """Every plan that was trained; RM2 and DLRM-DCNv2 at batch 2048 twice."""
    return [
        Trained(
            from_data(each["plan"], Plan, source="trained.jsonl.gz"), from_data(each["measurement"], Measurement, source="trained.jsonl.gz")
        )
        for each in _lines("trained.jsonl.gz")
    ]


def _lines(name: str) -> Iterator[dict[str, object]]:
    return map(json.loads, _text(name).splitlines())


def _text(name: str) -> str:
    return gzip.decompress((DATA / name).read_bytes()).decode()
