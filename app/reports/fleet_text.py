"""The assignment of a fleet as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count
from emplace.app.reports.size_text import size_cells
from emplace.app.reports.sweep_text import short
from emplace.app.reports.tables import facts, plain_table, section
from emplace.studies.fleet_assignment import AssignedJob, FleetAssignment, WhyLeft
from emplace.studies.jobs import Wanted

_HEADS = ("job", "host", "training", "wanted", "examples/s", "range", "limits", "counts", "servers")


def fleet_view(found: FleetAssignment) -> RenderableType:
    """Jobs with what they get, then what is left over."""
    parts: list[RenderableType] = [Text(fleet_headline(found), style="bold"), Text("")]
    if any(each.job for each in found.jobs):
        parts.append(section("jobs with servers", _jobs(found)))
    if found.left_over:
        parts.append(section("jobs left over", facts([(each.name, _why(each)) for each in found.left_over])))
    parts.append(section("left over of the stock", _stock(found)))
    return Group(*parts, *map(Text, _notes(found)))


def fleet_headline(found: FleetAssignment) -> str:
    served = [each.job for each in found.jobs if each.job is not None]
    taken = sum(job.running.servers for job in served if job.running is not None)
    there = sum(each.nodes + each.parameter_servers for each in found.stock)
    return f"{len(served)} of {count(len(found.jobs), 'job')} get {taken} of {count(there, 'server')}"


def _jobs(found: FleetAssignment) -> RenderableType:
    by_price = found.wanted is Wanted.COST
    table = plain_table(*_HEADS, "an hour" if by_price else "W", left=3)
    for each in found.jobs:
        if each.job is None:
            continue
        name = each.name if each.name == each.model else f"{each.name} ({each.model})"
        throughput, range_, _, limits, counts, servers, watts, price = size_cells(each.job)
        cells = [short(each.target.throughput), throughput, range_, limits, counts, servers, price if by_price else watts]
        table.add_row(name, each.job.host, str(each.job.training), *cells)
    return table


def _why(left: AssignedJob) -> str:
    if left.why_left is not WhyLeft.STOCK:
        return str(left.why_left)
    least = min(left.sizes, key=lambda size: size.price)
    servers = f" and {least.parameter_servers} parameter servers" if least.parameter_servers else ""
    return f"{left.why_left}: {count(least.nodes, 'node')}{servers} of {least.host} at least"


def _stock(found: FleetAssignment) -> RenderableType:
    table = plain_table("host", "nodes left", "of", "parameter servers left", "of")
    for each in found.stock:
        cells = (each.nodes_left, each.nodes, each.parameter_servers_left, each.parameter_servers)
        table.add_row(each.host, *map(str, cells))
    return table


def _notes(found: FleetAssignment) -> Iterator[str]:
    least = f"as many jobs as possible, then for the fewest {found.wanted}"
    if found.is_best:
        yield f"{least}: no other choice of the sizes that were found is better"
    else:
        yield f"{least}: the best choice that was found; a better one is not ruled out"
    undecided = {each.name: each.undecided for each in found.jobs if each.undecided}
    for name, hosts in undecided.items():
        yield f"{name}: there may be smaller jobs on {', '.join(dict.fromkeys(hosts))}, undecided within the limit"
