"""Asynchronous training on CPUs, as the fleets of Acun et al. (HPCA 2021) ran it: what a round of one Hogwild thread asks of
each station.

Trainers with Hogwild threads each take a batch, fetch pooled vectors from sparse parameter servers, which look them up, and send
gradients back; every `tau` rounds a trainer averages its dense parameters with the dense parameter servers (EASGD). Nobody waits
for anybody but at stations: the processors and network of a trainer, those of a sparse server, the network of a dense server.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field

from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.dense_part import dense_part
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import BatchSize, ModelSpec, Tier
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.placement.stack import Pace
from emplace.placement.stages import Stage
from emplace.placement.sums import add_up
from emplace.placement.workload import ID_BYTES, LENGTH_BYTES, OUTPUT_BYTES
from emplace.studies.queueing import Flow, Network, Station, bounds, limiting, mean_values

TRAINER_CPU, TRAINER_NETWORK = "trainer_cpu", "trainer_network"
SPARSE_CPU, SPARSE_NETWORK, DENSE_NETWORK = "sparse_server_cpu", "sparse_server_network", "dense_server_network"


class Hogwild(Document):
    """How a trainer trains. Of these only the batch is published (Acun et al., HPCA 2021, doi 10.1109/HPCA51647.2021.00072)."""

    batch: BatchSize = 200
    """Examples of a thread's round."""
    threads: Annotated[int, Field(strict=True, ge=1, le=1024)] = 16
    """Hogwild threads of a trainer, each with a batch of its own."""
    tau: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 16
    """Rounds of a trainer between two averages of its dense parameters."""


class Counts(Document):
    """Servers of a fleet."""

    trainers: int
    sparse_servers: int
    dense_servers: int

    @property
    def servers(self) -> int:
        return self.trainers + self.sparse_servers + self.dense_servers


@dataclass(frozen=True)
class Demands:
    """Microseconds of one round at all servers of a kind together."""

    think_us: float
    """Calls of operators, which take a thread and few cores."""
    trainer_cpu_us: float
    trainer_network_us: float
    sparse_cpu_us: tuple[float, ...]
    """Microseconds of each sparse server, with tables placed on them."""
    sparse_network_us: tuple[float, ...]
    dense_network_us: float
    sockets: int

    def network(self, counts: Counts, hogwild: Hogwild) -> Network:
        """The fleet as a queueing network."""
        stations = [
            Station(TRAINER_CPU, self.trainer_cpu_us, counts.trainers * self.sockets),
            Station(TRAINER_NETWORK, self.trainer_network_us, counts.trainers),
            *(Station(SPARSE_CPU, demand_us) for demand_us in self.sparse_cpu_us),
            *(Station(SPARSE_NETWORK, demand_us) for demand_us in self.sparse_network_us),
            Station(DENSE_NETWORK, self.dense_network_us, counts.dense_servers),
        ]
        return Network(tuple(stations), self.think_us, counts.trainers * hogwild.threads)


@dataclass(frozen=True)
class Fleet:
    """A model trained asynchronously on servers such as a host's node and remote servers."""

    asked: ModelSpec
    host: HostSpec
    cost_model: CostModel
    hogwild: Hogwild

    @cached_property
    def model(self) -> ModelSpec:
        """With the batch of a thread's round."""
        return self.asked.model_copy(update={"local_batch_size": self.hogwild.batch})

    def placement_question(self, sparse_servers: int, options: PlanOptions) -> Question:
        """Where tables live on so many sparse servers, for one trainer whose batches they serve one after the other."""
        remote = self.host.remote_servers
        if remote is None:
            rule = "is needed: sparse parameter servers are such machines ('emplace hosts cpu-dual-socket' shows one)"
            raise InvalidDocument(f"host {self.host.name}", [BrokenRule("/remote_servers", "", rule)])
        host = self.host.model_copy(update={"remote_servers": remote.model_copy(update={"count": sparse_servers})})
        asked = options.model_copy(update={"nodes": 1, "ranks": 1, "tiers": (Tier.REMOTE,)})
        return Question(model=self.model, host=host, cost_model=self.cost_model, options=asked)

    def demands(self, placed: Plan, pace: Pace = Pace.TYPICAL) -> Demands:
        """What one round asks of each station with tables where the plan has them; at another pace than the typical one at the datasheet's prices."""
        cost = self.cost_model
        if pace is not Pace.TYPICAL:
            cost = datasheet_cost_model(self.host, cost.stack, pace)
        return _Round(self, cost, placed).demands()

    def calls_us(self, cost: CostModel) -> float:
        """Operators' calls of a round, which take a thread and few cores."""
        layers, part = cost.dense_cost(self._device), dense_part(self.model)
        by_size_us = len(part.layers) * layers.per_layer_us + self.model.num_features * layers.per_feature_us
        return layers.fixed_us + by_size_us

    def trainer_cpu_us(self, cost: CostModel) -> float:
        """What a round takes of one socket: the dense layers, and the optimizer's step of their parameters."""
        part, model = dense_part(self.model), self.model
        whole_us = cost.dense_cost(self._device).time_us(part, model.local_batch_size, model.num_features, model.dense_precision)
        updated_us = float(cost.update_us(model.optimizer.of_dense_layers, part.parameters * OUTPUT_BYTES))
        return whole_us - self.calls_us(cost) + updated_us

    def most(self, trainers: int) -> float:
        """Examples per second that no fleet of so many trainers exceeds: what their processors do."""
        return self.throughput(trainers * self.host.devices_per_node / self.trainer_cpu_us(self.cost_model))

    @property
    def _device(self) -> str:
        return self.host.node.devices[0].kind

    def flow(self, demands: Demands, counts: Counts) -> tuple[Network, Flow]:
        network = demands.network(counts, self.hogwild)
        return network, mean_values(network)

    def throughput(self, rounds_per_us: float) -> float:
        """Examples per second."""
        return rounds_per_us * 1e6 * self.model.local_batch_size


