"""Is it up, can it work, and how much has it done."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from sqlalchemy import func, select

from emplace.app.database import workers
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow
from emplace.app.web.dependencies import Reading

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(session: Reading) -> dict[str, Any]:
    """The database answers; how many workers there are. 503 otherwise."""
    return {"status": "ok", "workers": len(workers.list_workers(session))}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(session: Reading) -> PlainTextResponse:
    """Counts in the Prometheus text format."""
    lines = ["# HELP emplace_resources Stored resources by kind and state.", "# TYPE emplace_resources gauge"]
    for kind in (PlanRow, RunRow, ProfileRow):
        counts: dict[str, int] = {row[0]: row[1] for row in session.execute(select(kind.state, func.count()).group_by(kind.state))}
        lines += [f'emplace_resources{{kind="{kind.__tablename__}",state="{state}"}} {counts.get(state, 0)}' for state in State]
    lines += ["# HELP emplace_workers Workers that are alive.", "# TYPE emplace_workers gauge"]
    lines.append(f"emplace_workers {len(workers.list_workers(session))}")
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8")
