"""The API: every request that it takes, to be read and to be tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import TheService

router = APIRouter()


@dataclass(frozen=True)
class Parameter:
    """`where` is path, query or header; `says` describes it, or is empty."""

    name: str
    where: str
    required: bool
    says: str


@dataclass(frozen=True)
class Endpoint:
    """A request. `bodies` are the names of what its body may be, `examples` bodies that it accepts, by name."""

    id: str
    method: str
    path: str
    says: str
    parameters: list[Parameter]
    bodies: list[str]
    examples: dict[str, str]
    answers: list[str]


@dataclass(frozen=True)
class Docs:
    operations: list[Endpoint]


@router.get("/docs")
async def docs(request: Request, service: TheService) -> Response:
    """The API."""
    return show(request, "docs.html", await service.documents.run(_docs, request.app))


def _docs(app: FastAPI) -> Docs:
    page = app.openapi()
    schemas = page["components"]["schemas"]
    return Docs(
        [_endpoint(method.upper(), path, each, schemas) for path, methods in page["paths"].items() for method, each in methods.items()]
    )


def _endpoint(method: str, path: str, described: dict[str, Any], schemas: dict[str, Any]) -> Endpoint:
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    kinds = body["schema"].get("oneOf", [body["schema"]]) if body else []
    return Endpoint(
        id=described["operationId"],
        method=method,
        path=path,
        says=described.get("description") or described["summary"],
        parameters=[_parameter(each, schemas) for each in described.get("parameters", [])],
        bodies=[kind["$ref"].rpartition("/")[2] for kind in kinds],
        examples={name: json.dumps(each["value"], indent=2) for name, each in body.get("examples", {}).items()},
        answers=[status for status in described["responses"] if status != "default"],
    )


def _parameter(described: dict[str, Any], schemas: dict[str, Any]) -> Parameter:
    says = described.get("description") or ", ".join(_values(described["schema"], schemas))
    return Parameter(described["name"], described["in"], described["required"], says.replace("`", ""))


def _values(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """The values that it may have, where they are few."""
    for kind in schema.get("anyOf", [schema]):
        named = schemas[kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind
        yield from named.get("enum", [])
