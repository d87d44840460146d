"""Stored studies without a solver: their plans are made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

from emplace.app.database import jobs, studies
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import StudyRow
from emplace.placement.catalog import builtin_host
from emplace.placement.document import Document
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question
from emplace.studies.asked import Asked, AskedBatch, AskedRecommend, AskedSize, AskedSweep
from emplace.studies.axes import Axis, QuestionPart
from emplace.studies.figures import Figures, figures_of
from emplace.studies.jobs import Sized
from emplace.studies.placements import Place
from emplace.studies.quality import CurvePoint, QualityCurve
from emplace.studies.recommend import RankedHost
from emplace.studies.sized_job import SizedJob, SizeOutcome, TrainingMode
from emplace.studies.sweep import SweepStudy
from emplace.studies.target import Target
from tests.app.finished import plan_of
from tests.app.questions import model_data

MODEL = ModelSpec.model_validate(model_data())
HOSTS = (builtin_host("cpu-dual-socket"), builtin_host("big-basin-16g"))
OPTIONS = PlanOptions(ranks=2)


def a_sweep(*batches: int) -> AskedSweep:
    axis = Axis(path="/local_batch_size", part=QuestionPart.MODEL, values=batches)
    return AskedSweep(model=MODEL, hosts=HOSTS, options=OPTIONS, axes=(axis,))


def sweep_figures(asked: AskedSweep) -> list[Figures]:
    study = asked.study()
    assert isinstance(study, SweepStudy)
    return [_figures_of(point.question) for point in study.points]


_FIGURES: dict[str, Figures] = {}


def _figures_of(question: Question) -> Figures:
    """Those of its plan. Many studies hold the same ones."""
    digest = question.content_digest()
    if digest not in _FIGURES:
        _FIGURES[digest] = figures_of(plan_of(question))
    return _FIGURES[digest]


def a_sizing() -> tuple[AskedSize, list[Document]]:
    asked = AskedSize(model=MODEL, hosts=HOSTS[1:], options=PlanOptions(), target=Target(throughput=1000.0))
    figures = sweep_figures(a_sweep(64))[1]
    counts = {"nodes": Sized(count=1, binds="forward")}
    job = SizedJob(
        host=HOSTS[1].name,
        training=TrainingMode.SYNCHRONOUS,
        outcome=SizeOutcome.FOUND,
        throughput=figures.throughput,
        counts=counts,
        running=figures.running,
        figures=figures,
    )
    return asked, [job]


def a_ranking() -> tuple[AskedRecommend, list[Document]]:
    asked = AskedRecommend(model=MODEL, hosts=HOSTS, options=OPTIONS)
    places = [(host, place) for host in HOSTS for place in Place]
    figures = dict(zip([host.name for host in HOSTS], sweep_figures(a_sweep(64)), strict=True))
    parts: list[Document] = []
    for number, (host, place) in enumerate(places[: asked.study().size]):
        found = figures[host.name]
        value = (found.throughput or 1.0) / (number + 1)
        parts.append(
            RankedHost(host=host.name, place=place, cost_source="datasheet", figures=found, value=value, value_range=(value / 2, value * 2))
        )
    return asked, parts


def a_batch(*batches: int) -> tuple[AskedBatch, list[Figures]]:
    """With a curve that ends before the largest batches."""
    curve = QualityCurve(
        quality="NE 0.78", points=(CurvePoint(global_batch=512, examples=1e8), CurvePoint(global_batch=131_072, examples=2e8))
    )
    asked = AskedBatch(model=MODEL, hosts=HOSTS, options=OPTIONS, batches=batches, curve=curve)
    return asked, sweep_figures(a_sweep(*batches))


def store_study(database: Database, asked: Asked, parts: Sequence[Document], *, of: int | None = None) -> str:
    """A study as workers leave it: done where all of its parts are there, else at work."""
    study = asked.study()
    size = study.size if of is None else of
    with database.writing() as session:
        row = StudyRow(
            kind=asked.kind,
            model_name=asked.model_name,
            hosts=json.dumps([host.name for host in asked.hosts]),
            varied=json.dumps(asked.varied),
            points=size,
            asked=asked.canonical_json(),
            ticket=1,
        )
        session.add(row)
        session.flush()
        study_id = row.id
    ticket = Ticket(StudyRow, study_id, 1)
    with database.writing() as session:
        assert jobs.take_up(session, ticket)
        for number, part in enumerate(parts):
            assert studies.keep_point(session, ticket, number, part.to_data(), None)
    if len(parts) == size:
        finish_study(database, study_id, study.answer(parts))
    return study_id


def finish_study(database: Database, study_id: str, answer: Document) -> None:
    with database.writing() as session:
        document = answer.model_dump_json(exclude_none=True)
        assert jobs.finish(session, Ticket(StudyRow, study_id, 1), State.DONE, document=document)
