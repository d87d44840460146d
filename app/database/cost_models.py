"""The database as a store of cost models: the finished profiles that were measured, whether by a worker or uploaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.database.profiles import columns_of
from emplace.app.database.states import State
from emplace.app.database.tables import ProfileRow, now
from emplace.cost_model_store import Candidate, refusing_other_versions
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.reading import read_text


class CostModelRows:
    """The profiles that one session sees."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def candidates(self, fingerprint: str) -> Iterator[Candidate]:
        """The profiles measured on the machine with this fingerprint, newest first."""
        query = select(ProfileRow).where(
            ProfileRow.host_fingerprint == fingerprint,
            ProfileRow.state == State.DONE,
            ProfileRow.source == CostSource.MEASURED,
            ProfileRow.ranks.is_not(None),
        )
        for row in self._session.scalars(query.order_by(ProfileRow.id.desc())):
            assert row.ranks is not None
            assert row.finished_at is not None
            yield Candidate(row.ranks, row.finished_at.timestamp(), partial(_read, row))

    def keep(self, model: CostModel) -> str:
        """Store a model as a finished profile and return its id. One that was not measured is kept too, and never found."""
        row = ProfileRow(state=State.DONE, document=model.canonical_json(), finished_at=now(), **columns_of(model))
        self._session.add(row)
        self._session.flush()
        return row.id


def _read(row: ProfileRow) -> CostModel:
    with refusing_other_versions(f"profile {row.id}"):
        return read_text(row.document or "", CostModel, source=f"profile {row.id}", as_json=True)
