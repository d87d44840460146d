"""Jobs that somebody brings: one JSON object a line, read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import MAX_TABLES, Name
from emplace.placement.plan import Plan
from emplace.placement.reading import MAX_DOCUMENT_BYTES, from_data, parse_json
from emplace.studies.distribution import tally
from emplace.studies.job_facts import JobFacts, TableFacts, facts_of, table_facts_of
from emplace.studies.overview import Overview, OverviewCounter

_MOST_BROKEN = 20
_MOST_NAMES = 200
"""Resources and kinds of servers of all jobs together."""
_MOST_SERVERS = 10_000_000
_SAID_BY_PLAN = ("servers", "utilisation", "tables", "predicted_step_us")

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Servers = Annotated[int, Field(strict=True, ge=0, le=_MOST_SERVERS)]
_SHORTEST_US, _LONGEST_US = 1e-3, 1e15
_YEARS = range(1970, 9999)

Microseconds = Annotated[float, Field(strict=True, ge=_SHORTEST_US, le=_LONGEST_US)]


class JobTable(Document):
    """A table of a job: what is known of it."""

    num_embeddings: Annotated[int, Field(strict=True, gt=0, le=10**12)] | None = None
    embedding_dim: Annotated[int, Field(strict=True, gt=0, le=65_536)] | None = None
    mean_length: Annotated[float, Field(strict=True, ge=0, le=1e9)] | None = None
    """Mean ids of an example."""


class JobLine(Document):
    """A job: a plan, or what is known of it. Every key may be left out."""

    name: str | None = None
    at: datetime | None = None
    """When it was measured; UTC where it names no zone."""
    plan: Plan | None = None
    """It says all the rest, but for what was measured."""
    servers: dict[Name, Servers] | None = None
    """By kind."""
    utilisation: dict[Name, Share] | None = None
    """By resource."""
    tables: Annotated[tuple[JobTable, ...], Field(max_length=MAX_TABLES)] | None = None
    predicted_step_us: Microseconds | None = None
    measured_step_us: Microseconds | None = None

    @field_validator("at", mode="before")
    @classmethod
    def _is_text(cls, at: Any) -> Any:
        if isinstance(at, int | float):
            raise broken_rule("", at, "must be text, such as 2026-03-01T10:00:00Z: of a number nobody knows the unit")
        return at

    @model_validator(mode="after")
    def _is_of_our_time(self) -> JobLine:
        if self.at is not None and self.at.year not in _YEARS:
            raise broken_rule("/at", self.at.isoformat(), f"must be from {_YEARS[0]} to {_YEARS[-1]}")
        return self

    @model_validator(mode="after")
    def _says_something_once(self) -> JobLine:
        if self.plan is not None:
            for key in _SAID_BY_PLAN:
                if getattr(self, key) is not None:
                    raise broken_rule(f"/{key}", "", "is what the plan says: leave out one or the other")
            _refuse_no_job(self.plan)
        elif all(getattr(self, key) is None for key in (*_SAID_BY_PLAN, "measured_step_us")):
            raise broken_rule("", "", f"says nothing of the job: give its plan, or some of {', '.join(_SAID_BY_PLAN)}")
        return self

    @property
    def facts(self) -> JobFacts:
        found = None if self.plan is None else facts_of(self.plan)
        return found or JobFacts(utilisation=dict(self.utilisation or {}), servers=dict(self.servers or {}))

    @property
    def table_facts(self) -> TableFacts:
        if self.plan is not None:
            return table_facts_of(self.plan.question.model)
        tables = self.tables or ()
        return TableFacts(
            hash_sizes=tally(each.num_embeddings for each in tables if each.num_embeddings is not None),
            embedding_dims=tally(each.embedding_dim for each in tables if each.embedding_dim is not None),
            feature_lengths=tally(each.mean_length for each in tables if each.mean_length is not None),
        )

    @property
    def predicted_us(self) -> float | None:
        return self.predicted_step_us if self.plan is None else self.plan.step_time_us


def _refuse_no_job(plan: Plan) -> None:
    """Raises a broken rule of the line for a plan that no job runs under."""
    if not plan.has_placement:
        raise broken_rule("/plan/status", plan.status, "must be optimal or feasible: a plan without a placement is no job")
    if not _SHORTEST_US <= (plan.step_time_us or 0.0) <= _LONGEST_US:
        raise broken_rule("/plan/step_time_us", plan.step_time_us, f"must be from {_SHORTEST_US:g} to {_LONGEST_US:g} microseconds")
    if not plan.num_trainers:
        raise broken_rule("/plan/ranks", "", "must have ranks that train")


def overview_of_file(path: Path) -> Overview:
    """All jobs of a file. Raises InvalidDocument that names its first broken lines."""
    counter, broken = OverviewCounter(), list[BrokenRule]()
    for number, line in _lines(path):
        try:
            _count(counter, _job(line, path))
        except InvalidDocument as error:
            broken += [replace(each, line=number) for each in error.broken_rules]
        if len(broken) >= _MOST_BROKEN:
            break
    if broken:
        raise InvalidDocument(str(path), broken)
    return counter.overview()


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Those that hold anything, with their numbers. Raises InvalidDocument for a file that can't be read."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_DOCUMENT_BYTES + 1):
                number += 1
                if line.strip():
                    yield number, line
                if len(line) > MAX_DOCUMENT_BYTES:
                    return  # what follows is no line of its own
    except OSError as error:
        raise InvalidDocument(str(path), [BrokenRule("", "", f"can't be read: {error.strerror}")]) from None


def _job(line: bytes, path: Path) -> JobLine:
    if len(line) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(str(path), [BrokenRule("", "", f"a line must be at most {MAX_DOCUMENT_BYTES} bytes")])
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidDocument(str(path), [BrokenRule("", "", "must be UTF-8 text")]) from None
    return from_data(parse_json(text, str(path)), JobLine, source=str(path))


def _count(counter: OverviewCounter, job: JobLine) -> None:
    counter.add_job(job.facts)
    if counter.names > _MOST_NAMES:
        rule = f"all jobs together must name at most {_MOST_NAMES} resources and kinds of servers"
        raise InvalidDocument("", [BrokenRule("", "", rule)])
    counter.add_tables(job.table_facts)
    if job.predicted_us is not None and job.measured_step_us is not None:
        at = job.at if job.at is None or job.at.tzinfo is not None else job.at.replace(tzinfo=UTC)
        counter.add_measured(job.predicted_us, job.measured_step_us, at)
