"""The base of every document: frozen, unknown keys refused, one canonical spelling and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

BROKEN_RULE = "broken_rule"
"""The type of the errors that `broken_rule` makes."""


def broken_rule(pointer: str, value: Any, rule: str) -> PydanticCustomError:
    """An error for a validator to raise: the value at `pointer`, below what it validates, breaks `rule`."""
    return PydanticCustomError(BROKEN_RULE, "{pointer}: {rule}", {"pointer": pointer, "value": value, "rule": rule})


class Document(BaseModel):
    """A frozen value. NaN and infinity are refused everywhere; so are unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False, protected_namespaces=())

    def to_data(self) -> dict[str, Any]:
        """Plain JSON data without the keys that hold their default `None`."""
        return self.model_dump(mode="json", exclude_none=True)

    def canonical_json(self) -> str:
        """The one spelling that the digest is taken of: sorted keys, no spaces."""
        return json.dumps(self.to_data(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def content_digest(self) -> str:
        """`sha256:` and 64 hex digits of the canonical JSON."""
        return "sha256:" + hashlib.sha256(self.canonical_json().encode()).hexdigest()
