"""The request bodies besides documents, as the OpenAPI page shows them and as they are validated."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from emplace.gate import Budgets
from emplace.placement.cost_model import CostModel
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.stack import Stack

DEFAULT_STEPS = 30


class PlanRequest(Document):
    """A question: `model`, `host` and `stack` are the name of a built-in one, or a whole document; `local` is the service's machine."""

    model: str | ModelSpec
    host: str | HostSpec
    options: PlanOptions | None = None
    cost_model: CostModel | None = None
    stack: str | Stack | None = None


class CheckRequest(PlanRequest):
    """`plan` asks for the best plan there is time for; else the first that answers the check is enough."""

    budgets: Budgets | None = None
    plan: Annotated[bool, Field(strict=True)] = False


class RunRequest(Document):
    """`seed` decides the synthetic batches; `emulate` runs a plan for any host on CPU ranks, scaled down."""

    steps: Annotated[int, Field(strict=True, gt=0, le=100_000)] = DEFAULT_STEPS
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


class PipelineRequest(PlanRequest):
    """A question, and in its options what is to happen before and after."""

    options: PipelineOptions | None = None


def body_of(kind: type[Document], examples: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The OpenAPI words for a body that the route reads by itself."""
    shown = {
        "schema": {"$ref": f"#/components/schemas/{kind.__name__}"},
        "examples": {name: {"value": example} for name, example in examples.items()},
    }
    return {"requestBody": {"required": required, "content": {"application/json": shown, "application/yaml": shown}}}
