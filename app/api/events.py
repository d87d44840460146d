"""Progress as server-sent events: one stream per resource, from its first event to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.web.dependencies import Service

_POLL_SECONDS = 0.3
_KEEP_ALIVE_SECONDS = 15.0


def stream(service: Service, kind: type[JobRow], resource_id: str, last_id: int) -> StreamingResponse:
    """`progress` events after `last_id`, then one `end` with the final state. A service that ends says nothing: the client asks again."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(service, kind, resource_id, last_id), media_type="text/event-stream", headers=headers)


async def _events(service: Service, kind: type[JobRow], resource_id: str, last_id: int) -> AsyncIterator[str]:
    def news() -> tuple[list[tuple[int, str]], State | None]:
        with service.database.reading() as session:
            state = jobs.state_of(session, kind, resource_id)  # first: once it is final, no event follows
            return [(row.id, row.data) for row in jobs.events_after(session, resource_id, last_id)], state

    quiet = 0.0
    while not service.closing():
        events, state = await run_in_threadpool(news)
        for last_id, data in events:
            yield f"id: {last_id}\nevent: progress\ndata: {data}\n\n"
        if state is None or state.is_final:
            yield f"event: end\ndata: {json.dumps({'id': resource_id, 'state': state})}\n\n"
            return
        quiet = 0.0 if events else quiet + _POLL_SECONDS
        if quiet >= _KEEP_ALIVE_SECONDS:
            quiet = 0.0
            yield ": still at it\n\n"
        await asyncio.sleep(_POLL_SECONDS)
