"""What servers draw, from the host document: by utilisation where `idle_power_w` is given, else all of `power_w`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import DenseServers, HostSpec, Node, RemoteServers
from emplace.placement.plan import Plan, Question
from emplace.placement.sums import add_up
from emplace.placement.topology import SERVED


def drawn(part: Node | RemoteServers, busy: Sequence[float]) -> Iterator[float | None]:
    """By each server that works so large a share of the time; None where the document has no figure."""
    full, idle = part.power_w, part.idle_power_w
    for share in busy:
        yield full if full is None or idle is None else idle + (full - idle) * share


def busy_shares(plan: Plan) -> list[float]:
    """[node, trainers' first] the share of a step in which its ranks work, in the mean."""
    of_node: dict[int, list[float]] = {}
    for rank in plan.ranks:
        of_node.setdefault(rank.node, []).append(min(rank.step_time_us / (plan.step_time_us or 1.0), 1.0))
    return [add_up(shares) / len(shares) for _, shares in sorted(of_node.items())]


def job_power_w(
    host: HostSpec, busy_nodes: Sequence[float], busy_servers: Sequence[float], dense: DenseServers | None = None
) -> float | None:
    """What all servers of a job draw, dense ones all of their power; None where one's figure is missing."""
    of_dense = [] if dense is None else [dense.power_w] * dense.count
    figures = [*drawn(host.node, busy_nodes), *drawn(host.remote_servers or host.node, busy_servers), *of_dense]
    known = [figure for figure in figures if figure is not None]
    return add_up(known) if len(known) == len(figures) else None


def plan_power_w(plan: Plan) -> float | None:
    """What the job of a placed plan draws."""
    host, nodes, busy = plan.question.host, plan.topology().trainer_nodes, busy_shares(plan)
    return job_power_w(host, busy[:nodes], busy[nodes:], host.dense_servers)


def power_range_w(question: Question) -> tuple[float, float]:
    """What no placement's job draws less than, and none draws more than. Raises InvalidDocument where the host has no figures."""
    host, alone = question.host, question.topology(with_servers=False)
    served = not SERVED.isdisjoint(question.allowed_tiers)
    with_servers = question.topology(with_servers=True) if served else alone
    least = job_power_w(host, [0.0] * alone.trainer_nodes, [], host.dense_servers)
    most = job_power_w(host, [1.0] * with_servers.trainer_nodes, [1.0] * with_servers.remote_servers, host.dense_servers)
    if least is None or most is None:
        parts = {"/node": host.node, "/dense_servers": host.dense_servers}
        part = next((where for where, each in parts.items() if each is not None and each.power_w is None), "/remote_servers")
        rule = f"is needed for a budget in watts: write it there ('emplace hosts {host.name}' prints the document), or set the budget for other hosts only"
        raise InvalidDocument(f"host {host.name}", [BrokenRule(f"{part}/power_w", "", rule)])
    return least, most
