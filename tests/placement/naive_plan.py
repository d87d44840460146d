"""Valid plans of every sharding type, made in the plainest way: tables take turns over the ranks. No solver code.

The loads that a plan states are worked out here again, one shard and one rank at a time, with scalars: what the audit
derives with arrays must agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from emplace.placement.cost_model import CostModel
from emplace.placement.dense_part import dense_part
from emplace.placement.host import DeviceType, HostSpec
from emplace.placement.memory import beside_sequences_bytes, gradient_bytes, rank_bytes, row_bytes, shard_bytes
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType, Table, Tier
from emplace.placement.plan import (
    CostModelReference,
    LimitKind,
    ModelReference,
    NodeLoad,
    Plan,
    PlanOptions,
    PlanStatus,
    Question,
    RankLoad,
    Shard,
    SolverRecord,
    StoppedBy,
    TablePlacement,
)
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import Stage, rank_stages_us, shard_stages_us, sharding_type_stages_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import TableLoad, model_loads, shard_workload
from tests.prices import bandwidth_prices

Choice = tuple[ShardingType, ComputeKernel, float | None]
Box = tuple[int, tuple[int, int], tuple[int, int]]
"""Rank, rows, columns."""
Group = tuple[int, ShardingType]
"""What is sent together: vectors of a module, by its number, of one sharding type."""
Passing = dict[str, list[int]]
"""Bytes that each rank's shards hold for a part of the step only."""


def naive_plan(
    model: ModelSpec,
    host: HostSpec,
    choices: Sequence[Choice],
    options: PlanOptions | None = None,
    *,
    cost_model: CostModel | None = None,
    with_servers: bool = False,
) -> Plan:
    """A plan with `choices[i]` for the model's table i: on servers where the job has them, else on trainers."""
    options = options or PlanOptions()
    question = Question(model=model, host=host, cost_model=cost_model or bandwidth_prices(host), options=options)
    topology = options.topology(host, with_servers=with_servers)
    loads = model_loads(model, topology, options.objective)
    placements, stages = [], [_base(question, topology, rank) for rank in topology.ranks]
    hbm, ddr = ([0] * len(topology.ranks) for _ in range(2))
    arrived = _arrived(model, loads, choices)
    in_rows = [not load.is_pooled and choice[0] is ShardingType.ROW_WISE for load, choice in zip(loads, choices, strict=True)]
    placed = 16 * sum(int(load.local_batch_ids) for load, is_placed in zip(loads, in_rows, strict=True) if is_placed)
    groups: dict[Group, Passing] = {group: _nothing(topology) for group in arrived}
    arriving = [_base_arriving(question, topology)] * len(topology.trainers)
    for rank in topology.ranks:
        own = rank_bytes(model, loads, is_server=rank.is_server, on_cuda=rank.type is DeviceType.CUDA)
        (hbm if rank.type is DeviceType.CUDA else ddr)[rank.rank] += own
    for turn, (table, load, choice) in enumerate(zip(model.tables, loads, choices, strict=True)):
        shards = []
        for number, rows, columns in boxes(table, choice[0], topology, turn, on_server=with_servers):
            rank = topology.ranks[number]
            shard_hbm, shard_ddr, times = _price(question, table, load, choice, rank, rows, columns, topology)
            _arrive(arriving, question, table, load, choice[0], rank, rows, columns, topology)
            shards.append(Shard(rank=number, rows=rows, columns=columns, hbm_bytes=shard_hbm, ddr_bytes=shard_ddr))
            hbm[number] += shard_hbm
            ddr[number] += shard_ddr
            of_group = groups[_module(model, table), choice[0]]
            for name, held in _passing(load, choice, table, rank, rows, columns, topology).items():
                of_group[name][number] += held
            for stage, time_us in times.items():
                stages[number][stage] += time_us
            if rank.is_server:
                _serve(stages[: len(topology.trainers)], question, load, columns[1] - columns[0], rank.serves)
        placements.append(
            TablePlacement(
                name=table.name, sharding_type=choice[0], compute_kernel=choice[1], cache_load_factor=choice[2], shards=tuple(shards)
            )
        )
    for kind in {placement.sharding_type for placement in placements}:
        for stage, time_us in sharding_type_stages_us(question.cost_model, kind, topology).items():
            for of_rank in stages:
                of_rank[stage] += time_us
    peaks = [
        held + (_moment(groups, arrived, placed, rank.rank, model, loads) if any(arrived.values()) and _is_cpu_trainer(rank) else 0)
        for rank, held in zip(topology.ranks, ddr, strict=True)
    ]
    return _plan(question, topology, tuple(placements), stages, arriving, hbm, ddr, peaks)


