"""API keys: who may ask the service, and for what. A key is 256 random bits, so a plain digest of it gives nothing away."""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.database.tables import ApiKeyRow, now
from emplace.placement.errors import ToolError

_PREFIX = "emplace_"
"""By which a key is known that lies around where it should not."""


class AccessScope(StrEnum):
    """What a key may do. Each may do what those before it may."""

    READ = "read"
    PLAN = "plan"
    RUN = "run"
    ADMIN = "admin"

    def covers(self, needed: AccessScope) -> bool:
        return list(AccessScope).index(self) >= list(AccessScope).index(needed)


def make(session: Session, name: str, scope: AccessScope) -> str:
    """A new key, which can't be read again. Raises ToolError where a key that counts has the name."""
    if _named(session, name) is not None:
        raise ToolError(f"there is a key named {name!r} already: revoke it first, or take another name")
    key = _PREFIX + secrets.token_urlsafe(32)
    session.add(ApiKeyRow(name=name, scope=scope, digest=digest_of(key)))
    return key


def list_keys(session: Session) -> list[ApiKeyRow]:
    """All that were made, oldest first."""
    return list(session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.id)))


def revoke(session: Session, name: str) -> None:
    """The key of this name counts no more. Raises ToolError where there is none."""
    row = _named(session, name)
    if row is None:
        raise ToolError(f"no key that counts is named {name!r}; 'emplace keys list' shows them")
    row.revoked_at = now()


def scope_of(session: Session, digest: str) -> AccessScope | None:
    """What the key with this digest may do, None where there is no such key or it was revoked."""
    found = session.scalar(select(ApiKeyRow.scope).where(ApiKeyRow.digest == digest, ApiKeyRow.revoked_at.is_(None)))
    return AccessScope(found) if found is not None else None


def any_counts(session: Session) -> bool:
    return session.scalar(select(ApiKeyRow.id).where(ApiKeyRow.revoked_at.is_(None)).limit(1)) is not None


def digest_of(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def _named(session: Session, name: str) -> ApiKeyRow | None:
    return session.scalar(select(ApiKeyRow).where(ApiKeyRow.name == name, ApiKeyRow.revoked_at.is_(None)))
