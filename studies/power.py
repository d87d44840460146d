"""What a job draws and what it costs: of every server by its utilisation, from the host document."""

from __future__ import annotations

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import DenseServers, HostSpec
from emplace.placement.plan import Plan
from emplace.placement.power import busy_shares, job_power_w
from emplace.placement.sums import add_up


class Running(Document):
    """What it takes to run a job; a figure is absent where the host document doesn't have it."""

    nodes: int
    """Nodes of trainers."""
    parameter_servers: int
    dense_servers: int | None = None
    """Absent where there are none, and of a fleet, whose `parameter_servers` are of both kinds."""
    servers: int
    """All of them."""
    power_w: float | None = None
    """What they draw: by utilisation where `idle_power_w` is given, else all of `power_w`."""
    throughput_per_w: float | None = None
    """Examples per second for each watt."""
    joules_per_million_examples: float | None = None
    price_per_hour: float | None = None
    price_per_million_examples: float | None = None


def running(plan: Plan) -> Running:
    """What the job of a placed plan takes."""
    topology, host = plan.topology(), plan.question.host
    busy = busy_shares(plan)
    nodes = topology.trainer_nodes
    throughput = plan.throughput_samples_per_s or 0.0
    return running_job(host, throughput, nodes, topology.remote_servers, busy[:nodes], busy[nodes:], host.dense_servers)


def running_job(
    host: HostSpec,
    throughput: float,
    nodes: int,
    parameter_servers: int,
    busy_nodes: list[float],
    busy_servers: list[float],
    dense: DenseServers | None = None,
) -> Running:
    """What a job of so many nodes and parameter servers takes, each with the share of the time in which it works, and of dense servers."""
    of_dense = [] if dense is None else [dense] * dense.count
    power_w = job_power_w(host, busy_nodes, busy_servers, dense)
    of_servers = [(host.remote_servers or host.node).price_per_hour] * parameter_servers
    price = _sum([host.node.price_per_hour] * nodes + of_servers + [each.price_per_hour for each in of_dense])
    return Running(
        nodes=nodes,
        parameter_servers=parameter_servers,
        dense_servers=len(of_dense) or None,
        servers=nodes + parameter_servers + len(of_dense),
        power_w=power_w,
        throughput_per_w=None if not power_w else throughput / power_w,
        joules_per_million_examples=None if power_w is None or not throughput else power_w * 1e6 / throughput,
        price_per_hour=price,
        price_per_million_examples=None if price is None or not throughput else price / 3600 * 1e6 / throughput,
    )


def refuse_unknown(hosts: list[HostSpec], key: str, why: str) -> None:
    """Raises InvalidDocument for hosts without a figure that was asked for: `power_w` or `price_per_hour`."""
    broken = []
    for host in hosts:
        parts = (("/node", host.node), ("/remote_servers", host.remote_servers), ("/dense_servers", host.dense_servers))
        for where, part in parts:
            if part is not None and getattr(part, key) is None:
                example = "power_w: 3650" if key == "power_w" else "price_per_hour: 12.5"
                rule = f"is needed for {why}: write '{example}' with your figure there ('emplace hosts {host.name}' prints the document), or leave the host out"
                broken.append(InvalidDocument(f"host {host.name}", [BrokenRule(f"{where}/{key}", "", rule)]))
    if broken:
        raise broken[0] if len(broken) == 1 else InvalidDocument("hosts", [_of_host(error) for error in broken])


def _of_host(error: InvalidDocument) -> BrokenRule:
    [broken] = error.broken_rules
    return BrokenRule(f"{error.source.removeprefix('host ')}{broken.pointer}", "", broken.rule)


def _sum(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return add_up(known) if len(known) == len(figures) else None
