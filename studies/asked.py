"""What a study asks, with every name resolved: a document to keep, from which the study can be begun and gone on with anywhere."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from emplace.placement.catalog.suite import SUITE, SuiteSettings
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.host import MAX_RANKS, HostSpec
from emplace.placement.model import BatchSize, ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack
from emplace.studies.axes import Axis
from emplace.studies.batch import BatchSizes, BatchStudy, batch_axis
from emplace.studies.fleet import Hogwild
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.grid import Setting
from emplace.studies.jobs import Wanted
from emplace.studies.quality import QualityCurve
from emplace.studies.recommend import RankingObjective, Recommendation, RecommendStudy
from emplace.studies.size import MOST_NODES, SizeStudy, Sizing
from emplace.studies.steps import Study
from emplace.studies.sweep import Sweep, SweepStudy
from emplace.studies.target import Target


class AskedOf(Document):
    """What studies of each kind are of. Either `model` or `template` is there."""

    model: ModelSpec | None = None
    template: SuiteSettings | None = None
    hosts: tuple[HostSpec, ...]
    options: PlanOptions
    stack: Stack | None = None
    measured: tuple[CostModel, ...] = ()
    """What was measured of the hosts when it was asked."""

    @property
    def model_name(self) -> str:
        return SUITE if self.model is None else self.model.name

    @property
    def setting(self) -> Setting:
        model = self.model or self.template
        assert model is not None
        return Setting(model, self.options, self.stack, self.measured)

    @property
    def varied(self) -> tuple[str, ...]:
        """The paths of what is varied."""
        return ()


class AskedSweep(AskedOf):
    kind: Literal["sweep"] = "sweep"
    axes: tuple[Axis, ...]
    fronts: tuple[tuple[str, str], ...] = ()

    @property
    def varied(self) -> tuple[str, ...]:
        return tuple(axis.path for axis in self.axes)

    def study(self) -> Study:
        """Raises InvalidDocument for what can be refused before anything is solved."""
        return SweepStudy.of(self.setting, self.hosts, self.axes, self.fronts)


class AskedSize(AskedOf):
    kind: Literal["size"] = "size"
    target: Target
    objective: Wanted = Wanted.SERVERS
    hogwild: Hogwild = Hogwild()
    max_nodes: Annotated[int, Field(ge=1, le=MAX_RANKS)] = MOST_NODES

    def study(self) -> Study:
        """As that of a sweep; a target that no job can reach is refused besides."""
        study = SizeStudy.of(self.setting, self.hosts, self.target, self.objective, self.hogwild, self.max_nodes)
        study.refuse_out_of_reach()
        return study


class AskedRecommend(AskedOf):
    kind: Literal["recommend"] = "recommend"
    objective: RankingObjective = RankingObjective.THROUGHPUT

    def study(self) -> Study:
        """As that of a sweep."""
        return RecommendStudy.of(self.setting, self.hosts, self.objective)


class AskedBatch(AskedOf):
    kind: Literal["batch"] = "batch"
    batches: tuple[BatchSize, ...]
    curve: QualityCurve | None = None
    noise: NoiseScale | None = None

    @property
    def varied(self) -> tuple[str, ...]:
        return (batch_axis(self.batches, of_template=self.model is None).path,)

    def study(self) -> Study:
        """As that of a sweep."""
        return BatchStudy.of(self.setting, self.hosts, self.batches, self.curve, self.noise)


Asked: TypeAlias = AskedSweep | AskedSize | AskedRecommend | AskedBatch
StudyKind: TypeAlias = Literal["sweep", "size", "recommend", "batch"]


class AskedStudy(Document):
    """One of any kind."""

    asked: Annotated[Asked, Field(discriminator="kind")]


StudyAnswer: TypeAlias = Sweep | Sizing | Recommendation | BatchSizes
ANSWERS: dict[str, type[StudyAnswer]] = {"sweep": Sweep, "size": Sizing, "recommend": Recommendation, "batch": BatchSizes}
"""The kind of document that a study of each kind comes to."""
