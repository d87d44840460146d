"""How large a job must be: on each host the cheapest that reaches a throughput, what each count follows from, and what is known of
smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan
from emplace.runtime.side_by_side import in_processes
from emplace.studies.fleet import Hogwild
from emplace.studies.grid import Setting
from emplace.studies.jobs import NEEDS, ServerPrices, Wanted
from emplace.studies.power import refuse_unknown
from emplace.studies.sized_job import SizedJob, SizeOutcome, SizeTask, TrainingMode, out_of_reach, sized_job, tasks_on
from emplace.studies.solving import Tell
from emplace.studies.sweep import refuse_unclear_hosts
from emplace.studies.target import Target

MOST_NODES = 256
WORK_S = 2.0
"""Limit of each of the many solves, where no other is asked for."""
_DATASHEET = "rates are datasheets' under a software stack, which nobody measured: `sure` says whether a job is large enough at its slowest"
_FLEET = "asynchronous fleets are reckoned by mean value analysis; their batch, threads and tau are assumed where they are not given"
_READERS = (
    "readers stand beside the job's servers: so many as the network of machines like the host's remote servers asks for; "
    "no document says what reading and decoding take of them"
)
_BATCH = "every trainer has the model's local_batch_size, so a larger synchronous job trains on a larger batch in all"


class Sizing(Document):
    """The answer of `emplace size`."""

    schema_version: Literal[1] = 1
    model: str
    target: Target
    wanted: Wanted
    hogwild: Hogwild
    jobs: tuple[SizedJob, ...]
    """Best first; those that were not found after them."""
    notes: tuple[str, ...]

    @property
    def best(self) -> SizedJob | None:
        return next((job for job in self.jobs if job.outcome is SizeOutcome.FOUND), None)


@dataclass(frozen=True)
class SizeStudy:
    """A sizing, a job for each way of training on each host."""

    model: str
    tasks: Sequence[SizeTask]

    part: ClassVar[type[SizedJob]] = SizedJob

    @staticmethod
    def of(setting: Setting, hosts: Sequence[HostSpec], target: Target, wanted: Wanted, hogwild: Hogwild, most_nodes: int) -> SizeStudy:
        """Raises InvalidDocument for hosts without watts or prices."""
        refuse_unclear_hosts(hosts)
        if wanted in NEEDS:
            refuse_unknown(list(hosts), NEEDS[wanted], f"the objective {wanted}")
        tasks = [task for host in hosts for task in tasks_on(host, setting, target, wanted, hogwild, most_nodes)]
        return SizeStudy(setting.model_on(hosts[0]).name, tasks)

    def refuse_out_of_reach(self) -> None:
        """Raises InvalidDocument for a target that no job can reach, for a service that keeps no study of it."""
        target, reached = self.tasks[0].target, out_of_reach(self.tasks)
        if reached is None:
            return
        most, why = reached
        if target.deadline_s is not None and target.examples is not None:
            option, enough = "--deadline", f"{target.examples / most / 3600:.3g}h or later"
        else:
            option, enough = "--throughput", f"{most:.0f} or less"
        raise InvalidDocument(option, [BrokenRule("", "", f"{why}; write {option} {enough}, more --max-nodes, or other hosts")])

    @property
    def size(self) -> int:
        return len(self.tasks)

    def do(self, number: int, before: Plan | None) -> tuple[SizedJob, None]:  # noqa: ARG002
        return sized_job(self.tasks[number]), None

    def answer(self, parts: Sequence[SizedJob]) -> Sizing:
        asked = self.tasks[0]
        prices = {task.host.name: task.prices for task in self.tasks}
        return Sizing(
            model=self.model,
            target=asked.target,
            wanted=asked.wanted,
            hogwild=asked.hogwild,
            jobs=tuple(sorted(parts, key=lambda job: _rank(job, prices[job.host]))),
            notes=tuple(_notes(parts)),
        )


def run_size(
    setting: Setting,
    hosts: Sequence[HostSpec],
    target: Target,
    wanted: Wanted,
    hogwild: Hogwild,
    most_nodes: int,
    processes: int,
    tell: Tell,
) -> Sizing:
    """Raises InvalidDocument, before anything is solved, for hosts without watts or prices."""
    study = SizeStudy.of(setting, hosts, target, wanted, hogwild, most_nodes)
    jobs = []
    for job in in_processes(study.tasks, sized_job, processes):
        jobs.append(job)
        tell(len(jobs), study.size)
    return study.answer(jobs)


def _rank(job: SizedJob, prices: ServerPrices) -> tuple[int, float, float]:
    order = list(SizeOutcome).index(job.outcome)
    if job.running is None:
        return order, 0.0, 0.0
    besides = prices.dense_servers if job.running.dense_servers else 0.0
    return order, prices.of_job(job.running.nodes, job.running.parameter_servers) + besides, -(job.throughput or 0.0)


def _notes(jobs: Sequence[SizedJob]) -> list[str]:
    notes = [_BATCH, _READERS]
    if any(job.throughput_range is not None for job in jobs):
        notes.append(_DATASHEET)
    if any(job.training is TrainingMode.ASYNCHRONOUS for job in jobs):
        notes.append(_FLEET)
    return notes
