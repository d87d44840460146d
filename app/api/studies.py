"""From a request for a study to what it asks, with every name resolved and every refusal that `emplace sweep` and its like make."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session

from emplace.app.api.meanwhile import solve_meanwhile
from emplace.app.api.questions import host_of, named_or_written, part_of, refuse_unknown_keys, stack_of
from emplace.app.api.queueing import put_new
from emplace.app.api.requests import MAX_HOSTS, BatchKeys, RecommendKeys, SizeKeys, StudyRequest, SweepKeys
from emplace.app.database.tables import StudyRow
from emplace.app.study_pointers import pointing_into_study
from emplace.app.web.dependencies import cost_models
from emplace.app.web.service import Service
from emplace.placement.catalog import builtin_model, host_names, model_names
from emplace.placement.catalog.suite import SUITE, SuiteSettings, suite_settings
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import from_data
from emplace.planning import measured_cost_model
from emplace.studies.asked import Asked, AskedBatch, AskedRecommend, AskedSize, AskedStudy, AskedSweep
from emplace.studies.batch import batch_list
from emplace.studies.fleet import Hogwild
from emplace.studies.grid import MAX_POINTS as MAX_GRID_POINTS
from emplace.studies.recommend import WORK_S as RECOMMEND_WORK_S
from emplace.studies.size import WORK_S
from emplace.studies.sweep import STUDY_GAP, axes_of, pair_of, refuse_varied
from emplace.studies.target import target_of

_PREPARE_S = 30.0
"""How long it may take to make all points of a study and to see whether its target can be reached at all."""
MAX_POINTS = 2000
"""Points of one stored study; larger ones are for the command line."""
_KEYS: dict[str, type[Document]] = {"sweep": SweepKeys, "size": SizeKeys, "recommend": RecommendKeys, "batch": BatchKeys}
_LIMIT_KEYS = ("work_limit", "time_limit")
_LIMITS = {"sweep": {}, "size": {"work_limit": WORK_S}, "recommend": {"work_limit": RECOMMEND_WORK_S}, "batch": {}}


def read_study(session: Session, service: Service, body: dict[str, Any]) -> Asked:
    """What a body asks; `prepare` (app.steps) refuses what is wrong with its points. Raises InvalidDocument."""
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise InvalidDocument("body", [BrokenRule("/kind", repr(kind)[:100], f"must be {', '.join(_KEYS)}")])
    refuse_unknown_keys(body, frozenset({"kind", *StudyRequest.model_fields, *_KEYS[kind].model_fields}))
    with pointing_into_study(kind):
        return _asked(session, service, kind, body)


async def points_of(service: Service, request: Request, asked: Asked) -> int:
    """How many points a study has. Raises InvalidDocument for what can be refused before anything is solved, and for too many."""
    if isinstance(asked, AskedSweep):  # all of them take long to make
        _refuse_large(asked, math.prod(len(axis.values) for axis in asked.axes) * len(asked.hosts))
    prepared = await solve_meanwhile(service, request, "prepare", AskedStudy(asked=asked).canonical_json(), _PREPARE_S)
    points = int(json.loads(prepared)["points"])
    _refuse_large(asked, points)
    return points


def _refuse_large(asked: Asked, points: int) -> None:
    if points > MAX_POINTS:
        rule = f"makes {points:,} points, and a stored study has {MAX_POINTS:,} at most; 'emplace {asked.kind}' takes {MAX_GRID_POINTS:,}"
        with pointing_into_study(asked.kind):
            raise InvalidDocument("--vary", [BrokenRule("", "", rule)])


def store_study(session: Session, service: Service, asked: Asked, points: int) -> str:
    """The id of the new study, which waits for a worker."""
    row = StudyRow(
        kind=asked.kind,
        model_name=asked.model_name,
        hosts=json.dumps([host.name for host in asked.hosts]),
        varied=json.dumps(asked.varied),
        points=points,
        asked=asked.canonical_json(),
    )
    put_new(service, session, row)
    return row.id


def _asked(session: Session, service: Service, kind: str, body: dict[str, Any]) -> Asked:
    keys = from_data({key: body[key] for key in _KEYS[kind].model_fields if key in body}, _KEYS[kind], source="body")
    options = part_of(body | {"options": _with_limits(kind, body.get("options"))}, "options", PlanOptions)
    if kind == "size" and (options.nodes or options.ranks):
        key = "nodes" if options.nodes else "ranks"
        raise InvalidDocument("body", [BrokenRule(f"/options/{key}", "", "is what a sizing finds: leave it out, or ask for a sweep")])
    hosts = _hosts(service, body.get("hosts"))
    common: dict[str, Any] = {
        **_model(body),
        "hosts": hosts,
        "options": options,
        "stack": None if body.get("stack") is None else stack_of(body),
        "measured": tuple(filter(None, (measured_cost_model(cost_models(session), host, options) for host in hosts))),
    }
    if isinstance(keys, SweepKeys):
        axes = axes_of(keys.vary, of_template=common["template"] is not None)
        refuse_varied(axes, body.get("options") or {}, body.get("set") or ())
        return AskedSweep(**common, axes=tuple(axes), fronts=tuple(map(pair_of, keys.pareto)))
    if isinstance(keys, SizeKeys):
        target = target_of(keys.throughput, keys.examples, keys.deadline)
        hogwild = Hogwild(batch=keys.async_batch, threads=keys.threads, tau=keys.tau)
        return AskedSize(**common, target=target, objective=keys.objective, hogwild=hogwild, max_nodes=keys.max_nodes)
    if isinstance(keys, BatchKeys):
        return AskedBatch(**common, batches=batch_list(keys.batches), curve=keys.curve, noise=keys.noise)
    assert isinstance(keys, RecommendKeys)
    return AskedRecommend(**common, objective=keys.objective)


def _with_limits(kind: str, given: Any) -> Any:
    """The options with what a study has by default, also for a limit of null. One that is no mapping is refused later."""
    if given is not None and not isinstance(given, dict):
        return given
    said = {key: value for key, value in (given or {}).items() if value is not None or key not in _LIMIT_KEYS}
    return {"gap": STUDY_GAP} | _LIMITS[kind] | said


def _model(body: dict[str, Any]) -> dict[str, ModelSpec | SuiteSettings | None]:
    settings = from_data({"set": body.get("set", ())}, _Settings, source="body").set
    if body.get("model") == SUITE:
        return {"model": None, "template": suite_settings(settings)}
    if settings:
        raise InvalidDocument(
            "--set", [BrokenRule("", "", f"only the template {SUITE} has settings; change the document of another model")]
        )
    model = named_or_written(body.get("model"), "/model", ModelSpec, [*model_names(), SUITE], builtin_model)
    return {"model": model, "template": None}


class _Settings(Document):
    set: tuple[str, ...] = ()


def _hosts(service: Service, given: Any) -> tuple[HostSpec, ...]:
    names = host_names() if given == "all" else given
    if not isinstance(names, list) or not names:
        raise InvalidDocument("body", [BrokenRule("/hosts", repr(given)[:100], 'must be a list of hosts, or "all"')])
    if len(names) > MAX_HOSTS:
        raise InvalidDocument("body", [BrokenRule("/hosts", f"{len(names):,} hosts", f"must be {MAX_HOSTS} at most")])
    return tuple(host_of(service, each, f"/hosts/{index}") for index, each in enumerate(names))
