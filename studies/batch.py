"""Batch sizes of a job: throughput of the best plan at each, where it saturates, and the time to a quality where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanStatus
from emplace.placement.scalars import scalar_of
from emplace.studies.axes import Axis, QuestionPart
from emplace.studies.figures import Figures
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.grid import Setting
from emplace.studies.quality import Quality, QualityCurve, quality_of, weight
from emplace.studies.solving import Tell
from emplace.studies.sweep import Sweep, SweepPoint, SweepStudy, run_sweep

SATURATED = 0.9
"""The saturation point is the smallest batch with so much of the highest throughput of all batches that are asked for."""
_STILL_RISES = 1.05
_TUNED = "examples to a quality hold where the learning rate is tuned at every batch (emplace retune)"
_SIMPLE = "the noise scale is the simple one: it stands for SGD, where it was measured, and grows in the course of training"


class ToQuality(Document):
    """What it takes to reach the quality at one batch."""

    examples: float | None = None
    """None where only a noise scale is known, which doesn't say how many."""
    examples_over_least: float | None = None
    """With a noise scale: over the examples that the smallest batches need."""
    time_s: float | None = None
    time_range_s: tuple[float, float] | None = None
    """Over the ranges of throughput and of the noise scale."""
    time_over_best: float
    """Over the time at the host's best batch."""


class BatchPoint(Document):
    """One batch on one host."""

    local_batch: int
    global_batch: int | None = None
    """Examples of a step of all trainers; None where there is no plan."""
    figures: Figures
    to_quality: ToQuality | None = None
    """None where nobody measured it."""


class HostBatches(Document):
    """All batches on one host."""

    host: str
    points: tuple[BatchPoint, ...]
    saturation: int | None = None
    """The local batch at which throughput saturates; None where nothing fits."""
    still_rises: bool
    """Whether the largest batch that fits is so much faster than the one before it that throughput goes on rising beyond the sweep."""
    best: int | None = None
    """The local batch of the shortest time to the quality, of those where it is known."""
    best_range: tuple[int, int] | None = None
    """The best at both ends of the noise scale's interval."""


class BatchSizes(Document):
    """The answer of `emplace batch`."""

    schema_version: Literal[1] = 1
    model: str
    hosts: tuple[HostBatches, ...]
    saturated_at: float = SATURATED
    """Share of the highest throughput from which it counts as saturated."""
    curve: QualityCurve | None = None
    noise: NoiseScale | None = None
    notes: tuple[str, ...]

    @property
    def points(self) -> list[tuple[HostBatches, BatchPoint]]:
        """Every batch of every host."""
        return [(host, point) for host in self.hosts for point in host.points]

    @property
    def statuses(self) -> set[PlanStatus]:
        return {point.figures.status for _, point in self.points}

    @property
    def says_quality(self) -> bool:
        """Whether somebody measured it."""
        return self.curve is not None or self.noise is not None


def batches_of(text: str) -> tuple[int, ...]:
    """`64,128,1k` as numbers, smallest first. Raises InvalidDocument."""
    return batch_list([scalar_of(part.strip()) for part in text.split(",")])


def batch_list(values: Sequence[Any]) -> tuple[int, ...]:
    """Batches of a rank, smallest first. Raises InvalidDocument for what is none, and for none at all."""
    for value in values or ("",):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            rule = "must be examples of a rank's batch, separated by commas, such as 64,128,256"
            raise InvalidDocument("--batches", [BrokenRule("", str(value), rule)])
    if twice := next((value for value in values if values.count(value) > 1), None):
        raise InvalidDocument("--batches", [BrokenRule("", str(twice), "is named twice")])
    return tuple(sorted(values))


@dataclass(frozen=True)
class BatchStudy:
    """A sweep over the batches of a rank, and what is known of a quality."""

    sweep: SweepStudy
    quality: Quality | None

    part: ClassVar[type[Figures]] = Figures

    @staticmethod
    def of(
        setting: Setting, hosts: Sequence[HostSpec], batches: Sequence[int], curve: QualityCurve | None, noise: NoiseScale | None
    ) -> BatchStudy:
        """Raises InvalidDocument for what can be refused before anything is solved."""
        sweep = SweepStudy.of(setting, hosts, [batch_axis(batches, of_template=not isinstance(setting.model, ModelSpec))], ())
        return BatchStudy(sweep, quality_of(curve, noise, sweep.points[0].question.model.name))

    @property
    def size(self) -> int:
        return self.sweep.size

    def do(self, number: int, before: Plan | None) -> tuple[Figures, Plan | None]:
        return self.sweep.do(number, before)

    def answer(self, parts: Sequence[Figures]) -> BatchSizes:
        return batch_sizes(self.sweep.answer(parts), self.quality)


