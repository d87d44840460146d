"""GET /v1/overview: how stored plans and runs are distributed."""

from __future__ import annotations

from fastapi import APIRouter

from emplace.app.database.plan_facts import overview_of_store
from emplace.app.web.dependencies import TheService
from emplace.studies.overview import Overview

router = APIRouter(prefix="/v1/overview", tags=["overview"])


@router.get("", response_model_exclude_none=True)
async def get_overview(service: TheService) -> Overview:
    """Distributions over all stored plans that have a placement, and over all runs that measured one: what `emplace overview` prints."""
    return await service.read_together(overview_of_store)
