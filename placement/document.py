"""The base of every document: frozen, unknown keys refused, one canonical spelling and its digest."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError

BROKEN_RULE = "broken_rule"
"""The type of the errors that `broken_rule` makes."""
_MAX_PATCH_DEPTH = 50


def broken_rule(pointer: str, value: Any, rule: str) -> PydanticCustomError:
    """An error for a validator to raise: the value at `pointer`, below what it validates, breaks `rule`."""
    return PydanticCustomError(BROKEN_RULE, "{pointer}: {rule}", {"pointer": pointer, "value": value, "rule": rule})


def _leave_lists_early(schema: Any) -> None:
    """Set `fail_fast` on all lists and mappings of a schema, in place."""
    if isinstance(schema, list):
        for part in schema:
            _leave_lists_early(part)
    elif isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "dict"):
            schema["fail_fast"] = True
        for part in schema.values():
            _leave_lists_early(part)


class Document(BaseModel):
    """A frozen value. NaN and infinity are refused everywhere; so are unknown keys. A list is left at its first broken item: text can
    hold millions, and an error each takes all memory."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False, protected_namespaces=())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _leave_lists_early(schema)
        return schema

    def to_data(self) -> dict[str, Any]:
        """Plain JSON data without the keys that hold their default `None`."""
        return self.model_dump(mode="json", exclude_none=True)

    def canonical_json(self) -> str:
        """The one spelling that the digest is taken of: sorted keys, no spaces."""
        return canonical(self.to_data())

    def content_digest(self) -> str:
        """`sha256:` and 64 hex digits of the canonical JSON."""
        return digest_of(self.canonical_json())


def canonical(data: Any) -> str:
    """The `canonical_json` of the document that has this data, or of a part of it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_of_parts(parts: dict[str, str]) -> str:
    """The `canonical_json` of the document whose keys have these."""
    return "{" + ",".join(f"{canonical(key)}:{parts[key]}" for key in sorted(parts)) + "}"


def digest_of(canonical_json: str) -> str:
    """The `content_digest` of the document that has this canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json.encode()).hexdigest()


def _shallow(patch: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [patch]
    for _ in range(_MAX_PATCH_DEPTH):
        below = (part for each in level for part in (each.values() if isinstance(each, dict) else each))
        level = [part for part in below if isinstance(part, (dict, list))]
    if level:
        raise ValueError(f"must be nested at most {_MAX_PATCH_DEPTH} levels deep")
    return patch


Patch = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""A merge patch (RFC 7396) of a question, nested no deeper than it can be written again."""
