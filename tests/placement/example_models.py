"""Small models and hosts that the placement tests share."""

from __future__ import annotations

from typing import Any

from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec


def model_data(**changes: Any) -> dict[str, Any]:
    """A valid model document of three tables as plain data."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": "small",
        "local_batch_size": 64,
        "dense_features": 13,
        "bottom_mlp": [32, 16],
        "top_mlp": [32, 1],
        "interaction": "cat",
        "optimizer": "rowwise_adagrad",
        "tables": [
            {"name": "a", "num_embeddings": 1000, "embedding_dim": 16, "features": [{"name": "fa", "length": {"fixed": 2}}]},
            {
                "name": "b",
                "num_embeddings": 101,
                "embedding_dim": 64,
                "features": [
                    {"name": "fb1", "length": {"poisson": 3}},
                    {"name": "fb2", "length": {"lognormal": {"mean": 30, "sigma": 1.1}}, "truncate": 100},
                ],
                "access": {"zipf": 1.05},
            },
            {
                "name": "c",
                "num_embeddings": 50_000,
                "embedding_dim": 32,
                "data_type": "fp16",
                "features": [{"name": "fc", "length": {"histogram": {"lengths": [0, 1, 5], "weights": [0.2, 0.5, 0.3]}}}],
                "access": {"icdf": [[0.1, 0.7]]},
            },
        ],
    }
    return data | changes


def model(**changes: Any) -> ModelSpec:
    return ModelSpec.model_validate(model_data(**changes))


def gpu_host_data(**changes: Any) -> dict[str, Any]:
    """Two nodes of four GPUs, with two remote servers."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "name": "gpus",
        "nodes": 2,
        "node": {
            "devices": [
                {
                    "kind": "gpu",
                    "type": "cuda",
                    "count": 4,
                    "hbm_capacity": "1GiB",
                    "hbm_reserve": "100MiB",
                    "memory_bandwidth": "900GB/s",
                    "system_link": "16GB/s",
                    "fp32_flops": "15TFLOP/s",
                }
            ],
            "ddr_capacity": "4GiB",
            "ddr_reserve": "1GiB",
            "intra_node_link": "100GB/s",
            "network": "100Gbit/s",
        },
        "remote_servers": {
            "count": 2,
            "kind": "server",
            "ddr_capacity": "8GiB",
            "ddr_reserve": "1GiB",
            "memory_bandwidth": "100GB/s",
            "network": "25Gbit/s",
            "fp32_flops": "1TFLOP/s",
        },
    }
    return data | changes


def gpu_host(**changes: Any) -> HostSpec:
    return HostSpec.model_validate(gpu_host_data(**changes))
