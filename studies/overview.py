"""Many jobs at a glance: how utilisation, servers, hash sizes, feature lengths and prediction errors are distributed over them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from emplace.placement.document import Document
from emplace.studies.distribution import BucketScale, Distribution, FigureCounter
from emplace.studies.job_facts import RESOURCES, SERVERS, JobFacts, TableFacts
from emplace.studies.prediction_drift import Prediction, PredictionCounter


class Overview(Document):
    """Distributions over jobs, each over those that say anything of it. What none says is absent."""

    schema_version: Literal[1] = 1
    jobs: int
    utilisation: dict[str, Distribution]
    """By resource: shares from 0 to 1."""
    servers: dict[str, Distribution]
    """By kind."""
    hash_sizes: Distribution | None = None
    """Rows of a table. The tables of a job share its weight."""
    embedding_dims: Distribution | None = None
    feature_lengths: Distribution | None = None
    """Mean ids of an example. The features of a job share its weight."""
    prediction: Prediction | None = None


class OverviewCounter:
    """Jobs as they come in, in bounded memory."""

    def __init__(self) -> None:
        self._jobs = 0
        self._utilisation: dict[str, FigureCounter] = {}
        self._servers: dict[str, FigureCounter] = {}
        self._hash_sizes, self._embedding_dims, self._feature_lengths = FigureCounter(), FigureCounter(), FigureCounter()
        self._prediction = PredictionCounter()

    @property
    def names(self) -> int:
        """How many resources and kinds of servers there are."""
        return len(self._utilisation) + len(self._servers)

    def add_job(self, facts: JobFacts) -> None:
        """One more job; its tables and its measurements are told apart from it."""
        self._jobs += 1
        for resource, share in facts.utilisation.items():
            self._utilisation.setdefault(resource, FigureCounter()).add_one(share)
        for kind, count in facts.servers.items():
            self._servers.setdefault(kind, FigureCounter()).add_one(count)

    def add_tables(self, facts: TableFacts, jobs: int = 1) -> None:
        """The tables of a job, or of several that have the same."""
        self._hash_sizes.add(facts.hash_sizes, jobs)
        self._embedding_dims.add(facts.embedding_dims, jobs)
        self._feature_lengths.add(facts.feature_lengths, jobs)

    def add_measured(self, predicted_us: float, measured_us: float, at: datetime | None) -> None:
        """A job that was measured, and when."""
        self._prediction.add(predicted_us, measured_us, at)

    def overview(self) -> Overview:
        """All that came in."""
        return Overview(
            jobs=self._jobs,
            utilisation=_each(self._utilisation, RESOURCES, BucketScale.SHARE),
            servers=_each(self._servers, SERVERS, BucketScale.AMOUNT),
            hash_sizes=self._hash_sizes.distribution(BucketScale.AMOUNT),
            embedding_dims=self._embedding_dims.distribution(BucketScale.AMOUNT),
            feature_lengths=self._feature_lengths.distribution(BucketScale.AMOUNT),
            prediction=self._prediction.prediction(),
        )


def _each(counted: dict[str, FigureCounter], order: tuple[str, ...], scale: BucketScale) -> dict[str, Distribution]:
    """Those that plans have in their order, then others by name."""
    names = [*(name for name in order if name in counted), *sorted(counted.keys() - set(order))]
    found = {name: counted[name].distribution(scale) for name in names}
    return {name: each for name, each in found.items() if each is not None}
