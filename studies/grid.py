"""The points of a sweep: every combination of hosts and values as a question, made and validated before any is solved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from emplace.placement.catalog.suite import SuiteSettings
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question
from emplace.placement.reading import from_data
from emplace.placement.stack import Stack
from emplace.planning import build_question
from emplace.studies.axes import Axis, QuestionPart, changed

MAX_POINTS = 10_000
Values = tuple[Any, ...]
D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class Setting:
    """What all questions of a study have in common: a model or a template, options, and how datasheet rates are priced."""

    model: ModelSpec | SuiteSettings
    options: PlanOptions
    stack: Stack | None = None
    measured: tuple[CostModel, ...] | None = None
    """What was measured of hosts; None is what `emplace profile` kept on this machine."""

    def model_on(self, host: HostSpec) -> ModelSpec:
        """The model, of a template with the batch of such a host."""
        return self.model.model(on_gpus=host.has_cuda) if isinstance(self.model, SuiteSettings) else self.model

    def question(self, host: HostSpec) -> Question:
        """Raises InvalidDocument, also for a job that the host can't have."""
        question = self.priced(host)
        question.topology(with_servers=False)
        return question

    def priced(self, host: HostSpec) -> Question:
        """The question, whatever job it asks for. Raises InvalidDocument."""
        return build_question(self.model_on(host), host, self.options, self._measured(host), self.stack)

    def _measured(self, host: HostSpec) -> CostModel | None:
        if self.stack is not None or self.measured is None:
            return None
        of_host = (each for each in self.measured if each.fingerprint is not None and each.fingerprint == host.fingerprint)
        return next(of_host, None) or datasheet_cost_model(host)


@dataclass(frozen=True)
class GridPoint:
    """A question, the host that it began with, and the values of the axes in their order."""

    host: str
    values: Values
    question: Question


def refuse_large_grid(hosts: Sequence[HostSpec], axes: Sequence[Axis]) -> None:
    """Raises InvalidDocument for axes that are varied twice, and for more points than a study may have."""
    paths = [axis.path for axis in axes]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise InvalidDocument("--vary", [BrokenRule(twice, "", "is varied twice: name all its values in one --vary")])
    size = math.prod(len(axis.values) for axis in axes) * len(hosts)
    if size > MAX_POINTS:
        counts = " x ".join([f"{len(hosts)} hosts", *(f"{len(axis.values)} of {axis.path}" for axis in axes)])
        raise InvalidDocument(
            "--vary", [BrokenRule("", f"{size:,} points", f"must be at most {MAX_POINTS:,}, and is {counts}: name fewer values")]
        )


def points_of(setting: Setting, hosts: Sequence[HostSpec], axes: Sequence[Axis]) -> list[GridPoint]:
    """The points by host, the last axis fastest. Raises InvalidDocument for one that breaks a rule; it names the values."""
    refuse_large_grid(hosts, axes)
    parts = _Parts(setting, axes)
    return [parts.point(host, values) for host in hosts for values in product(*(axis.values for axis in axes))]


@dataclass
class _Parts:
    """Parts of questions, each made once for all points that have it in common."""

    setting: Setting
    axes: Sequence[Axis]

    def __post_init__(self) -> None:
        self._made: dict[tuple[QuestionPart, str, Values], Any] = {}

    def point(self, host: HostSpec, values: Values) -> GridPoint:
        return GridPoint(host.name, values, self._question(host, values))

    def _question(self, host: HostSpec, values: Values) -> Question:
        asked, changes = self.setting, {part: self._of(part, values) for part in QuestionPart}
        changed_host = self._once(QuestionPart.HOST, host.name, changes, lambda: self._varied(host, HostSpec, QuestionPart.HOST, changes))
        with_options = self._once(
            QuestionPart.OPTIONS, "", changes, lambda: self._varied(asked.options, PlanOptions, QuestionPart.OPTIONS, changes)
        )
        part = QuestionPart.TEMPLATE if isinstance(asked.model, SuiteSettings) else QuestionPart.MODEL
        base = self._once(part, "", changes, lambda: self._varied(asked.model, type(asked.model), part, changes))
        varied = replace(asked, model=base, options=with_options)
        model = self._once(part, f"on {'gpus' if host.has_cuda else 'cpus'}", changes, lambda: varied.model_on(changed_host))
        varied = replace(asked, model=model, options=with_options)
        if not changes[QuestionPart.HOST]:
            return varied.question(changed_host)
        # What was measured on a host says nothing of another: prices follow the rates that are varied.
        priced = datasheet_cost_model(changed_host, asked.stack)
        question = build_question(model, changed_host, with_options, priced)
        question.topology(with_servers=False)
        return question

    def _of(self, part: QuestionPart, values: Values) -> tuple[tuple[Axis, Any], ...]:
        return tuple((axis, value) for axis, value in zip(self.axes, values, strict=True) if axis.part is part)

    def _once(
        self, part: QuestionPart, name: str, changes: Mapping[QuestionPart, Sequence[tuple[Axis, Any]]], make: Callable[[], Any]
    ) -> Any:
        key = (part, name, tuple(repr(value) for _, value in changes[part]))
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _varied(self, document: D, kind: type[D], part: QuestionPart, changes: Mapping[QuestionPart, Sequence[tuple[Axis, Any]]]) -> D:
        if not changes[part]:
            return document
        name = getattr(document, "name", str(part))
        data = document.to_data()
        for axis, value in changes[part]:
            data = changed(data, axis, value, name)
        return from_data(data, kind, source=f"{name} with {' and '.join(_spelled(changes[part]))}")


def _spelled(changes: Sequence[tuple[Axis, Any]]) -> Iterator[str]:
    return (f"{axis.path}={value}" for axis, value in changes)
