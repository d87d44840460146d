"""A change to a question, and the question with it: what a fix's `patch` means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question
from emplace.placement.reading import from_data


@dataclass(frozen=True)
class Edit:
    """A change that may be a fix: what a person is told, and the patch for `patched`."""

    change: str
    kind: str
    patch: dict[str, Any]
    cost_bytes: int | None = None
    """Memory to add."""


def patched(question: Question, patch: dict[str, Any]) -> Question:
    """`options`, `host` and `model` are JSON merge patches (RFC 7396), but `model.tables` maps names of tables to merge patches.

    Raises InvalidDocument when the result breaks a rule.
    """
    model, host, options = question.model, question.host, question.options
    if "model" in patch:
        data, tables = model.to_data(), patch["model"].get("tables", {})
        data["tables"] = [_merged(table, tables.get(table["name"], {})) for table in data["tables"]]
        data = _merged(data, {key: value for key, value in patch["model"].items() if key != "tables"})
        model = from_data(data, ModelSpec, source="patched model")
    if "host" in patch:
        host = from_data(_merged(host.to_data(), patch["host"]), HostSpec, source="patched host")
    if "options" in patch:
        options = from_data(_merged(options.to_data(), patch["options"]), PlanOptions, source="patched options")
    return question.model_copy(update={"model": model, "host": host, "options": options})


def _merged(data: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(data) if isinstance(data, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