@dataclass
class _Sent:
    """What one server exchanges in a round."""

    shards: int = 0
    ids_bytes: float = 0.0
    """With their lengths."""
    vectors_bytes: float = 0.0
    """As many as their gradients."""

    @property
    def up_bytes(self) -> float:
        """In the direction that carries more, to the server: pooled vectors come back in the other one meanwhile."""
        return self.ids_bytes + self.vectors_bytes

    @property
    def handled_bytes(self) -> float:
        """In both directions: cores handle all of them."""
        return self.ids_bytes + 2 * self.vectors_bytes

    @property
    def messages(self) -> int:
        """Ids, vectors and gradients of each shard."""
        return 3 * self.shards


@dataclass(frozen=True)
class _Round:
    """What one batch of one thread asks for, at the prices of a cost model."""

    fleet: Fleet
    cost: CostModel
    placed: Plan

    def demands(self) -> Demands:
        sockets = self.fleet.host.devices_per_node
        averaged_bytes = dense_part(self.fleet.model).parameters * OUTPUT_BYTES / self.fleet.hogwild.tau
        of_node_us = self.cost.all_to_all.per_inter_node_byte_us / sockets
        of_server_us = self.cost.all_to_all.per_server_byte_us
        sent = self._sent
        return Demands(
            think_us=self.cost.step_overhead_us + self.fleet.calls_us(self.cost),
            trainer_cpu_us=self.fleet.trainer_cpu_us(self.cost) + self._trainer_messages_us(averaged_bytes),
            trainer_network_us=(add_up(each.up_bytes for each in sent.values()) + averaged_bytes) * of_node_us,
            sparse_cpu_us=tuple(time_us + self._server_messages_us(sent[rank]) for rank, time_us in self._lookups_us.items()),
            sparse_network_us=tuple(each.up_bytes * of_server_us for each in sent.values()),
            dense_network_us=averaged_bytes * of_server_us,
            sockets=sockets,
        )

    def _trainer_messages_us(self, averaged_bytes: float) -> float:
        """What messages take of one socket: those of all shards, and the dense layers to their servers and back."""
        if (cost := self.cost.server_messages) is None:
            return 0.0
        sent, averaged = self._sent.values(), len(dense_part(self.fleet.model).layers) / self.fleet.hogwild.tau
        handled_bytes = add_up(each.handled_bytes for each in sent) + 2 * averaged_bytes
        return float(cost.of_trainer_us(sum(each.messages for each in sent) + 2 * averaged, handled_bytes))

    def _server_messages_us(self, sent: _Sent) -> float:
        cost = self.cost.server_messages
        return 0.0 if cost is None else float(cost.of_server_us(sent.messages, sent.handled_bytes))

    @cached_property
    def _lookups_us(self) -> dict[int, float]:
        """By rank of the servers: lookups and updates of a batch."""
        from emplace.placement.derived_loads import STAGES, derive_loads

        question = self.placed.sized_question.model_copy(update={"cost_model": self.cost})
        loads = derive_loads(question, self.placed.tables, self.placed.topology())
        columns = [STAGES.index(stage) for stage in (Stage.LOOKUP_FORWARD, Stage.LOOKUP_BACKWARD)]
        return {rank.rank: float(loads.stages_us[rank.rank, columns].sum()) for rank in self.placed.ranks if rank.is_server}

    @cached_property
    def _sent(self) -> dict[int, _Sent]:
        """By rank of the servers: what a batch exchanges with each."""
        model, found = self.fleet.model, {rank: _Sent() for rank in self._lookups_us}
        tables = {table.name: table for table in model.tables}
        for placement in self.placed.tables:
            table = tables[placement.name]
            bags = model.local_batch_size * len(table.features)
            ids = model.local_batch_size * table.pooling_factor
            vectors = bags if model.module_of(table).is_pooled else ids
            for shard in placement.shards:
                of_server = found[shard.rank]
                of_server.shards += 1
                of_server.ids_bytes += ids * ID_BYTES + bags * LENGTH_BYTES
                of_server.vectors_bytes += vectors * (shard.columns[1] - shard.columns[0]) * OUTPUT_BYTES
        return found


def estimate(fleet: Fleet, placed: Plan, counts: Counts, pace: Pace = Pace.TYPICAL) -> tuple[float, tuple[float, float], str]:
    """(examples per second, at least and at most by bounds, the station that limits)."""
    network, flow = fleet.flow(fleet.demands(placed, pace), counts)
    least, most = bounds(network)
    return fleet.throughput(flow.rounds_per_us), (fleet.throughput(least), fleet.throughput(most)), limiting(network, flow).name
