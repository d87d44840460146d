"""From a request's `model`, `host` and `options` to a question, with every broken rule pointing into the body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from emplace.app.web.dependencies import cost_models
from emplace.app.web.service import Service
from emplace.placement.catalog import LOCAL_HOST, builtin_host, builtin_model, builtin_stack, host_names, model_names, stack_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, Question, by_the_clock
from emplace.placement.pointer import pointer_to
from emplace.placement.reading import from_data
from emplace.placement.stack import Stack
from emplace.placement.topology import SERVED
from emplace.planning import build_question, measured_cost_model

D = TypeVar("D", bound=Document)

_MAX_SHOWN = 20
QUESTION_KEYS = frozenset({"model", "host", "options", "cost_model", "stack"})


def read_question(session: Session, service: Service, data: dict[str, Any], keys: frozenset[str] = QUESTION_KEYS) -> Question:
    """The question that a body asks, priced by its own cost model or stack, else the one measured on the host, else the datasheet's.

    Raises InvalidDocument.
    """
    refuse_unknown_keys(data, keys)
    model = named_or_written(data.get("model"), "/model", ModelSpec, model_names(), builtin_model)
    host = host_of(service, data.get("host"), "/host")
    options = part_of(data | {"options": _by_the_clock(data.get("options"))}, "options", PlanOptions)
    with pointing_into("/options"):  # what can be refused before any solving
        options.topology(host, with_servers=any(map(options.allows, SERVED)))
    cost_model = _prices(data, host) or measured_cost_model(cost_models(session), host, options) or _of_datasheet(data["host"], host)
    with pointing_into("/cost_model"):
        question = build_question(model, host, options, cost_model)
    with pointing_into("/model"):
        question.topology(with_servers=any(map(options.allows, SERVED)))
    return question


def _prices(data: dict[str, Any], host: HostSpec) -> CostModel | None:
    """Those that the body asks for. Raises InvalidDocument."""
    if data.get("stack") is None:
        given = data.get("cost_model")
        return None if given is None else from_data(given, CostModel, source="body", pointer="/cost_model")
    if data.get("cost_model") is not None:
        raise InvalidDocument("body", [BrokenRule("/stack", "", "goes without a cost_model, which has prices of its own")])
    stack = stack_of(data)
    with pointing_into("/stack"):
        return datasheet_cost_model(host, stack)


def _of_datasheet(asked: Any, host: HostSpec) -> CostModel:
    """The prices of the host that is asked for, worked out once for one that is built in."""
    return _of_builtin(asked) if isinstance(asked, str) and asked != LOCAL_HOST else datasheet_cost_model(host)


@cache
def _of_builtin(host_name: str) -> CostModel:
    return datasheet_cost_model(builtin_host(host_name))


def host_of(service: Service, value: Any, pointer: str) -> HostSpec:
    """A built-in host, the service's machine, or the document. Raises InvalidDocument."""
    names = [*host_names(), LOCAL_HOST]
    return named_or_written(value, pointer, HostSpec, names, lambda name: service.local_host if name == LOCAL_HOST else builtin_host(name))


def stack_of(data: dict[str, Any]) -> Stack:
    """Raises InvalidDocument."""
    return named_or_written(data.get("stack"), "/stack", Stack, stack_names(), builtin_stack)


def part_of(data: dict[str, Any], key: str, kind: type[D]) -> D:
    """The document under a key of the body; its defaults when there is none. Raises InvalidDocument."""
    given = data.get(key)
    return from_data({} if given is None else given, kind, source="body", pointer=f"/{key}")


def _by_the_clock(options: Any) -> Any:
    given = {} if options is None else options
    return by_the_clock(given) if isinstance(given, dict) else given


def refuse_unknown_keys(data: dict[str, Any], keys: frozenset[str]) -> None:
    """Raises InvalidDocument for a key of the body that means nothing."""
    rule = f"unknown key; there are {', '.join(sorted(keys))}"
    unknown = [BrokenRule(pointer_to(key), "", rule) for key in islice((key for key in data if key not in keys), _MAX_SHOWN)]
    if unknown:
        raise InvalidDocument("body", unknown)


@contextmanager
def pointing_into(pointer: str) -> Iterator[None]:
    """Make the problems of a part of the body point into the body."""
    try:
        yield
    except InvalidDocument as error:
        broken = [replace(each, pointer=pointer + each.pointer) for each in error.broken_rules]
        raise InvalidDocument("body", broken) from None


def named_or_written(value: Any, pointer: str, kind: type[D], names: Sequence[str], find: Callable[[str], D]) -> D:
    """The document that is there, or that of a name. Raises InvalidDocument."""
    if value is None:
        raise InvalidDocument("body", [BrokenRule(pointer, "", "is required")])
    if not isinstance(value, str):
        return from_data(value, kind, source="body", pointer=pointer)
    if value not in names:
        what = kind.__name__.removesuffix("Spec").lower()
        rule = f"must be a {what} document or the name of a built-in one: {', '.join(names)}"
        raise InvalidDocument("body", [BrokenRule(pointer, repr(value[:100]), rule)])
    return find(value)
