"""The smallest synchronous job that reaches a throughput: cheapest sizes first, each planned, ruled out by proof, or left undecided."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from emplace.placement.derived_loads import constant_us
from emplace.placement.host import HostSpec
from emplace.placement.model import Tier
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.topology import allowed_tiers
from emplace.planning import answer
from emplace.solver.progress import Monitor
from emplace.studies.grid import Setting
from emplace.studies.jobs import NodesAndServers, ServerPrices
from emplace.studies.solving import best_of

MOST_SOLVES = 40
"""Sizes that are solved for on one host; cheaper ones beyond stay undecided."""


@dataclass
class SizeSearch:
    """Sizes of jobs on one host that are to reach so many examples per second."""

    setting: Setting
    host: HostSpec
    throughput: float
    prices: ServerPrices
    most_nodes: int
    found: dict[NodesAndServers, Plan | None] = field(default_factory=dict)
    """By size: a plan that is fast enough, None where there is provably none."""
    undecided: dict[NodesAndServers, None] = field(default_factory=dict)
    """Neither, or not looked at."""
    solves: int = 0
    _ruled_out: dict[int, bool] = field(default_factory=dict)
    """By nodes, with any number of servers."""
    is_complete: bool = True
    """Whether every size up to the one found, or the largest, is in one of them."""

    def run(self) -> Plan | None:
        """The cheapest plan found; every cheaper size is then impossible or undecided. None where there is none."""
        known: tuple[float, Plan] | None = None
        for size in self._cheapest_first():
            if known is not None and self._price(size) >= known[0]:
                break
            if self.solves < MOST_SOLVES:
                if (plan := self._planned(size)) is not None:
                    return plan
                continue
            if known is None and (known := self._any_larger(size.nodes)) is None:
                self.is_complete = False
                return None
            if size not in self.found:
                self.undecided[size] = None
        return None if known is None else known[1]

    def smallest(self) -> Iterator[Plan]:
        """Plans of which none takes more nodes and more servers than another: for each number of nodes the fewest servers, as long as
        more nodes save some. `is_complete` and `undecided` say what may be missing."""
        if not self._server_counts:
            return  # tables may be nowhere
        fewest = self._server_counts[-1] + 1
        for nodes in range(self._least_nodes, self.most_nodes + 1):
            if self.solves >= MOST_SOLVES:
                self.is_complete = False
                return
            plan = self._with_fewest_servers(nodes, fewest)
            if plan is None:
                continue
            yield plan
            fewest = plan.topology().remote_servers
            if fewest == self._server_counts[0]:
                return

    @property
    def impossible(self) -> list[NodesAndServers]:
        return [size for size, plan in self.found.items() if plan is None]

    def reaches(self, nodes: int) -> float:
        """Examples per second that no job of so many nodes exceeds, wherever tables are: the step without any."""
        question = self._question(NodesAndServers(nodes=nodes))
        shortest_us = max(constant_us(question, question.topology(with_servers=False)), question.cost_model.floor(question.model).time_us)
        return self._examples(question) * 1e6 / shortest_us

    def why_servers(self, nodes: int) -> str:
        """What asks for remote servers: memory where nothing fits without them, else time."""
        plan = answer(self._question(NodesAndServers(nodes=nodes)), Monitor().wanting(math.inf)) if self._near_tiers else None
        return "capacity" if plan is None or plan.status is PlanStatus.INFEASIBLE else "step time"

    def _cheapest_first(self) -> Iterator[NodesAndServers]:
        """Sizes that dense layers alone don't rule out, cheapest first; those that they do are impossible."""
        self.found |= {NodesAndServers(nodes=nodes): None for nodes in range(1, self._least_nodes)}
        counts = product(range(self._least_nodes, self.most_nodes + 1), self._server_counts)
        yield from sorted(
            (NodesAndServers(nodes=nodes, parameter_servers=servers) for nodes, servers in counts),
            key=lambda size: (self._price(size), size.parameter_servers),
        )

    @cached_property
    def _least_nodes(self) -> int:
        """The fewest nodes that dense layers alone don't rule out; one more than there may be where they rule out all."""
        return next((nodes for nodes in range(1, self.most_nodes + 1) if self.reaches(nodes) >= self.throughput), self.most_nodes + 1)

    def _with_fewest_servers(self, nodes: int, below: int) -> Plan | None:
        """By halving: a server that holds nothing slows no step, so more servers never make a job too slow."""

        def planned(servers: int) -> Plan | None:
            return self._planned(NodesAndServers(nodes=nodes, parameter_servers=servers))

        low, high = self._server_counts[0], below - 1
        if low > high:
            return None
        if (plan := planned(low)) is not None or low == high or (plan := planned(high)) is None:
            return plan
        while high - low > 1:
            middle = (low + high) // 2
            fewer = planned(middle)
            low, high, plan = (middle, high, plan) if fewer is None else (low, middle, fewer)
        return plan

    @property
    def _server_counts(self) -> range:
        remote, allowed = self.host.remote_servers, self.setting.options.allows(Tier.REMOTE)
        return range(0 if self._near_tiers else 1, 1 + (remote.count if remote is not None and allowed else 0))

    @property
    def _near_tiers(self) -> tuple[Tier, ...]:
        return tuple(tier for tier in allowed_tiers(self.host, self.setting.options.tiers) if tier is not Tier.REMOTE)

    def _price(self, size: NodesAndServers) -> float:
        return self.prices.of_job(size.nodes, size.parameter_servers)

    def _planned(self, size: NodesAndServers) -> Plan | None:
        """The best plan of a job that is fast enough; notes the size where there is none."""
        if size in self.found:
            return self.found[size]
        if self._server_counts[-1] and self._is_ruled_out(size.nodes):
            self.found[size] = None
            return None
        question = self._question(size)
        enough_us = self._enough_us(question)
        plan = self._answered(question, enough_us)
        if plan.step_time_us is not None and plan.step_time_us <= enough_us:
            self.found[size] = best_of(question, plan)
            return self.found[size]
        if self._is_proven_slow(plan, enough_us):
            self.found[size] = None
        else:
            self.undecided[size] = None
        return None

    def _answered(self, question: Question, enough_us: float) -> Plan:
        """The first plan that is fast enough, or the proof that there is none."""
        self.solves += 1
        return answer(question, Monitor().wanting(enough_us))

    @staticmethod
    def _is_proven_slow(plan: Plan, enough_us: float) -> bool:
        return plan.status is PlanStatus.INFEASIBLE or (plan.lower_bound_us or 0.0) > enough_us

    def _is_ruled_out(self, nodes: int) -> bool:
        """Whether so many nodes are proven too few with any number of servers, by a bound with every one that there is: one that holds
        nothing costs the others nothing."""
        if nodes not in self._ruled_out:
            question = self._question(NodesAndServers(nodes=nodes, parameter_servers=self._server_counts[-1]))
            enough_us = self._enough_us(question)
            self._ruled_out[nodes] = self._is_proven_slow(self._answered(question, enough_us), enough_us)
        return self._ruled_out[nodes]

    def _any_larger(self, nodes: int) -> tuple[float, Plan] | None:
        """(price, plan) of some job without servers: twice as many nodes each time, then between the last two."""
        low, high = nodes, min(2 * nodes, self.most_nodes)
        while (plan := self._planned(NodesAndServers(nodes=high))) is None:
            if high == self.most_nodes:
                return None
            low, high = high, min(2 * high, self.most_nodes)
        while high - low > 1:
            middle = (low + high) // 2
            smaller = self._planned(NodesAndServers(nodes=middle))
            low, high, plan = (middle, high, plan) if smaller is None else (low, middle, smaller)
        return self._price(NodesAndServers(nodes=high)), plan

    def _question(self, size: NodesAndServers) -> Question:
        host, options = self.host, self.setting.options
        update: dict[str, object] = {"nodes": size.nodes}
        if host.remote_servers is not None:
            if size.parameter_servers:
                remote = host.remote_servers.model_copy(update={"count": size.parameter_servers})
                host = host.model_copy(update={"remote_servers": remote})
            else:
                update["tiers"] = self._near_tiers
        asked = replace(self.setting, options=options.model_copy(update=update))
        return asked.question(host)

    def _enough_us(self, question: Question) -> float:
        """The longest step that is fast enough."""
        return self._examples(question) * 1e6 / self.throughput

    def _examples(self, question: Question) -> int:
        return question.model.local_batch_size * len(question.topology(with_servers=False).trainers)