def batch_axis(batches: Sequence[int], *, of_template: bool) -> Axis:
    part, path = (QuestionPart.TEMPLATE, "/batch") if of_template else (QuestionPart.MODEL, "/local_batch_size")
    return Axis(path=path, part=part, values=tuple(batches))


def run_batch(study: BatchStudy, processes: int, tell: Tell) -> BatchSizes:
    """Plan the model at every batch on every host."""
    return batch_sizes(run_sweep(study.sweep, processes, tell), study.quality)


def batch_sizes(sweep: Sweep, quality: Quality | None) -> BatchSizes:
    """What a sweep over batches comes to."""
    by_host = [[point for point in sweep.points if point.host == host] for host in sweep.hosts]
    notes = [*sweep.notes, *([] if quality is None else [_TUNED]), *([] if quality is None or quality.noise is None else [_SIMPLE])]
    return BatchSizes(
        model=sweep.model,
        hosts=tuple(_of_host(host, points, quality) for host, points in zip(sweep.hosts, by_host, strict=True)),
        curve=None if quality is None else quality.curve,
        noise=None if quality is None else quality.noise,
        notes=tuple(notes),
    )


def _of_host(host: str, swept: Sequence[SweepPoint], quality: Quality | None) -> HostBatches:
    points = [BatchPoint(local_batch=each.local_batch_size, global_batch=_global(each), figures=each.figures) for each in swept]
    rates = [(point.local_batch, point.figures.throughput) for point in points if point.figures.throughput]
    highest = max((rate for _, rate in rates), default=0.0)
    known = [] if quality is None else [point for point in points if _duration(point, quality) is not None]
    best = min(known, key=lambda point: _duration(point, quality) or 0.0, default=None) if quality else None
    return HostBatches(
        host=host,
        points=tuple(_with_quality(point, best, quality) if quality and best and point in known else point for point in points),
        saturation=next((batch for batch, rate in rates if rate >= SATURATED * highest), None),
        still_rises=len(rates) > 1 and rates[-1][1] > _STILL_RISES * rates[-2][1],
        best=None if best is None else best.local_batch,
        best_range=_best_range(known, quality) if quality and known and quality.scales else None,
    )


def _global(point: SweepPoint) -> int | None:
    trainers = point.figures.trainers
    return None if trainers is None else trainers * point.local_batch_size


def _duration(point: BatchPoint, quality: Quality) -> float | None:
    """Seconds to the quality, or multiples of those that the least examples would take at one example a second."""
    if point.global_batch is None or not point.figures.throughput:
        return None
    needed = quality.examples(point.global_batch)
    return None if needed is None else needed / point.figures.throughput


def _with_quality(point: BatchPoint, best: BatchPoint, quality: Quality) -> BatchPoint:
    duration, shortest = _duration(point, quality), _duration(best, quality)
    assert duration is not None
    assert shortest is not None
    assert point.global_batch is not None
    needed = quality.examples(point.global_batch)
    noise = quality.noise
    found = ToQuality(
        examples=needed if quality.is_absolute else None,
        examples_over_least=None if noise is None else weight(point.global_batch, noise.noise_scale) / noise.noise_scale,
        time_s=duration if quality.is_absolute else None,
        time_range_s=_time_range(point, quality),
        time_over_best=duration / shortest,
    )
    return point.model_copy(update={"to_quality": found})


def _time_range(point: BatchPoint, quality: Quality) -> tuple[float, float] | None:
    examples, rate = quality.examples_range(point.global_batch or 0), point.figures.throughput
    if examples is None or not rate:
        return None
    slow, fast = point.figures.throughput_range or (rate, rate)
    return examples[0] / fast, examples[1] / slow


def _best_range(known: Sequence[BatchPoint], quality: Quality) -> tuple[int, int]:
    ends = [
        min(known, key=lambda point: weight(point.global_batch or 0, scale) / (point.figures.throughput or 1.0)) for scale in quality.scales
    ]
    batches = sorted(end.local_batch for end in ends)
    return batches[0], batches[-1]
