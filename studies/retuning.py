"""A learning rate tuned again after the batch has changed, on the click task: what the change costs in quality before and after."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from emplace.executor.click_task import MOST_EXAMPLES, NAME, ClickTask
from emplace.local_store import emplace_home
from emplace.placement.document import Document, broken_rule
from emplace.placement.sums import add_up
from emplace.studies.learning_rate import FoundRate, RateSearch, find_rate
from emplace.studies.solving import Tell

TRIED, JUDGED = 2, 3
"""Trainings of a trial, and those that a rate of the answer is judged by: of other examples and first weights than it was tuned with."""
_RATES = {"sgd": (0.01, 100.0), "adagrad": (0.001, 10.0)}
"""Between which a rate is looked for."""

ClickBatch = Annotated[int, Field(ge=1, le=1_000_000)]


class RetuneAsked(Document):
    """The change, and how long to look for a rate. The same examples are trained on before and after."""

    old_batch: ClickBatch = 64
    new_batch: ClickBatch = 4096
    old_rate: Annotated[float, Field(gt=0, le=1e4)] | None = None
    """The rate at the old batch; None tunes one."""
    optimizer: Literal["sgd", "adagrad"] = "adagrad"
    examples: Annotated[int, Field(ge=1000, le=MOST_EXAMPLES)] = 50_000
    trials: Annotated[int, Field(ge=1, le=10_000)] = 20
    seed: Annotated[int, Field(ge=0, lt=2**30)] = 0

    @model_validator(mode="after")
    def _is_a_change(self) -> RetuneAsked:
        if self.old_batch == self.new_batch:
            raise broken_rule("/new_batch", self.new_batch, "must be another batch than the old one")
        if max(self.old_batch, self.new_batch) > self.examples:
            raise broken_rule("/examples", self.examples, "must be at least one batch: name more examples, or smaller batches")
        return self


class RateOutcome(Document):
    """The quality that a learning rate comes to: the mean normalised entropy of some trainings, lower is better."""

    learning_rate: float
    entropy: float | None = None
    """None where a training diverged."""
    entropy_range: tuple[float, float] | None = None
    over_best: float | None = None
    """Above the lowest that is reachable."""


class Retuning(Document):
    """The answer of `emplace retune`."""

    schema_version: Literal[1] = 1
    task: str
    asked: RetuneAsked
    best_entropy: float
    """The normalised entropy of the true probabilities: no model has a lower one."""
    old: RateOutcome
    """The old batch with its rate."""
    unchanged: RateOutcome
    """The new batch with the old rate."""
    linear: RateOutcome
    """The rate times new over old batch (Goyal et al., arXiv 1706.02677)."""
    square_root: RateOutcome
    """The rate times the square root of that (Hoffer et al., arXiv 1705.08741)."""
    tuned: RateOutcome
    gap_before: float | None = None
    """Normalised entropy that the change costs at the old rate; None where a training diverged."""
    gap_after: float | None = None
    """The same with the tuned rate; below 0 where the new batch is the better one."""
    trials: int
    trials_kept: int
    """Those that were in the store before."""
    notes: tuple[str, ...] = ()


def default_store() -> Path:
    """Where trials are kept when no file is named."""
    return emplace_home() / "retuning.sqlite"


def run_retuning(asked: RetuneAsked, store: Path, tell: Tell) -> Retuning:
    """Tune at the new batch, and at the old one where no rate is given, then judge each rate. Raises ToolError as `find_rate` does."""
    from emplace.executor.click_training import best_quality

    task, best = ClickTask(), best_quality(ClickTask())
    both = 2 * asked.trials if asked.old_rate is None else asked.trials
    old_found = None if asked.old_rate is not None else _tuned(task, asked, asked.old_batch, store, lambda done, _: tell(done, both))
    new_found = _tuned(task, asked, asked.new_batch, store, lambda done, _: tell(both - asked.trials + done, both))
    found = [each for each in (old_found, new_found) if each is not None]
    old_rate = asked.old_rate if old_found is None else old_found.learning_rate
    assert old_rate is not None
    times = asked.new_batch / asked.old_batch

    def judged(batch: int, rate: float) -> RateOutcome:
        seeds = range(asked.seed + TRIED, asked.seed + TRIED + JUDGED)
        return _outcome(rate, [_entropy(task, asked, batch, rate, seed) for seed in seeds], best)

    old, unchanged, tuned = (
        judged(asked.old_batch, old_rate),
        judged(asked.new_batch, old_rate),
        judged(asked.new_batch, new_found.learning_rate),
    )
    return Retuning(
        task=NAME,
        asked=asked,
        best_entropy=best,
        old=old,
        unchanged=unchanged,
        linear=judged(asked.new_batch, old_rate * times),
        square_root=judged(asked.new_batch, old_rate * math.sqrt(times)),
        tuned=tuned,
        gap_before=_gap(unchanged, old),
        gap_after=_gap(tuned, old),
        trials=sum(each.trials for each in found),
        trials_kept=sum(each.kept for each in found),
        notes=tuple(_notes(asked, found, unchanged, tuned)),
    )


def _tuned(task: ClickTask, asked: RetuneAsked, batch: int, store: Path, tell: Tell) -> FoundRate:
    """Whatever the quality of a trial depends on stands in the name of its study."""
    lowest, highest = _RATES[asked.optimizer]
    seeds = range(asked.seed, asked.seed + TRIED)
    name = f"{task} {asked.optimizer} batch={batch} examples={asked.examples} seeds={[*seeds]} rates={lowest:g}..{highest:g}"

    def loss(rate: float) -> float:
        return add_up(_entropy(task, asked, batch, rate, seed) for seed in seeds) / TRIED

    return find_rate(RateSearch(name, lowest, highest, asked.trials, asked.seed), loss, store, tell)


def _entropy(task: ClickTask, asked: RetuneAsked, batch: int, rate: float, seed: int) -> float:
    from emplace.executor.click_training import ClickOptimizer, ClickTraining, quality, trained

    return quality(task, trained(task, ClickTraining(batch, asked.examples, rate, ClickOptimizer(asked.optimizer), seed)))


def _outcome(rate: float, entropies: list[float], best: float) -> RateOutcome:
    if not all(map(math.isfinite, entropies)):
        return RateOutcome(learning_rate=rate)
    mean = add_up(entropies) / len(entropies)
    return RateOutcome(learning_rate=rate, entropy=mean, entropy_range=(min(entropies), max(entropies)), over_best=mean - best)


def _gap(new: RateOutcome, old: RateOutcome) -> float | None:
    return None if new.entropy is None or old.entropy is None else new.entropy - old.entropy


def _notes(asked: RetuneAsked, found: list[FoundRate], unchanged: RateOutcome, tuned: RateOutcome) -> list[str]:
    lowest, highest = _RATES[asked.optimizer]
    notes = [
        f"each rate is judged by {JUDGED} trainings on {asked.examples:,} examples, seeded otherwise than those that it was tuned with"
    ]
    if any(not lowest * 1.1 < each.learning_rate < highest / 1.1 for each in found):
        notes.append(f"a tuned rate lies at an end of what was searched, {lowest:g} to {highest:g}: a better one may lie beyond")
    if unchanged.entropy_range and tuned.entropy_range and tuned.entropy_range[1] >= unchanged.entropy_range[0]:
        notes.append("the tuned rate is not surely better than the old one: their trainings overlap")
    return notes
