"""The service as OpenAPI describes it."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from emplace.app.api.requests import STUDIES, CheckRequest, PipelineRequest, PlanRequest, ProfileRequest, RunRequest
from emplace.app.web import problems

_READ_BY_ROUTES = (PlanRequest, CheckRequest, RunRequest, ProfileRequest, PipelineRequest, *STUDIES)
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in ("in", "pointer", "detail", "value")},
            },
        },
    },
}


def described(app: FastAPI) -> dict[str, Any]:
    """FastAPI's page, with the bodies that routes read by themselves and the one shape of errors."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        read_by_routes: list[tuple[type[BaseModel], Literal["validation"]]] = [(kind, "validation") for kind in _READ_BY_ROUTES]
        _, own = models_json_schema(read_by_routes, ref_template="#/components/schemas/{model}")
        schemas |= own["$defs"]
        schemas["Problem"] = _PROBLEM_SCHEMA
        schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{}, {"key": []}]  # a service on the loopback address asks for none
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        answer = {"description": "Any error", "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = answer
        app.openapi_schema = schema
    return app.openapi_schema