def boxes(table: Table, kind: ShardingType, topology: Topology, turn: int, *, on_server: bool = False) -> list[Box]:
    """Where each shard of a table goes when it is the table's turn."""
    ranks = topology.servers if on_server else topology.trainers
    rows, columns = (0, table.num_embeddings), (0, table.embedding_dim)
    local = topology.trainers_per_node
    node = turn % topology.trainer_nodes
    of_node = [rank.rank for rank in topology.trainers if rank.node == node]
    match kind:
        case ShardingType.TABLE_WISE:
            return [(ranks[turn % len(ranks)].rank, rows, columns)]
        case ShardingType.DATA_PARALLEL:
            return [(rank.rank, rows, columns) for rank in ranks]
        case ShardingType.COLUMN_WISE:
            pieces = column_pieces(table.embedding_dim, min(3, len(ranks)))
            return [(ranks[(turn + index) % len(ranks)].rank, rows, piece) for index, piece in enumerate(pieces)]
        case ShardingType.TABLE_COLUMN_WISE:
            return [(rank, rows, piece) for rank, piece in zip(of_node, column_pieces(table.embedding_dim, local), strict=False)]
        case ShardingType.ROW_WISE:
            return [(rank.rank, block, columns) for rank, block in zip(ranks, row_blocks(table.num_embeddings, len(ranks)), strict=True)]
        case ShardingType.TABLE_ROW_WISE:
            return [(rank, block, columns) for rank, block in zip(of_node, row_blocks(table.num_embeddings, local), strict=True)]
        case ShardingType.GRID_SHARD:
            blocks = row_blocks(table.num_embeddings, local)
            return [
                (piece_node * local + index, block, piece)
                for piece_node, piece in enumerate(column_pieces(table.embedding_dim, topology.trainer_nodes))
                for index, block in enumerate(blocks)
            ]


