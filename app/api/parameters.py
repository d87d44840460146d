"""Query parameters that nothing reads are refused: a misspelt filter would be none."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query

from emplace.app.web.problems import Refused
from emplace.placement.errors import BrokenRule
from emplace.placement.pointer import pointer_to


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of the API's routes. Raises Refused."""
    if not request.query_params:
        return
    known = [field.alias for field in get_flat_params(request.scope["route"].dependant) if isinstance(field.field_info, Query)]
    rule = f"unknown query parameter; there {'are ' + ', '.join(known) if known else 'is none'}"
    unknown = [BrokenRule(pointer_to(name), value, rule) for name, value in request.query_params.items() if name not in known]
    if unknown:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(map(str, unknown)), unknown, "query")
