"""What a small asynchronous fleet trains, and how: settings as a person types them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from emplace.executor.click_task import ClickTask
from emplace.placement.document import Document, broken_rule
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import from_data
from emplace.placement.scalars import scalar_of

_MOST_THREADS = 32
_MOST_BYTES = 2**32
_WORDS = ("mlp", "averaging")
"""Settings that are text; the others are numbers."""

Count = Annotated[int, Field(strict=True, ge=1, le=_MOST_THREADS)]


class Averaging(StrEnum):
    """How trainers bring their dense parameters together."""

    EASGD = "easgd"
    """In the round (Zhang, Choromanska, LeCun, NeurIPS 2015)."""
    SHADOWSYNC = "shadowsync"
    """In the background, while rounds go on (Zheng et al., arXiv 2003.03477)."""


class FleetSettings(Document):
    """A fleet, and the click task that it learns."""

    trainers: Count = 2
    threads: Count = 2
    """Hogwild threads of a trainer: they share its dense parameters without a lock (Niu et al., NeurIPS 2011)."""
    sparse_servers: Count = 1
    dense_servers: Count = 1
    averaging: Averaging = Averaging.EASGD
    tau: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 16
    """Rounds of a trainer between two averages of its dense parameters."""
    elasticity: Annotated[float, Field(gt=0, le=1)] = 0.5
    """How far parameters and centre move towards each other in an average, as a share of their distance."""
    batch: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 200
    """Examples of a thread's round."""
    rounds: Annotated[int, Field(strict=True, ge=20, le=100_000)] = 400
    """Rounds of each thread."""
    dense: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 16
    """Dense features."""
    tables: Annotated[int, Field(strict=True, ge=1, le=1000)] = 8
    """Sparse features, each with a table of its own."""
    hash: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 1000
    """Rows of every table."""
    length: Annotated[int, Field(strict=True, ge=1, le=1000)] = 4
    """Ids of every feature."""
    dim: Annotated[int, Field(strict=True, ge=1, le=1024)] = 16
    mlp: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}(\^[1-9])?$")] = "128^2"
    """Width and depth of both MLPs: 128^2 is 128-128."""
    learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.05
    """Adagrad's, which is element-wise for dense parameters, row-wise for tables."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)] = 0
    """Decides the task, its examples, and where training starts."""

    @model_validator(mode="after")
    def _shared_out(self) -> FleetSettings:
        if self.batch % self.customers:
            raise broken_rule("/batch", self.batch, f"must be a multiple of all {self.customers} threads: a synchronous step shares it out")
        if self.sparse_servers > self.tables:
            raise broken_rule("/sparse_servers", self.sparse_servers, "must be no more than tables: each server holds whole tables")
        if self.ids_bytes > _MOST_BYTES:
            raise broken_rule("/rounds", self.rounds, f"examples of all rounds must fit in {_MOST_BYTES >> 30} GiB: they are drawn before")
        return self

    @property
    def ids_bytes(self) -> int:
        """What the ids of all examples take."""
        return 8 * self.customers * self.rounds * self.batch * self.tables * self.length

    @property
    def task(self) -> ClickTask:
        """What is learnt."""
        return ClickTask(self.tables, self.hash, self.length, self.dense, self.seed)

    @property
    def customers(self) -> int:
        """Threads of all trainers."""
        return self.trainers * self.threads

    @property
    def layers(self) -> tuple[int, ...]:
        """Widths of an MLP."""
        width, _, depth = self.mlp.partition("^")
        return (int(width),) * int(depth or 1)


def fleet_settings(given: Sequence[str]) -> FleetSettings:
    """Settings as a person types them: `trainers=2`, `mlp=256^3`. Raises InvalidDocument."""
    data: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not value:
            rule = f"must be NAME=VALUE, such as trainers=2; names are {', '.join(FleetSettings.model_fields)}"
            raise InvalidDocument("settings", [BrokenRule("", repr(each), rule)])
        if name in data:
            raise InvalidDocument("settings", [BrokenRule(f"/{name}", value, "is set twice")])
        data[name] = value if name in _WORDS else scalar_of(value)
    return from_data(data, FleetSettings, source="settings")
