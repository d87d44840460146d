"""Stored cost models, and one of them: how far its fit is from points that it did not see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session, undefer

from emplace.app.dashboard import tones
from emplace.app.dashboard.rendering import show
from emplace.app.database import paging, profiles
from emplace.app.database.states import State
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import ProfileRow
from emplace.app.web.dependencies import Cursor, TheService
from emplace.app.web.problems import found
from emplace.placement.cost_model import CostModel, Residual

router = APIRouter()

_ROWS = 50


@dataclass(frozen=True)
class ProfileLine:
    id: str
    host: str
    fingerprint: str | None
    source: str
    ranks: int | None
    word: str
    tone: tones.Tone
    created_at: datetime


@dataclass(frozen=True)
class ResidualLine:
    """Errors as shares of measured times, of all points and by what most of their time is."""

    what: str
    regime: str
    points: int
    mean: float
    median: float
    worst: float


@dataclass(frozen=True)
class ProfileView:
    profile: ProfileLine
    error: str | None
    residuals: list[ResidualLine]
    noise: float | None
    drift: float | None
    software: dict[str, str]
    stack: str | None


@router.get("/profiles")
async def profiles_page(request: Request, service: TheService, cursor: Cursor = None) -> Response:
    """Stored cost models, newest first."""
    return show(request, "profiles.html", await service.read(_list, cursor))


@router.get("/profiles/{profile_id}")
async def profile_page(request: Request, profile_id: str, service: TheService) -> Response:
    """One cost model."""
    return show(request, "profile.html", await service.read(_page, profile_id))


def _list(session: Session, cursor: str | None) -> dict[str, object]:
    rows, following = paging.page(session, ProfileRow, {}, cursor, _ROWS, undefer(ProfileRow.document))
    return {"profiles": [_line(row) for row in rows], "next": following}


def _page(session: Session, profile_id: str) -> ProfileView:
    row = found(profiles.find(session, profile_id), "profile", profile_id)
    if row.document is None:
        return ProfileView(_line(row), row.error, [], None, None, {}, None)
    model = read_stored(row.document, CostModel, f"profile {profile_id}")
    stack = None if model.stack is None else model.stack.name
    return ProfileView(_line(row), row.error, residual_lines(model.residuals), model.noise, model.drift, model.software, stack)


def residual_lines(residuals: Iterable[Residual]) -> list[ResidualLine]:
    """By what was measured; all of its points before those of each regime."""
    lines = [ResidualLine(each.what, each.regime or "all", each.points, each.mape, each.median, each.worst) for each in residuals]
    order = {line.what: number for number, line in reversed(list(enumerate(lines)))}
    return sorted(lines, key=lambda line: (order[line.what], line.regime != "all", line.regime))


def _line(row: ProfileRow) -> ProfileLine:
    tone = tones.of_job(State(row.state))
    return ProfileLine(row.id, row.host_name, row.host_fingerprint, row.source, row.ranks, row.state, tone, row.created_at)
