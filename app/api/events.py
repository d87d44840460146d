"""Progress as server-sent events: one stream per resource, from its first event to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header
from fastapi.sse import ServerSentEvent
from sqlalchemy.orm import Session

from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.web.service import Service

LastEventId = Annotated[str | None, Header(pattern="^[0-9]{1,18}$")]

_POLL_SECONDS = 0.3


async def events_of(service: Service, kind: type[JobRow], resource_id: str, last_event_id: str | None) -> AsyncIterator[ServerSentEvent]:
    """`progress` events after the last one seen, then one `end` with the final state.

    A service that ends says nothing: the client asks again.
    """
    last_id = int(last_event_id or 0)

    def news(session: Session) -> tuple[list[tuple[int, str]], State | None]:
        state = jobs.state_of(session, kind, resource_id)  # first: once it is final, no event follows
        return [(row.id, row.data) for row in jobs.events_after(session, resource_id, last_id)], state

    while not service.closing():
        events, state = await service.watch(news)
        for last_id, data in events:
            yield ServerSentEvent(event="progress", raw_data=data, id=str(last_id))
        if state is None or state.is_final:
            yield ServerSentEvent(event="end", data={"id": resource_id, "state": state})
            return
        await asyncio.sleep(_POLL_SECONDS)
