"""What routes ask for: the service's parts, and one transaction a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from fastapi import Depends, Query, Request
from sqlalchemy.orm import Session

from emplace.app.database.connection import Database
from emplace.app.database.cost_models import CostModelRows
from emplace.app.jobs.queue import JobQueue
from emplace.app.settings import Settings
from emplace.cost_model_store import CostModelChain
from emplace.local_store import local_cost_models
from emplace.placement.catalog import LOCAL_HOST
from emplace.placement.host import HostSpec
from emplace.planning import resolve_host

MAX_PAGE = 200


@dataclass
class Service:
    """The parts that live as long as the service does."""

    settings: Settings
    database: Database
    queue: JobQueue
    closing: Callable[[], bool]
    """Says that the service is about to end: what waits for news stops waiting."""
    checks: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.checks = threading.Semaphore(self.settings.check_concurrency)

    @cached_property
    def local_host(self) -> HostSpec:
        """The machine that the service runs on."""
        return resolve_host(LOCAL_HOST)


def cost_models(session: Session) -> CostModelChain:
    """What was measured: the profiles in the database, then what `emplace profile` kept under the service's EMPLACE_HOME."""
    return CostModelChain(CostModelRows(session), local_cost_models())


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def reading(request: Request) -> Iterator[Session]:
    with service_of(request).database.reading() as session:
        yield session


def writing(request: Request) -> Iterator[Session]:
    with service_of(request).database.writing() as session:
        yield session


TheService = Annotated[Service, Depends(service_of)]
# Of scope "function": the transaction is over before the response is sent, so what a client is told is stored.
Reading = Annotated[Session, Depends(reading, scope="function")]
Writing = Annotated[Session, Depends(writing, scope="function")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="resources on a page")]
Cursor = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$", description="`next` of the page before")]
