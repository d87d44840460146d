"""The request bodies besides documents, as the OpenAPI page shows them and as they are validated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from emplace.app.database.priorities import Priority
from emplace.gate import Budgets
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.host import MAX_RANKS, HostSpec
from emplace.placement.model import BatchSize, ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack
from emplace.studies.fleet import Hogwild
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.jobs import Wanted
from emplace.studies.quality import QualityCurve
from emplace.studies.recommend import RankingObjective
from emplace.studies.size import MOST_NODES
from emplace.studies.target import Amount

MAX_HOSTS = 100
"""Hosts that one study may have."""

Deadline = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,20}(\\.[0-9]{1,20})?[smhd]$", "examples": ["8h"]})]

Axis = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[^=]+=.+$", "examples": ["/local_batch_size=512,1024"]})]


class QuestionRequest(Document):
    """A question: `model`, `host` and `stack` are the name of a built-in one, or a whole document; `local` is the service's machine."""

    model: str | ModelSpec
    host: str | HostSpec
    options: PlanOptions | None = None
    cost_model: CostModel | None = None
    stack: str | Stack | None = None


class PlanKeys(Document):
    """What decides when a plan is made, and not which."""

    priority: Priority = Priority.NORMAL


class PlanRequest(PlanKeys, QuestionRequest):
    """A question for a plan: of those that wait, the one of the highest priority is solved first."""


class CheckRequest(QuestionRequest):
    """`plan` asks for the best plan there is time for; else the first that answers the check is enough."""

    budgets: Budgets | None = None
    plan: Annotated[bool, Field(strict=True)] = False


class RunRequest(Document):
    """`steps` are measured, by default as many as take three seconds; `seed` decides the synthetic batches; `emulate` runs a plan for any
    host on CPU ranks, scaled down."""

    steps: Annotated[int, Field(strict=True, gt=0, le=100_000)] | None = None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0
    emulate: Annotated[bool, Field(strict=True)] = False


class ProfileRequest(Document):
    """Either a cost model to store, or what to measure. Without a fingerprint the service's own machine is measured."""

    cost_model: CostModel | None = None
    fingerprint: str | None = None
    ranks: Annotated[int, Field(strict=True, gt=0, le=1024)] | None = None
    quick: Annotated[bool, Field(strict=True)] = True
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0


class ProfileStage(Document):
    """Measure the machine first, unless a profile for as many ranks is at most so many days old."""

    max_age_days: Annotated[float, Field(ge=0, le=3650)] = 30.0
    ranks: Annotated[int, Field(strict=True, gt=0, le=1024)] | None = None
    quick: Annotated[bool, Field(strict=True)] = True
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0


class RunStage(RunRequest):
    """Run the plan, and verify."""


class PipelineOptions(PlanOptions):
    """Those of a plan, and the stages around it: true for their defaults."""

    profile: bool | ProfileStage | None = None
    run: bool | RunStage | None = None


class PipelineRequest(QuestionRequest):
    """A question, and in its options what is to happen before and after."""

    options: PipelineOptions | None = None


class StudyRequest(Document):
    """What studies of each kind are of. `set` are settings of the template `suite`, such as "sparse=64"."""

    model: str | ModelSpec
    set: tuple[str, ...] = ()
    hosts: Literal["all"] | Annotated[tuple[str | HostSpec, ...], Field(min_length=1, max_length=MAX_HOSTS)]
    options: PlanOptions | None = None
    stack: str | Stack | None = None


class SweepKeys(Document):
    """`vary` and `pareto` as `emplace sweep` takes them: "/local_batch_size=512,1024", "--nodes=1,2"; "throughput,power"."""

    vary: Annotated[tuple[Axis, ...], Field(min_length=1)]
    pareto: tuple[str, ...] = ()


def _one_target(schema: dict[str, Any]) -> None:
    """In the schema, too: which keys of a target go together."""
    given, absent = {"not": {"type": "null"}}, {"type": "null"}
    rate = {"throughput": given, "examples": absent, "deadline": absent}
    by_then = {"throughput": absent, "examples": given, "deadline": given}
    schema["anyOf"] = [
        {"properties": rate, "required": ["throughput"]},
        {"properties": by_then, "required": ["examples", "deadline"]},
    ]


class SizeKeys(Document):
    """As `emplace size` takes them: either a throughput, or examples and a deadline."""

    model_config = ConfigDict(json_schema_extra=_one_target)

    throughput: Amount | None = None
    examples: Amount | None = None
    deadline: Deadline | None = None
    objective: Wanted = Wanted.SERVERS
    max_nodes: Annotated[int, Field(ge=1, le=MAX_RANKS)] = MOST_NODES
    async_batch: BatchSize = Hogwild().batch
    threads: Annotated[int, Field(ge=1, le=1024)] = Hogwild().threads
    tau: Annotated[int, Field(ge=1, le=1_000_000)] = Hogwild().tau


class RecommendKeys(Document):
    """What hosts are ranked by."""

    objective: RankingObjective = RankingObjective.THROUGHPUT


class BatchKeys(Document):
    """`batches` are examples of a rank; a `curve` is your own measurement of a quality, `noise` one of gradients."""

    batches: Annotated[tuple[BatchSize, ...], Field(min_length=1)]
    curve: QualityCurve | None = None
    noise: NoiseScale | None = None


class SweepRequest(SweepKeys, StudyRequest):
    """A what-if grid: the best plan at every point."""

    kind: Literal["sweep"]


class SizeRequest(SizeKeys, StudyRequest):
    """How many servers a job needs."""

    kind: Literal["size"]


class RecommendRequest(RecommendKeys, StudyRequest):
    """Which host, and which place for the tables."""

    kind: Literal["recommend"]


class BatchRequest(BatchKeys, StudyRequest):
    """Where throughput saturates over batches, and which reaches a quality first."""

    kind: Literal["batch"]


STUDIES = (SweepRequest, SizeRequest, RecommendRequest, BatchRequest)


def body_of(kinds: type[Document] | Sequence[type[Document]], examples: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The OpenAPI words for a body, of one of the kinds, that the route reads by itself."""
    schemas = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in ([kinds] if isinstance(kinds, type) else kinds)]
    shown = {
        "schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas},
        "examples": {name: {"value": example} for name, example in examples.items()},
    }
    return {"requestBody": {"required": required, "content": {"application/json": shown, "application/yaml": shown}}}
