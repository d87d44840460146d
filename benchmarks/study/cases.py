"""The paper's production models on its hosts, and as fleets of CPU servers."""

from __future__ import annotations

from dataclasses import dataclass

import emplace
from emplace.studies.fleet import Counts, Hogwild
from emplace.studies.grid import Setting
from emplace.studies.jobs import Wanted
from emplace.studies.recommend import RankedHost, Recommendation
from emplace.studies.size import WORK_S
from emplace.studies.sized_job import SizedJob, TrainingMode, sized_job, tasks_on
from emplace.studies.sweep import STUDY_GAP
from emplace.studies.target import target_of

MODELS = ("m1", "m2", "m3")
HOSTS = ("cpu-dual-socket", "big-basin-16g", "big-basin-32g", "zion")
MOST_NODES = 32
FLEET_TARGETS = {"m1": "200k", "m2": "200k", "m3": "100k"}
"""Examples per second for which a fleet of CPU servers is sized."""


@dataclass(frozen=True)
class StudyCase:
    """One production model."""

    model: str
    placed: Recommendation
    fleet: SizedJob
    """Trained asynchronously on CPU servers."""

    def of(self, host: str, place: str) -> RankedHost:
        return next(each for each in self.placed.ranking if (each.host, str(each.place)) == (host, place))

    def best_on(self, host: str) -> RankedHost | None:
        return next((each for each in self.placed.ranking if each.host == host and each.is_best_of_host), None)


def case_studies(processes: int) -> list[StudyCase]:
    return [_case(model, processes) for model in MODELS]


def _case(model: str, processes: int) -> StudyCase:
    return StudyCase(model, emplace.recommend(model, HOSTS, processes=processes), sized_fleet(model))


def sized_fleet(model: str) -> SizedJob:
    """The smallest fleet of CPU servers, as `emplace size` finds it."""
    host, setting = (
        emplace.read_host("cpu-dual-socket"),
        Setting(emplace.read_model(model), emplace.PlanOptions(gap=STUDY_GAP, work_limit=WORK_S)),
    )
    tasks = tasks_on(host, setting, target_of(FLEET_TARGETS[model], None, None), Wanted.SERVERS, Hogwild(), MOST_NODES)
    return sized_job(next(task for task in tasks if task.training is TrainingMode.ASYNCHRONOUS))


def fleet_throughputs(model: str, trainers: list[int], sparse_servers: int) -> list[float]:
    """Examples per second of fleets that differ in their trainers."""
    from emplace.placement.datasheet import datasheet_cost_model
    from emplace.placement.plan import PlanOptions
    from emplace.planning import answer
    from emplace.studies.fleet import Fleet, estimate

    host = emplace.read_host("cpu-dual-socket")
    fleet = Fleet(emplace.read_model(model), host, datasheet_cost_model(host), Hogwild())
    placed = answer(fleet.placement_question(sparse_servers, PlanOptions(gap=0.02, work_limit=1.0)))
    counts = (Counts(trainers=count, sparse_servers=sparse_servers, dense_servers=2) for count in trainers)
    return [estimate(fleet, placed, each)[0] for each in counts]
