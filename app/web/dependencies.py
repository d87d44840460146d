"""What routes ask for: the service's parts, and parameters that several have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from sqlalchemy.orm import Session

from emplace.app.database.cost_models import CostModelRows
from emplace.app.web.service import Service
from emplace.cost_model_store import CostModelChain
from emplace.local_store import local_cost_models

MAX_PAGE = 200


def cost_models(session: Session) -> CostModelChain:
    """What was measured: the profiles in the database, then what `emplace profile` kept under the service's EMPLACE_HOME."""
    return CostModelChain(CostModelRows(session), local_cost_models())


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(service_of)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="resources on a page")]
Cursor = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$", description="`next` of the page before")]
