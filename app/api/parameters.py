"""Query parameters that nothing reads are refused: a misspelt filter would be none."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request

from emplace.app.web.problems import Refused
from emplace.placement.errors import BrokenRule
from emplace.placement.pointer import pointer_to


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of routes that /openapi.json describes. Raises Refused."""
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
    rule = f"unknown query parameter; there {'are ' + ', '.join(known) if known else 'is none'}"
    unknown = [BrokenRule(pointer_to(name), value, rule) for name, value in request.query_params.items() if name not in known]
    if unknown:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(map(str, unknown)), unknown, "query")
