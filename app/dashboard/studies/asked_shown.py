"""What a study asks, as pages show it: its facts, and where two studies ask differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emplace.app.database.stored import read_stored
from emplace.app.database.tables import StudyRow
from emplace.app.diff import Change, document_changes
from emplace.app.reports.batch_text import duration
from emplace.app.reports.options_text import set_options
from emplace.app.reports.sweep_text import short, spelled
from emplace.studies.asked import Asked, AskedBatch, AskedRecommend, AskedSize, AskedStudy, AskedSweep
from emplace.studies.axes import Axis
from emplace.studies.target import Target

_DIGEST = 19
"""Characters of a digest that people compare."""


def asked_of(row: StudyRow) -> Asked:
    return read_stored(f'{{"asked": {row.asked}}}', AskedStudy, "the question of this study").asked


def asked_facts(asked: Asked) -> dict[str, str]:
    """Names and values of everything that decides the answer; whole documents by their digests."""
    found = {"model": _model(asked)} | dict(_of_kind(asked))
    found |= {"stack": asked.stack.name} if asked.stack is not None else {}
    measured = ", ".join(cost.host_name for cost in asked.measured)
    return found | {"measured prices": f"of {measured}" if measured else "none"} | set_options(asked.options)


def asked_changes(before: Asked, after: Asked) -> list[Change]:
    """Where two studies of one kind ask differently."""
    return list(document_changes("", _meant(before), _meant(after)))


def _model(asked: Asked) -> str:
    if asked.model is not None:
        return f"{asked.model.name}, {asked.model.content_digest()[:_DIGEST]}, batches of {asked.model.local_batch_size:,}"
    settings = {} if asked.template is None else asked.template.to_data()
    return ", ".join([f"template {asked.model_name}", *(f"{name} {value}" for name, value in settings.items())])


def _of_kind(asked: Asked) -> Iterator[tuple[str, str]]:
    match asked:
        case AskedSweep():
            yield from ((axis.path, _values(axis)) for axis in asked.axes)
            yield from (("Pareto front", f"{front[0]} and {front[1]}") for front in asked.fronts)
        case AskedSize():
            yield "to reach", _target(asked.target)
            yield "least of", str(asked.objective)
            yield "nodes at most", f"{asked.max_nodes:,}"
            yield "Hogwild", ", ".join(f"{name} {value:,}" for name, value in asked.hogwild.to_data().items())
        case AskedRecommend():
            yield "ranked by", str(asked.objective)
        case AskedBatch():
            yield "batches", ", ".join(map(spelled, asked.batches))
            if asked.curve is not None:
                yield "curve", f"{asked.curve.quality}, {asked.curve.content_digest()[:_DIGEST]}"
            if asked.noise is not None:
                yield "noise scale", short(asked.noise.noise_scale)


def _values(axis: Axis) -> str:
    return ", ".join(map(spelled, axis.values))


def _target(target: Target) -> str:
    rate = f"{short(target.throughput)} examples/s"
    return rate if target.examples is None else f"{rate}: {short(target.examples)} examples in {duration(target.deadline_s or 0.0)}"


def _meant(asked: Asked) -> dict[str, Any]:
    """Its data, with what is varied and measured by its name, as people tell it apart."""
    data = asked.to_data()
    if isinstance(asked, AskedSweep):
        data["varied"] = {axis.path.strip("/-"): _values(axis) for axis in asked.axes}
        del data["axes"]
    return data | {"measured": {cost.host_name: cost.content_digest()[:_DIGEST] for cost in asked.measured}}
