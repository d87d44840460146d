"""All pages. Each view has a file of its own; here they are put together."""

from __future__ import annotations

from fastapi import APIRouter

from emplace.app.dashboard import actions, docs_page
from emplace.app.dashboard.ask import ask_page
from emplace.app.dashboard.catalog import hosts_page, models_page, profiles_page
from emplace.app.dashboard.compare import compare_page
from emplace.app.dashboard.overview import overview_page
from emplace.app.dashboard.plan import map_page, plan_page, tables_page
from emplace.app.dashboard.plans import list_page
from emplace.app.dashboard.runs import drift_page, run_page
from emplace.app.dashboard.studies import compare_studies_page, new_study_page, studies_page, study_page
from emplace.app.dashboard.what_if import what_if_page

router = APIRouter(include_in_schema=False)
_VIEWS = (
    list_page,
    ask_page,
    actions,  # its fixed paths before those that take any plan's id
    plan_page,
    tables_page,
    map_page,
    run_page,
    what_if_page,
    compare_page,
    drift_page,
    studies_page,
    compare_studies_page,  # its fixed path before that of any study's id, and so the next
    new_study_page,
    study_page,
    overview_page,
    models_page,
    hosts_page,
    profiles_page,
    docs_page,
)
for view in _VIEWS:
    router.include_router(view.router)