def row_blocks(rows: int, count: int) -> list[tuple[int, int]]:
    """TorchRec's blocks: 10 rows over 4 ranks are 3, 3, 3 and 1."""
    block = -(-rows // count)
    return [(min(index * block, rows), min((index + 1) * block, rows)) for index in range(count)]


def column_pieces(columns: int, count: int) -> list[tuple[int, int]]:
    """At most `count` pieces, each a multiple of 4 columns wide."""
    width = 4 * -(-columns // (4 * count))
    return [(start, min(start + width, columns)) for start in range(0, columns, width)]


def _base(question: Question, topology: Topology, rank: Rank) -> dict[Stage, float]:
    base = dict.fromkeys(Stage, 0.0) | rank_stages_us(question.cost_model, question.model, topology)
    return base | {Stage.DENSE: 0.0} if rank.is_server else base


def _is_cpu_trainer(rank: Rank) -> bool:
    return not rank.is_server and rank.type is not DeviceType.CUDA


def _arrived(model: ModelSpec, loads: list[TableLoad], choices: Sequence[Choice]) -> dict[Group, int]:
    """Bytes of a trainer's own sequences, by group, in the order of modules."""
    arrived: dict[Group, int] = {}
    for module in range(len(model.modules or ("one",))):
        for table, load, choice in zip(model.tables, loads, choices, strict=True):
            if _module(model, table) == module:
                group = module, choice[0]
                own = 0 if load.is_pooled else int(load.local_batch_ids * table.embedding_dim * load.value_bytes)
                arrived[group] = arrived.get(group, 0) + own
    return arrived


def _module(model: ModelSpec, table: Table) -> int:
    """The number of its module."""
    modules = model.modules or ()
    return next(number for number, module in enumerate(modules) if module.path == table.module) if len(modules) > 1 else 0


def _nothing(topology: Topology) -> Passing:
    return {name: [0] * len(topology.ranks) for name in ("vectors", "copies", "ids", "rows")}


def _passing(
    load: TableLoad, choice: Choice, table: Table, rank: Rank, rows: tuple[int, int], columns: tuple[int, int], topology: Topology
) -> dict[str, int]:
    """Bytes that a shard holds for a part of the step only."""
    kind, kernel, _ = choice
    share, width = load.row_share(rows[0], rows[1] - rows[0], table.num_embeddings), columns[1] - columns[0]
    peak = shard_workload(load, kind, share, width, topology, on_server=rank.is_server).peak
    vectors, copies = int(peak.vectors * width * peak.value_bytes), int(peak.vectors * width * peak.copied_bytes)
    if kernel is ComputeKernel.DENSE:
        return {"vectors": vectors + (rows[1] - rows[0]) * int(row_bytes(table.data_type, width))}
    ids = 0 if load.is_pooled or kind is ShardingType.ROW_WISE else int(peak.ids) * int(peak.id_bytes)
    return {"vectors": vectors, "copies": copies, "ids": ids, "rows": int(gradient_bytes(peak, width))}


def _moment(
    groups: dict[Group, Passing], arrived: dict[Group, int], placed: int, rank: int, model: ModelSpec, loads: list[TableLoad]
) -> int:
    """What a rank holds at its fullest moment beyond all that its shards ever hold; `placed` bytes are for its own ids where rows are split."""
    vectors, copies, ids, rows = ([passing[name][rank] for passing in groups.values()] for name in ("vectors", "copies", "ids", "rows"))
    modules, own = [module for module, _ in groups], [*arrived.values()]
    beside = beside_sequences_bytes(model, loads) + placed
    moments = []
    came = 0
    for n in range(len(own)):
        is_first = n == 0 or modules[n - 1] != modules[n]
        came = sum(own[:n]) if is_first else min(sum(own[:n]), came + vectors[n])
        moments.append(sum(ids) + (0 if is_first else vectors[n - 1]) + sum(copies[:n]) + vectors[n] + came)
        came = min(sum(own[:n]), came + copies[n])
        moments.append(sum(ids) + sum(copies[:n]) + vectors[n] + copies[n] + came)
    came = 0
    for n in reversed(range(len(own))):
        came = min(sum(copies[n + 1 :]), came + own[n] // 2)
        moments.append(beside + sum(own) + own[n] + came)
        moments.append(sum(own[: n + 1]) + sum(copies[: n + 1]))
        moments += [sum(own[:n]) + sum(copies[:n]) + copies[n] + more for more in (copies[n], rows[n])]
    return max(moments) - sum(vectors) - sum(copies) - sum(rows)


def _price(
    question: Question,
    table: Table,
    load: TableLoad,
    choice: Choice,
    rank: Rank,
    rows: tuple[int, int],
    columns: tuple[int, int],
    topology: Topology,
) -> tuple[int, int, dict[Stage, float]]:
    kind, kernel, factor = choice
    num_rows, width = rows[1] - rows[0], columns[1] - columns[0]
    share = load.row_share(rows[0], num_rows, table.num_embeddings)
    work = shard_workload(load, kind, share, width, topology, on_server=rank.is_server)
    hit_rate = 0.0 if factor is None else table.hit_rate(factor, rows[0], num_rows)
    sharding = TableSharding(kind, kernel, table.data_type, question.model.optimizer, factor or 0.0, hit_rate)
    shape = ShardShape(num_rows, width)
    hbm, ddr = shard_bytes(sharding, shape, work.peak, on_cuda=rank.type is DeviceType.CUDA)
    times = shard_stages_us(question.cost_model, rank.device, sharding, shape, work)
    return int(hbm), int(ddr), {stage: float(time_us) for stage, time_us in times.items()}


def _serve(trainers: list[dict[Stage, float]], question: Question, load: TableLoad, width: int, tier: Tier | None) -> None:
    """Add what a server's shard sends to each trainer and gets from it, on the trainer's share of its node's network, or of CPUs on its
    link to system memory."""
    cost, count = question.cost_model, len(trainers)
    per_byte_us = cost.all_to_all.per_device_link_byte_us if tier is Tier.CPU else cost.all_to_all.per_inter_node_byte_us
    assert per_byte_us is not None
    assert cost.id_exchange == cost.all_to_all
    message_us = 0.0
    if tier is Tier.REMOTE and (messages := cost.server_messages) is not None:
        message_us, per_byte_us = messages.per_trainer_message_us, per_byte_us + messages.per_trainer_byte_us
    ids_us = message_us + (load.global_lookups * 8 + load.global_bags * 8) / count * per_byte_us
    values = load.global_bags * width / count
    for stages in trainers:
        stages[Stage.INPUT_DIST] += ids_us
        stages[Stage.OUTPUT_DIST] += message_us + values * load.forward_bytes * per_byte_us
        stages[Stage.GRADIENT_DIST] += message_us + values * load.backward_bytes * per_byte_us


def _base_arriving(question: Question, topology: Topology) -> float:
    """What arrives of the dense layers' gradients on a trainer's share of its node's network."""
    nodes, per_byte_us = topology.trainer_nodes, question.cost_model.all_reduce.per_inter_node_byte_us
    return 2 * (nodes - 1) / nodes / topology.trainers_per_node * 4 * dense_part(question.model).parameters * per_byte_us


def _arrive(
    arriving: list[float],
    question: Question,
    table: Table,
    load: TableLoad,
    kind: ShardingType,
    rank: Rank,
    rows: tuple[int, int],
    columns: tuple[int, int],
    topology: Topology,
) -> None:
    """Ids and gradients to the shard, its vectors to their examples, a replica's gradients to all that hold one."""
    cost, num_rows, width = question.cost_model, rows[1] - rows[0], columns[1] - columns[0]
    per_byte_us, trainers = cost.all_to_all.per_inter_node_byte_us, range(len(topology.trainers))
    if rank.is_server:
        if rank.serves is Tier.REMOTE:
            for each in trainers:
                arriving[each] += load.global_bags * width * load.forward_bytes / len(trainers) * per_byte_us
        return
    if kind is ShardingType.DATA_PARALLEL:
        share = 2 * (topology.trainer_nodes - 1) / topology.trainer_nodes / topology.trainers_per_node
        arriving[rank.rank] += share * num_rows * float(row_bytes(table.data_type, width)) * cost.all_reduce.per_inter_node_byte_us
        return
    work = shard_workload(load, kind, load.row_share(rows[0], num_rows, table.num_embeddings), width, topology, on_server=False)
    arriving[rank.rank] += (
        float(work.input_bytes[1]) * cost.id_exchange.per_inter_node_byte_us + float(work.gradient_bytes[1]) * per_byte_us
    )
    for each in trainers:
        arriving[each] += float(work.output_bytes[1]) / len(trainers) * per_byte_us


def _fullest_wire(question: Question, topology: Topology, arriving: list[float]) -> float:
    cost, model, local = question.cost_model, question.model, topology.trainers_per_node
    if cost.ingest is None:
        return 0.0
    ids = sum(feature.lengths.mean for table in model.tables for feature in table.features)
    example = 8 * ids + 4 * model.num_features + 4 * (model.dense_features + 1)
    input_us = model.local_batch_size * example * cost.ingest.per_network_byte_us
    if not input_us:
        return 0.0
    nodes = [arriving[first : first + local] for first in range(0, len(arriving), local)]
    return input_us + max(sum(of_node) / local for of_node in nodes)


def _plan(
    question: Question,
    topology: Topology,
    tables: tuple[TablePlacement, ...],
    stages: list[dict[Stage, float]],
    arriving: list[float],
    hbm: list[int],
    ddr: list[int],
    peaks: list[int],
) -> Plan:
    cost, model = question.cost_model, question.model
    floor = max(0.0 if each is None else each.time_us(model) for each in (cost.launches, cost.ingest))
    step = max(
        floor,
        _fullest_wire(question, topology, arriving),
        question.cost_model.step_overhead_us + sum(max(rank[stage] for rank in stages) for stage in Stage),
    )
    bases = [_base(question, topology, rank) for rank in topology.ranks]
    base_arriving = [_base_arriving(question, topology)] * len(topology.trainers)
    nothing = max(
        floor,
        _fullest_wire(question, topology, base_arriving),
        question.cost_model.step_overhead_us + sum(max(base[stage] for base in bases) for stage in Stage),
    )
    bound = step / 2 if step > nothing else step
    totals = [sum(rank.values()) for rank in stages]
    of_trainers = totals[: len(topology.trainers)]
    node_ddr = [0] * len(topology.node_ddr_capacity_bytes)
    for rank in topology.ranks:
        node_ddr[rank.node] += ddr[rank.rank]
    return Plan(
        model=ModelReference(name=question.model.name, digest=question.model.content_digest()),
        host=ModelReference(name=question.host.name, digest=question.host.content_digest()),
        cost_model=CostModelReference(source=question.cost_model.source, digest=question.cost_model.content_digest()),
        status=PlanStatus.FEASIBLE,
        gap=1 - bound / step,
        placement_gap=(step - max(bound, nothing)) / (step - nothing) if step > nothing else 0.0,
        step_time_us=step,
        lower_bound_us=bound,
        throughput_samples_per_s=question.model.local_batch_size * len(topology.trainers) / step * 1e6,
        imbalance=max(of_trainers) * len(of_trainers) / sum(of_trainers),
        ranks=tuple(
            RankLoad(
                rank=rank.rank,
                node=rank.node,
                device=rank.device,
                is_server=rank.is_server,
                hbm_bytes=hbm[rank.rank],
                hbm_capacity_bytes=rank.hbm_capacity_bytes,
                ddr_bytes=peaks[rank.rank],
                step_time_us=totals[rank.rank],
                stages_us=stages[rank.rank],
            )
            for rank in topology.ranks
        ),
        nodes=tuple(
            NodeLoad(node=node, ddr_bytes=used, ddr_capacity_bytes=capacity)
            for node, (used, capacity) in enumerate(zip(node_ddr, topology.node_ddr_capacity_bytes, strict=True))
        ),
        tables=tables,
        solver=SolverRecord(
            seconds=0.0,
            seed=question.options.seed,
            limit=question.options.limits[LimitKind.WORK],
            limit_kind=LimitKind.WORK,
            stopped_by=StoppedBy.WORK,
            bound="half",
            version="naive",
        ),
        question=question,
    )
