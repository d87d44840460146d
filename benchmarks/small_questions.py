"""Random questions that are small enough to enumerate every placement of: two to five tables on two or three devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.device_prices import device_prices
from emplace.placement.cost_model import CostModel
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec, ShardingType
from emplace.placement.plan import PlanOptions, Question

CLASSES = ("one node", "two nodes", "two kinds", "servers", "cpu")
CPU_LOOKUPS = "cpu lookups"
"""The class of every third question that would be of servers: those are the CPUs of the node."""
_RESERVE = "1024B"
_OWN_BYTES = 4_000_000
"""About what a rank holds beside its shards."""
_OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "adam")


def small_question(seed: int, number: int, work_limit: float) -> tuple[str, Question]:
    """The class and the question of this number; the same whatever others are asked for."""
    rng = np.random.default_rng([seed, number])
    name = CLASSES[number % len(CLASSES)]
    if name == "servers" and number // len(CLASSES) % 3 == 2:
        name = CPU_LOOKUPS
    ranks = 2 if name in ("two nodes", "servers", CPU_LOOKUPS) else int(rng.choice([2, 2, 3]))
    tables = [_table(rng, index, ranks) for index in range(int(rng.integers(2, 6 if ranks == 2 else 4)))]
    model = {
        "schema_version": 1,
        "name": f"q{number}",
        "local_batch_size": int(rng.choice([16, 64, 256, 1024])),
        "dense_features": 13,
        "bottom_mlp": [32],
        "top_mlp": [32, 1],
        "interaction": "cat",
        "optimizer": str(rng.choice(_OPTIMIZERS)),
        "tables": tables,
    }
    _constrain(rng, model, ranks)
    _leave_unpooled(np.random.default_rng([seed, number, 1]), np.random.default_rng([seed, number, 3]), model)
    _order_ids(np.random.default_rng([seed, number, 2]), model)
    table_bytes = sum(table["num_embeddings"] * table["embedding_dim"] * 4 for table in tables)
    host = HostSpec.model_validate(_with_more(np.random.default_rng([seed, number, 2]), _host(rng, name, number, ranks, table_bytes)))
    cost_model = _uneven(rng, device_prices(host)) if rng.random() < 0.3 else device_prices(host)
    options = PlanOptions.model_validate(_options(rng, name, work_limit))
    return name, Question(model=ModelSpec.model_validate(model), host=host, cost_model=cost_model, options=options)


def _table(rng: np.random.Generator, index: int, ranks: int) -> dict[str, Any]:
    mean = round(float(np.exp(rng.uniform(-0.5, 3.7))), 2)
    lengths: list[dict[str, Any]] = [{"fixed": max(1, int(mean))}, {"poisson": mean}, {"lognormal": {"mean": mean, "sigma": 0.8}}]
    widths, shares = ([8, 16, 20, 32, 36, 64, 128], [3, 4, 2, 4, 2, 1, 1]) if ranks == 2 else ([8, 12, 16, 20, 32, 64], [3, 2, 4, 2, 3, 1])
    zipf = {"zipf": round(float(rng.uniform(0.6, 1.4)), 2)}
    return {
        "name": f"t{index}",
        "num_embeddings": int(np.exp(rng.uniform(np.log(3) if rng.random() < 0.15 else 5, 12))),
        "embedding_dim": int(rng.choice(widths, p=np.array(shares) / sum(shares))),
        "data_type": str(rng.choice(["fp32", "fp16", "int8"], p=[0.8, 0.12, 0.08])),
        "features": [{"name": f"f{index}", "length": lengths[int(rng.integers(3))]}],
        "access": "uniform" if rng.random() < 0.5 else zipf,
    }


def _constrain(rng: np.random.Generator, model: dict[str, Any], ranks: int) -> None:
    """Some tables are pinned or limited, some kept together or apart."""
    tables = model["tables"]
    names = [table["name"] for table in tables]
    groups = rng.random()
    together = list(rng.choice(names, 2, replace=False)) if groups < 0.12 else []
    if together:
        model["together"] = [together]
    elif groups < 0.24:
        model["apart"] = [list(rng.choice(names, 2, replace=False))]
    for table in tables:
        draw = rng.random()
        if table["name"] in together:
            continue
        if draw < 0.06:
            pieces = min(ranks, table["embedding_dim"] // 4, int(rng.integers(1, ranks + 1)))
            kind = "table_wise" if pieces == 1 else "column_wise"
            table["constraints"] = {"pin": {"sharding_type": kind, "ranks": [int(rank) for rank in rng.permutation(ranks)[:pieces]]}}
        elif draw < 0.14:
            kinds = [str(kind) for kind in rng.choice(list(ShardingType), int(rng.integers(1, 4)), replace=False)]
            table["constraints"] = {"sharding_types": kinds}
        elif draw < 0.2:
            table["constraints"] = {"ranks": sorted(int(rank) for rank in rng.permutation(ranks)[: int(rng.integers(1, ranks + 1))])}


def _leave_unpooled(rng: np.random.Generator, more: np.random.Generator, model: dict[str, Any]) -> None:
    """In one model of four, some of the tables that nothing is asked of are sequences, each in a module of its own."""
    grouped = {name for key in ("together", "apart") for group in model.get(key, []) for name in group}
    free = [table for table in model["tables"] if "constraints" not in table and table["name"] not in grouped]
    chosen = [table for table in free if rng.random() < 0.6] if rng.random() < 0.25 else []
    if not chosen:
        return
    model["modules"] = []
    for table in chosen:
        table["module"] = f"ec.{table['name']}"
        flags = {key: bool(rng.random() < 0.3) for key in ("weighted", "index_dedup")}
        output = str(rng.choice(["fp32", "fp16"]))
        cut = {"column_width": table["embedding_dim"] // pieces} if (pieces := _equal_pieces(more, table["embedding_dim"])) else {}
        model["modules"].append({"path": table["module"], "pooling": "none", "output_data_type": output} | flags | cut)
    pooled = [table for table in model["tables"] if table not in chosen]
    for table in pooled:
        table["module"] = "ebc"
    model["modules"] += [{"path": "ebc"}] if pooled else []


def _equal_pieces(rng: np.random.Generator, columns: int) -> int | None:
    """For half of the tables that can be cut so: into how many pieces of one width."""
    counts = [count for count in (2, 3, 4) if columns % (4 * count) == 0]
    return int(rng.choice(counts)) if counts and rng.random() < 0.5 else None


def _order_ids(rng: np.random.Generator, model: dict[str, Any]) -> None:
    """In one model of three, hot rows of some tables lie together; half of those are row splits or nothing."""
    is_skewed = rng.random() < 1 / 3
    for table in model["tables"] if is_skewed else ():
        draw = rng.random()
        if draw < 0.4:
            table["ids"] = "by_frequency"
        elif draw < 0.7:
            shares = rng.dirichlet(np.full(int(rng.integers(2, 9)), 0.5))
            table["ids"] = {"measured": [float(share) for share in shares]}
        if "ids" in table and "constraints" not in table and rng.random() < 0.5 and not _is_grouped(model, table["name"]):
            table["constraints"] = {"sharding_types": ["row_wise", "table_row_wise"]}


def _is_grouped(model: dict[str, Any], name: str) -> bool:
    return any(name in group for key in ("together", "apart") for group in model.get(key, []))


def _host(rng: np.random.Generator, name: str, number: int, ranks: int, table_bytes: int) -> dict[str, Any]:
    """Memory of about what the tables need: sometimes plenty, sometimes too little."""
    share = table_bytes / ranks * float(rng.choice([0.6, 0.9, 1.1, 1.4, 2.0, 5.0]))
    device: dict[str, Any] = {
        "kind": "gpu",
        "type": "cuda",
        "count": ranks,
        "hbm_capacity": f"{int(_OWN_BYTES + share)}B",
        "hbm_reserve": _RESERVE,
        "memory_bandwidth": "900GB/s",
        "system_link": str(rng.choice(["4GB/s", "16GB/s", "60GB/s"])),
        "fp32_flops": "10TFLOP/s",
    }
    devices, ddr = [device], int(table_bytes * float(rng.choice([0.01, 0.5, 1.2, 2.0]))) + 1_000_000
    if name == "two nodes":
        device["count"] = 1
    elif name == "two kinds":
        other = {"kind": "gpu2", "hbm_capacity": f"{int(_OWN_BYTES + share / 2)}B", "memory_bandwidth": "400GB/s", "count": 1}
        devices = [device | {"count": ranks - 1}, device | other]
    elif name == "cpu":
        devices = [{"kind": "cpu", "type": "cpu", "count": ranks, "memory_bandwidth": "50GB/s", "fp32_flops": "1TFLOP/s"}]
        ddr = ranks * _OWN_BYTES + int(table_bytes * float(rng.choice([1.0, 1.5, 3.0])))
    host: dict[str, Any] = {
        "schema_version": 1,
        "name": f"h{number}",
        "nodes": 2 if name == "two nodes" else 1,
        "node": {
            "devices": devices,
            "ddr_capacity": f"{ddr}B",
            "ddr_reserve": _RESERVE,
            "intra_node_link": str(rng.choice(["10GB/s", "100GB/s"])),
            "network": "100Gbit/s",
        },
    }
    if name == CPU_LOOKUPS:
        host["node"] |= {"cores": int(rng.choice([2, 40])), "ddr_bandwidth": str(rng.choice(["20GB/s", "200GB/s"]))}
        host["node"]["ddr_capacity"] = f"{_OWN_BYTES + int(table_bytes * float(rng.choice([0.3, 0.6, 1.2, 2.0])))}B"
    if name == "servers":
        host["remote_servers"] = {
            "count": int(rng.integers(1, 3)),
            "kind": "ps",
            "ddr_capacity": f"{int(_OWN_BYTES + share)}B",
            "ddr_reserve": _RESERVE,
            "memory_bandwidth": "100GB/s",
            "network": "25Gbit/s",
            "fp32_flops": "1TFLOP/s",
        }
    return host


def _with_more(rng: np.random.Generator, host: dict[str, Any]) -> dict[str, Any]:
    """Some hosts with remote servers say how many cores either end has, few or many. Some hosts have dense servers."""
    for part in (host["remote_servers"], host["node"]) if "remote_servers" in host else ():
        if rng.random() < 0.6:
            part["cores"] = int(rng.choice([1, 4, 40]))
    if rng.random() < 0.2:
        rates = {"memory_bandwidth": "100GB/s", "network": "25Gbit/s"}
        host["dense_servers"] = {"count": int(rng.choice([1, 4])), "every": int(rng.choice([1, 8]))} | rates
    return host


def _uneven(rng: np.random.Generator, cost: CostModel) -> CostModel:
    """A cost model as profiles fit them: lookups cost more than their bytes, and sharding types have prices of their own."""

    def drawn(lookup: Any) -> Any:
        more = {
            "per_lookup_us": float(rng.uniform(0, 1e-3)),
            "per_unique_row_us": float(rng.uniform(0, 1e-3)),
            "per_unique_line_us": float(rng.uniform(0, 1e-3)),
            "per_overflow_byte_us": lookup.per_lookup_byte_us,
            "per_page_us": float(rng.uniform(0, 1e-3)),
            "per_row_digit_us": float(rng.uniform(0, 1e-3)),
            "per_uneven_bag_us": float(rng.uniform(0, 1e-3)),
            "cache_bytes": int(np.exp(rng.uniform(10, 16))),
        }
        return lookup.model_copy(update={key: value for key, value in more.items() if rng.random() < 0.6 or key == "cache_bytes"})

    kernels = (each.model_copy(update={"forward": drawn(each.forward), "backward": drawn(each.backward)}) for each in cost.kernels)
    types = {kind: round(float(rng.uniform(0, 40)), 3) for kind in ShardingType}
    slower = cost.all_to_all.model_copy(update={"per_inter_node_byte_us": cost.all_to_all.per_inter_node_byte_us * 1.7})
    return cost.model_copy(
        update={
            "kernels": tuple(kernels),
            "sharding_type_us": types,
            "all_to_all": slower,
            "per_permuted_vector_us": float(rng.uniform(0, 1e-3)),
            "per_bucketed_id_us": float(rng.uniform(0, 1e-3)),
            "per_exchanged_bag_us": float(rng.uniform(0, 1e-3)),
            "ranks_per_core": float(rng.choice([1.0, 1.0, 1.0, 1.5])),
        }
    )


def _options(rng: np.random.Generator, name: str, work_limit: float) -> dict[str, Any]:
    tiers: list[list[str]] = [["ddr"]] if name == "cpu" else [["hbm"], ["hbm"], ["ddr"], ["hbm", "ddr"]]
    if name == "servers":
        tiers = [["remote"], ["hbm", "remote"], ["hbm", "ddr", "remote"]]
    elif name == CPU_LOOKUPS:
        tiers = [["cpu"], ["hbm", "cpu"], ["hbm", "cpu"]]
    return {
        "work_limit": work_limit,
        "tiers": tiers[int(rng.integers(len(tiers)))],
        "gap": float(rng.choice([0.0, 0.001, 0.001, 0.05])),
        "objective": str(rng.choice(["mean", "mean", "p95"])),
        "seed": int(rng.integers(100)),
    }
