"""Small questions that the solver tests share."""

from __future__ import annotations

from typing import Any

from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions, Question
from emplace.solver.solve import solve_question
from tests.prices import bandwidth_prices, device_prices


def table(name: str, rows: int, dim: int = 32, pooling: float = 4, **more: Any) -> dict[str, Any]:
    length = {"fixed": pooling} if isinstance(pooling, int) else {"poisson": pooling}
    return {
        "name": name,
        "num_embeddings": rows,
        "embedding_dim": dim,
        "features": [{"name": f"feature_{name}", "length": length}],
        **more,
    }


def gpu_host(
    gpus: int = 2, hbm: str = "64MiB", ddr: str = "1GiB", nodes: int = 1, servers: int = 0, other_kind: dict[str, Any] | None = None
) -> HostSpec:
    device = {
        "kind": "gpu",
        "type": "cuda",
        "count": gpus,
        "hbm_capacity": hbm,
        "hbm_reserve": "1MiB",
        "memory_bandwidth": "900GB/s",
        "system_link": "16GB/s",
        "fp32_flops": "15TFLOP/s",
    }
    remote = {
        "count": servers,
        "kind": "server",
        "ddr_capacity": "2GiB",
        "ddr_reserve": "1MiB",
        "memory_bandwidth": "100GB/s",
        "network": "25Gbit/s",
        "fp32_flops": "2TFLOP/s",
    }
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": "gpus",
        "nodes": nodes,
        "node": {
            "devices": [device, *([device | {"kind": "other"} | other_kind] if other_kind else [])],
            "ddr_capacity": ddr,
            "ddr_reserve": "1MiB",
            "intra_node_link": "100GB/s",
            "network": "100Gbit/s",
        },
    }
    return HostSpec.model_validate(data | ({"remote_servers": remote} if servers else {}))


def cpu_host(ranks: int = 2) -> HostSpec:
    device = {"kind": "cpu", "type": "cpu", "count": ranks, "memory_bandwidth": "50GB/s", "fp32_flops": "1TFLOP/s"}
    node = {"devices": [device], "ddr_capacity": "4GiB", "ddr_reserve": "1GiB", "intra_node_link": "20GB/s", "network": "25Gbit/s"}
    return HostSpec.model_validate({"schema_version": 1, "name": "cpus", "node": node})


def question(host: HostSpec, tables: list[dict[str, Any]], optimizer: str = "rowwise_adagrad", **options: Any) -> Question:
    model = ModelSpec.model_validate(
        {
            "schema_version": 1,
            "name": "small",
            "local_batch_size": 64,
            "dense_features": 8,
            "bottom_mlp": [16],
            "top_mlp": [16, 1],
            "interaction": "cat",
            "optimizer": optimizer,
            "tables": tables,
        }
    )
    asked = PlanOptions.model_validate({"gap": 0.0, "work_limit": 0.4} | options)
    return Question(model=model, host=host, cost_model=bandwidth_prices(host), options=asked)


def at_datasheet_prices(asked: Question) -> Question:
    """The question with prices that follow from the host's rates."""
    return asked.model_copy(update={"cost_model": device_prices(asked.host)})


_SOLVED: dict[str, Plan] = {}


def solved(asked: Question) -> Plan:
    """Its plan. Several tests ask for some; the same question has the same plan."""
    digest = asked.content_digest()
    if digest not in _SOLVED:
        _SOLVED[digest] = solve_question(asked)
    return _SOLVED[digest]
