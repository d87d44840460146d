"""The answer of a study as pages show it: one sentence, figures, a table, and what it says in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from emplace.app.database.stored import read_stored
from emplace.app.reports.batch_svg import throughput_svg, to_quality_svg
from emplace.app.reports.batch_text import batch_headline, batch_lines, batch_rows, reached
from emplace.app.reports.noise_text import noise_line
from emplace.app.reports.recommend_text import UNITS, comparison_line, recommend_headline, recommend_rows, to_measure
from emplace.app.reports.size_text import size_headline, size_rows, why_no_fewer, why_none
from emplace.app.reports.study_svg import lines_svg, ranking_svg, sizing_svg
from emplace.app.reports.sweep_text import crossover_line, front_rows, front_title, sweep_headline, sweep_rows
from emplace.studies.asked import ANSWERS, StudyAnswer
from emplace.studies.batch import BatchSizes
from emplace.studies.recommend import Recommendation
from emplace.studies.size import Sizing
from emplace.studies.sweep import Sweep

MOST_ROWS = 500
_WHOLE = "What it comes to"


@dataclass(frozen=True)
class ShownPart:
    """What the command says below a title: a list of lines, or a table with heads."""

    title: str
    lines: list[str]
    heads: list[str]
    rows: list[list[str]]

    @staticmethod
    def of_lines(title: str, lines: Iterable[str]) -> ShownPart:
        return ShownPart(title, list(lines), [], [])


@dataclass(frozen=True)
class ShownAnswer:
    """`figures` have a title each. `rows` are the first of `points`; `parts` are what the command says besides."""

    headline: str
    figures: list[tuple[str, str]]
    heads: list[str]
    rows: list[list[str]]
    points: int
    parts: list[ShownPart]
    notes: list[str]


def answer_of(kind: str, document: str) -> StudyAnswer:
    return read_stored(document, ANSWERS[kind], "the study")


def shown(answer: StudyAnswer) -> ShownAnswer:
    match answer:
        case Sweep():
            headline, figures, (heads, rows) = sweep_headline(answer), [(_WHOLE, lines_svg(answer))], sweep_rows(answer)
            parts = [ShownPart.of_lines("Where another host becomes the better one", map(crossover_line, answer.crossovers))]
            parts += [ShownPart(front_title(front), [], *_first_rows(*front_rows(answer, front))) for front in answer.fronts]
        case Sizing():
            headline, figures, (heads, rows) = size_headline(answer), [(_WHOLE, sizing_svg(answer))], size_rows(answer)
            parts = list(_of_sizing(answer))
        case Recommendation():
            headline, figures, (heads, rows) = recommend_headline(answer), [(_WHOLE, ranking_svg(answer))], recommend_rows(answer)
            parts = [ShownPart.of_lines("The order of hosts", map(comparison_line, answer.comparisons))]
            parts.append(ShownPart.of_lines("What would decide what is too close to call", to_measure(answer)))
        case BatchSizes():
            headline, figures, (heads, rows) = batch_headline(answer), [("Throughput", throughput_svg(answer))], batch_rows(answer)
            figures += [(f"Time to {reached(answer)}", to_quality_svg(answer))] if answer.says_quality else []
            noise = [] if answer.noise is None else [noise_line(answer.noise)]
            parts = [ShownPart.of_lines("Which batch", [*batch_lines(answer), *noise])]
    said = [part for part in parts if part.lines or part.rows]
    return ShownAnswer(headline, figures, heads, rows[:MOST_ROWS], len(rows), said, list(answer.notes))


def _of_sizing(answer: Sizing) -> Iterator[ShownPart]:
    if answer.best is not None:
        yield ShownPart.of_lines(f"Why no fewer on {answer.best.host}", (f"{name}: {why}" for name, why in why_no_fewer(answer.best)))
    yield ShownPart.of_lines("Why none", why_none(answer))


def _first_rows(heads: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    return heads, rows[:MOST_ROWS]


def figure_of(answer: StudyAnswer) -> str:
    """What `values_of` are of."""
    if isinstance(answer, Recommendation):
        return UNITS[answer.objective]
    return "servers" if isinstance(answer, Sizing) else "examples/s"


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
