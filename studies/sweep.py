"""A what-if sweep: a grid of questions, the best plan of each, and what they say beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from emplace.placement.cost_model import CostSource
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, PlanOptions, PlanStatus
from emplace.studies.axes import Axis, QuestionPart, axis_of
from emplace.studies.comparing import Crossover, Front, crossovers, front
from emplace.studies.figures import Figures
from emplace.studies.grid import GridPoint, Setting, points_of
from emplace.studies.measured import PointMeasurement, PredictionError
from emplace.studies.power import refuse_unknown
from emplace.studies.quantities import QUANTITIES
from emplace.studies.solving import Tell, chain_length, solve_next, solve_points

STUDY_GAP = 0.01
"""How close to the best the plans of a study are, where nothing else is asked for."""
DEFAULT_FRONTS = (("throughput", "servers"), ("throughput", "power"), ("throughput", "price"))
_DATASHEET = "prices are datasheet rates under a software stack, which nobody measured: trust an order only where ranges are apart"
_VARIED_HOST = "the host is varied, so prices are its datasheet's also where it was measured"


class SweepPoint(Document):
    """One question of a sweep and its answer."""

    host: str
    values: dict[str, Any]
    """By path, as they were asked for."""
    local_batch_size: int
    cost_source: CostSource
    figures: Figures
    measured: PointMeasurement | None = None
    """With `--run`, where there is a placement."""


class Sweep(Document):
    """The answer of `emplace sweep`."""

    schema_version: Literal[1] = 1
    model: str
    hosts: tuple[str, ...]
    axes: tuple[Axis, ...]
    options: PlanOptions
    points: tuple[SweepPoint, ...]
    """By host, the last axis fastest."""
    fronts: tuple[Front, ...]
    crossovers: tuple[Crossover, ...]
    notes: tuple[str, ...]
    prediction_error: PredictionError | None = None
    """With `--run`: of all points together."""

    @property
    def statuses(self) -> set[PlanStatus]:
        return {point.figures.status for point in self.points}


@dataclass(frozen=True)
class SweepStudy:
    """A sweep whose points are valid questions. Each is solved from the plan of the one before in its chain."""

    setting: Setting
    hosts: tuple[str, ...]
    axes: tuple[Axis, ...]
    fronts: tuple[tuple[str, str], ...]
    points: Sequence[GridPoint]

    part: ClassVar[type[Figures]] = Figures

    @staticmethod
    def of(setting: Setting, hosts: Sequence[HostSpec], axes: Sequence[Axis], fronts: Sequence[tuple[str, str]]) -> SweepStudy:
        """Raises InvalidDocument for what is not there or too much."""
        refuse_unclear_hosts(hosts)
        for pair in fronts:
            for name in pair:
                _refuse_unknown_quantity(name, hosts)
        points = points_of(setting, hosts, axes)
        return SweepStudy(setting, tuple(host.name for host in hosts), tuple(axes), tuple(fronts), points)

    @property
    def size(self) -> int:
        return len(self.points)

    def do(self, number: int, before: Plan | None) -> tuple[Figures, Plan | None]:
        begins_chain = number % chain_length(self.size) == 0
        return solve_next(self.points[number].question, None if begins_chain else before)

    def answer(self, parts: Sequence[Figures]) -> Sweep:
        pairs = self.fronts or tuple(pair for pair in DEFAULT_FRONTS if all(_any_has(parts, name) for name in pair))
        compared = [QUANTITIES[name] for name in ("throughput", "throughput-per-watt", "cost")]
        return Sweep(
            model=self.points[0].question.model.name,
            hosts=self.hosts,
            axes=self.axes,
            options=self.setting.options,
            points=tuple(_sweep_point(point, self.axes, each) for point, each in zip(self.points, parts, strict=True)),
            fronts=tuple(front(parts, pair) for pair in pairs),
            crossovers=tuple(found for quantity in compared for found in crossovers(self.hosts, self.axes, parts, quantity)),
            notes=tuple(_notes(self.points, self.axes)),
        )


def run_sweep(study: SweepStudy, processes: int, tell: Tell) -> Sweep:
    """Solve every point."""
    return study.answer(solve_points([point.question for point in study.points], processes, tell))


def axes_of(given: Sequence[str], *, of_template: bool) -> list[Axis]:
    """Raises InvalidDocument for none, and for one that can't be varied."""
    if not given:
        rule = "needs at least one --vary, such as /local_batch_size=512,1024,2048; 'emplace recommend' compares hosts without one"
        raise InvalidDocument("--vary", [BrokenRule("", "", rule)])
    return [axis_of(text, of_template=of_template) for text in given]


def refuse_varied(axes: Sequence[Axis], options: Mapping[str, object], settings: Sequence[str]) -> None:
    """Raises InvalidDocument for an option or a setting of the template that is given and has other values at every point."""
    given = {(QuestionPart.OPTIONS, name): value for name, value in options.items()}
    given |= {(QuestionPart.TEMPLATE, setting.partition("=")[0]): setting for setting in settings}
    for axis in axes:
        value = given.get((axis.part, axis.pointer.removeprefix("/")))
        if value is not None and not axis.is_relative:
            rule = "is varied, and given besides: leave out one or the other"
            raise InvalidDocument("--vary", [BrokenRule(axis.path, str(value), rule)])


def pair_of(text: str) -> tuple[str, str]:
    """Two figures with a comma between. Raises InvalidDocument."""
    first, comma, second = (part.strip() for part in text.partition(","))
    if not comma:
        raise InvalidDocument("--pareto", [BrokenRule("", text, "must be two figures with a comma between, such as throughput,power")])
    return first, second


def refuse_unclear_hosts(hosts: Sequence[HostSpec]) -> None:
    """Raises InvalidDocument where there is no host, and for two of one name, which no result could tell apart."""
    names = [host.name for host in hosts]
    if not names:
        raise InvalidDocument("--hosts", [BrokenRule("", "none", "must be one host or more")])
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidDocument("--hosts", [BrokenRule("", twice, "is the name of two hosts: change the name in one of the files")])


def _refuse_unknown_quantity(name: str, hosts: Sequence[HostSpec]) -> None:
    if name not in QUANTITIES:
        raise InvalidDocument("--pareto", [BrokenRule("", name, f"must be two of {', '.join(QUANTITIES)}, with a comma between")])
    if (key := QUANTITIES[name].needs) is not None:
        refuse_unknown(list(hosts), key, name)


def _any_has(figures: Sequence[Figures], name: str) -> bool:
    return any(QUANTITIES[name].of(each) is not None for each in figures)


def _sweep_point(point: GridPoint, axes: Sequence[Axis], figures: Figures) -> SweepPoint:
    return SweepPoint(
        host=point.host,
        values={axis.path: value for axis, value in zip(axes, point.values, strict=True)},
        local_batch_size=point.question.model.local_batch_size,
        cost_source=point.question.cost_model.source,
        figures=figures,
    )


def _notes(points: Sequence[GridPoint], axes: Sequence[Axis]) -> list[str]:
    notes = []
    if any(point.question.cost_model.source is CostSource.DATASHEET for point in points):
        notes.append(_DATASHEET)
    if any(axis.part is QuestionPart.HOST for axis in axes) and any(point.question.host.fingerprint for point in points):
        notes.append(_VARIED_HOST)
    return notes
