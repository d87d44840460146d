"""Which host, and which place for the tables, suits a model: ranked, with what is robust of the order and what to measure for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar, Literal

from emplace.placement.cost_model import CostSource
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, PlanStatus
from emplace.runtime.side_by_side import in_processes
from emplace.studies.figures import Figures, figures_of
from emplace.studies.grid import Setting
from emplace.studies.jobs import NEEDS, Wanted
from emplace.studies.placements import TIERS, Place, places_of
from emplace.studies.power import refuse_unknown
from emplace.studies.quantities import QUANTITIES
from emplace.studies.solving import Tell, best_of
from emplace.studies.sweep import refuse_unclear_hosts
from emplace.studies.uncertainty import Doubt, doubts

MOST_DOUBTS = 3
WORK_S = 5.0
"""Limit of each solve, where no other is asked for."""


class RankingObjective(StrEnum):
    """What the best host has most of, or least cost."""

    THROUGHPUT = "throughput"
    THROUGHPUT_PER_WATT = "throughput-per-watt"
    COST = "cost"


_NEEDS = {RankingObjective.THROUGHPUT_PER_WATT: NEEDS[Wanted.POWER], RankingObjective.COST: NEEDS[Wanted.COST]}


class RankedHost(Document):
    """A host with tables in one place."""

    host: str
    place: Place
    cost_source: CostSource
    figures: Figures
    value: float | None = None
    """The objective: examples per second, examples per joule, or the price of a million examples."""
    value_range: tuple[float, float] | None = None
    """Over the ranges of the stack, from the worse end to the better; a point where prices are measured."""
    is_best_of_host: bool = False
    doubts: tuple[Doubt, ...] = ()
    """The figures of the stack that its range is widest by."""


class Order(StrEnum):
    ROBUST = "robust"
    """No figures within their ranges change the order."""
    TOO_CLOSE = "too close to call"


class HostComparison(Document):
    """Two neighbours in the order of hosts."""

    better: str
    worse: str
    order: Order
    measure: str | None = None
    """What would decide it."""


class Recommendation(Document):
    """The answer of `emplace recommend`."""

    schema_version: Literal[1] = 1
    model: str
    objective: RankingObjective
    ranking: tuple[RankedHost, ...]
    """Hosts and places, best first; then what does not fit, and what is undecided."""
    hosts: tuple[str, ...]
    """By their best place, best first; without those that the model does not fit."""
    comparisons: tuple[HostComparison, ...]
    """Each host beside the next."""
    notes: tuple[str, ...]

    @property
    def best(self) -> RankedHost | None:
        return self.ranking[0] if self.ranking and self.ranking[0].value is not None else None

    @property
    def as_good(self) -> list[str]:
        """Hosts that may be better than the best one, for all that is known."""
        best = self.best
        if best is None:
            return []
        others = (each for each in self.ranking if each.is_best_of_host and each.host != best.host)
        return [each.host for each in others if not is_robust(self.objective, best, each)]


@dataclass(frozen=True)
class _Task:
    setting: Setting
    host: HostSpec
    place: Place
    objective: RankingObjective


@dataclass(frozen=True)
class RecommendStudy:
    """A ranking whose places are valid questions."""

    model: str
    objective: RankingObjective
    tasks: Sequence[_Task]

    part: ClassVar[type[RankedHost]] = RankedHost

    @staticmethod
    def of(setting: Setting, hosts: Sequence[HostSpec], objective: RankingObjective) -> RecommendStudy:
        """Raises InvalidDocument for what is not valid, and for hosts without watts or prices."""
        refuse_unclear_hosts(hosts)
        if objective in _NEEDS:
            refuse_unknown(list(hosts), _NEEDS[objective], f"the objective {objective}")
        tasks = [_Task(setting, host, place, objective) for host in hosts for place in places_of(host, setting.options)]
        for task in tasks:
            _question_setting(task).question(task.host)
        return RecommendStudy(setting.model_on(hosts[0]).name, objective, tasks)

    @property
    def size(self) -> int:
        return len(self.tasks)

    def do(self, number: int, before: Plan | None) -> tuple[RankedHost, None]:  # noqa: ARG002
        return _candidate(self.tasks[number]), None

    def answer(self, parts: Sequence[RankedHost]) -> Recommendation:
        ranking = _ranked(self.objective, parts)
        best = [candidate for candidate in ranking if candidate.is_best_of_host]
        return Recommendation(
            model=self.model,
            objective=self.objective,
            ranking=tuple(ranking),
            hosts=tuple(candidate.host for candidate in best),
            comparisons=tuple(_compared(self.objective, one, other) for one, other in pairwise(best)),
            notes=tuple(_notes(parts)),
        )


def run_recommend(setting: Setting, hosts: Sequence[HostSpec], objective: RankingObjective, processes: int, tell: Tell) -> Recommendation:
    """Plan the model on every host and place. Raises InvalidDocument, before anything is solved, for hosts without watts or prices."""
    study = RecommendStudy.of(setting, hosts, objective)
    found = []
    for candidate in in_processes(study.tasks, _candidate, processes):
        found.append(candidate)
        tell(len(found), study.size)
    return study.answer(found)


def is_robust(objective: RankingObjective, better: RankedHost, worse: RankedHost) -> bool:
    """Whether the ranges of two are apart."""
    if better.value_range is None or worse.value_range is None:
        return True
    quantity = QUANTITIES[objective]
    return quantity.beats(better.value_range[0], worse.value_range[1])


def _question_setting(task: _Task) -> Setting:
    options = task.setting.options.model_copy(update={"tiers": TIERS[task.place]})
    return replace(task.setting, options=options)


def _candidate(task: _Task) -> RankedHost:
    question = _question_setting(task).question(task.host)
    plan = best_of(question)
    figures = figures_of(plan)
    value = QUANTITIES[task.objective].of(figures)
    return RankedHost(
        host=task.host.name,
        place=task.place,
        cost_source=question.cost_model.source,
        figures=figures,
        value=value,
        value_range=_range(task.objective, figures, value),
        doubts=tuple(doubts(plan)[:MOST_DOUBTS]),
    )


def _range(objective: RankingObjective, figures: Figures, value: float | None) -> tuple[float, float] | None:
    """(worse, better): the objective moves as throughput does, or against it where it is a cost."""
    if value is None or figures.throughput is None:
        return None
    slow, fast = figures.throughput_range or (figures.throughput, figures.throughput)
    if QUANTITIES[objective].more_is_better:
        return value * slow / figures.throughput, value * fast / figures.throughput
    return value * figures.throughput / slow, value * figures.throughput / fast


def _ranked(objective: RankingObjective, found: Sequence[RankedHost]) -> list[RankedHost]:
    quantity = QUANTITIES[objective]

    def key(candidate: RankedHost) -> tuple[bool, float, str, int]:
        value, place = candidate.value, list(Place).index(candidate.place)
        return value is None, 0.0 if value is None else (-value if quantity.more_is_better else value), candidate.host, place

    ranking, seen = [], set()
    for candidate in sorted(found, key=key):
        is_best = candidate.value is not None and candidate.host not in seen
        seen.add(candidate.host)
        ranking.append(candidate.model_copy(update={"is_best_of_host": is_best}))
    return ranking


def _compared(objective: RankingObjective, one: RankedHost, other: RankedHost) -> HostComparison:
    if is_robust(objective, one, other):
        return HostComparison(better=one.host, worse=other.host, order=Order.ROBUST)
    return HostComparison(better=one.host, worse=other.host, order=Order.TOO_CLOSE, measure=_what_to_measure(one, other))


def _what_to_measure(one: RankedHost, other: RankedHost) -> str:
    """The widest figure of the one whose range is wider, and how to get rid of it."""
    wider = max((one, other), key=_relative_width)
    steps = f"one measured step on {wider.host} ('emplace calibrate'), or a profile of it ('emplace profile' there)"
    if not wider.doubts:
        return steps
    doubt = wider.doubts[0]
    share = (doubt.step_range_us[1] - doubt.step_range_us[0]) / (wider.figures.step_time_us or 1.0)
    return f"{doubt.figure} on {wider.host}, which alone moves its step by {share:.0%}: {steps}"


def _relative_width(candidate: RankedHost) -> float:
    least, most = sorted(candidate.value_range or (1.0, 1.0))
    return most / least if least > 0 else 1.0  # what costs nothing costs nothing at any speed


def _notes(found: Sequence[RankedHost]) -> list[str]:
    notes = []
    if any(candidate.cost_source is CostSource.DATASHEET for candidate in found):
        notes.append(
            "prices are datasheet rates under a software stack, which nobody measured; all of its ranges at once make an order robust or not"
        )
    if any(candidate.figures.status is PlanStatus.UNDECIDED for candidate in found):
        notes.append("some places are undecided within the limit: try a longer --work-limit")
    return notes
