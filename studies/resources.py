"""What a step would gain from more of each rate of its host: percent of throughput for each percent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from emplace.placement.datasheet import datasheet_cost_model, follows_datasheet
from emplace.placement.derived_loads import derive_loads
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data

MORE = Decimal("1.01")
"""What a rate is multiplied by to see what it is worth."""
_RATE = re.compile(r"([0-9.]+)([A-Za-z]+/s)")


class Elasticity(Document):
    """Percent of throughput for each percent more of a rate, with tables where they are."""

    resource: str
    path: str
    """JSON pointer into the host document."""
    percent: float


def elasticities(plan: Plan) -> tuple[Elasticity, ...]:
    """The elasticity of every rate that the step depends on, most first; none where prices don't follow from the host's rates.

    Tables stay where they are: of a best placement a small change gains as much as with tables placed anew.
    """
    question = plan.sized_question
    if not plan.has_placement or not follows_datasheet(question.cost_model, question.host):
        return ()
    topology, found = plan.topology(), []
    before_us = derive_loads(question, plan.tables, topology).step_time_us
    for path, name, data in _faster(question.host):
        host = from_data(data, HostSpec, source="host")
        faster = question.model_copy(update={"host": host, "cost_model": datasheet_cost_model(host, question.cost_model.stack)})
        after_us = derive_loads(faster, plan.tables, topology).step_time_us
        percent = round((before_us / after_us - 1) / float(MORE - 1), 4)
        if percent:
            found.append(Elasticity(resource=name, path=path, percent=percent))
    return tuple(sorted(found, key=lambda each: (-each.percent, each.path)))


def _faster(host: HostSpec) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(pointer, name, data) of the host with a little more of each rate."""
    data = host.to_data()
    for path, name in _rates(data["node"], "/node", "node"):
        yield path, name, _scaled(data, path)
    for servers in ("remote_servers", "dense_servers"):
        for path, name in _rates(data.get(servers, {}), f"/{servers}", servers.replace("_", " ")):
            yield path, name, _scaled(data, path)


def _rates(data: Any, path: str, owner: str) -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        owner = data.get("kind", owner)
        for key, value in data.items():
            yield from ((f"{path}/{key}", f"{key} of {owner}"),) if _is_rate(value) else _rates(value, f"{path}/{key}", owner)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _rates(value, f"{path}/{index}", owner)


def _is_rate(value: Any) -> bool:
    return isinstance(value, str) and _RATE.fullmatch(value) is not None


def _scaled(data: Any, path: str) -> Any:
    first, _, rest = path.removeprefix("/").partition("/")
    key: Any = int(first) if isinstance(data, list) else first
    copy: Any = list(data) if isinstance(data, list) else dict(data)
    copy[key] = _scaled(data[key], rest) if rest else _more(data[key])
    return copy


def _more(rate: str) -> str:
    number, unit = _RATE.fullmatch(rate).groups()  # type: ignore[union-attr]
    return f"{Decimal(number) * MORE:f}{unit}"
