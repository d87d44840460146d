"""The answer of a study as pages show it: one sentence, figures, a table, and what it says in lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emplace.app.database.stored import read_stored
from emplace.app.reports.batch_svg import throughput_svg, to_quality_svg
from emplace.app.reports.batch_text import batch_headline, batch_lines, batch_rows, reached
from emplace.app.reports.recommend_text import comparison_line, recommend_headline, recommend_rows
from emplace.app.reports.size_text import size_headline, size_rows
from emplace.app.reports.study_svg import lines_svg, ranking_svg, sizing_svg
from emplace.app.reports.sweep_text import crossover_line, sweep_headline, sweep_rows
from emplace.studies.asked import ANSWERS, StudyAnswer
from emplace.studies.batch import BatchSizes
from emplace.studies.recommend import Recommendation
from emplace.studies.size import Sizing
from emplace.studies.sweep import Sweep

MOST_ROWS = 500
_WHOLE = "What it comes to"


@dataclass(frozen=True)
class ShownAnswer:
    """`figures` have a title each. `rows` are the first of `points`."""

    headline: str
    figures: list[tuple[str, str]]
    heads: list[str]
    rows: list[list[str]]
    points: int
    lines: list[str]
    notes: list[str]


def answer_of(kind: str, document: str) -> StudyAnswer:
    return read_stored(document, ANSWERS[kind], "the study")


def shown(answer: StudyAnswer) -> ShownAnswer:
    match answer:
        case Sweep():
            headline, figures, (heads, rows) = sweep_headline(answer), [(_WHOLE, lines_svg(answer))], sweep_rows(answer)
            lines = list(map(crossover_line, answer.crossovers))
        case Sizing():
            headline, figures, (heads, rows) = size_headline(answer), [(_WHOLE, sizing_svg(answer))], size_rows(answer)
            lines = []
        case Recommendation():
            headline, figures, (heads, rows) = recommend_headline(answer), [(_WHOLE, ranking_svg(answer))], recommend_rows(answer)
            lines = list(map(comparison_line, answer.comparisons))
        case BatchSizes():
            headline, figures, (heads, rows) = batch_headline(answer), [("Throughput", throughput_svg(answer))], batch_rows(answer)
            figures += [(f"Time to {reached(answer)}", to_quality_svg(answer))] if answer.says_quality else []
            lines = batch_lines(answer)
    return ShownAnswer(headline, figures, heads, rows[:MOST_ROWS], len(rows), lines, list(answer.notes))


def values_of(answer: StudyAnswer) -> Iterator[tuple[str, float | None]]:
    """What each point, job or place is called, and the figure that it is compared by."""
    match answer:
        case Sweep():
            for point in answer.points:
                named = ", ".join([point.host, *(f"{path} {value}" for path, value in point.values.items())])
                yield named, point.figures.throughput
        case Sizing():
            for job in answer.jobs:
                yield f"{job.host}, {job.training}", None if job.running is None else float(job.running.servers)
        case Recommendation():
            for place in answer.ranking:
                yield f"{place.host}, {place.place}", place.value
        case BatchSizes():
            for host, batch in answer.points:
                yield f"{host.host}, batch {batch.local_batch:,}", batch.figures.throughput
