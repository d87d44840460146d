"""The bodies that the OpenAPI page shows. A test posts each of them."""

from __future__ import annotations

from typing import Any

from emplace.placement.catalog import builtin_host
from emplace.placement.datasheet import datasheet_cost_model

_MODEL = {
    "schema_version": 1,
    "name": "my-model",
    "local_batch_size": 2048,
    "dense_features": 13,
    "bottom_mlp": [512, 128],
    "top_mlp": [512, 1],
    "interaction": "cat",
    "tables": [
        {
            "name": "user_id",
            "num_embeddings": 4_000_000,
            "embedding_dim": 128,
            "features": [{"name": "user", "length": {"fixed": 1}}],
        }
    ],
}
_BY_NAME = {"model": "criteo-kaggle", "host": "dgx-a100-80g"}


def plans() -> dict[str, Any]:
    return {
        "built-in": _BY_NAME | {"options": {"tiers": ["hbm"], "time_limit": 10}},
        "own model": {"model": _MODEL, "host": "cpu-dual-socket", "options": {"ranks": 2}},
    }


def checks() -> dict[str, Any]:
    budgets = {"max_step_time_us": 20_000, "min_throughput": 100_000}
    return {"fits": _BY_NAME, "budgets": _BY_NAME | {"budgets": budgets, "plan": True, "options": {"time_limit": 5}}}


def pipelines() -> dict[str, Any]:
    options = {"ranks": 1, "profile": {"max_age_days": 30, "quick": True}, "run": {"steps": 30}}
    emulated = {"run": {"steps": 10, "emulate": True}}
    return {"here": {"model": _MODEL, "host": "local", "options": options}, "emulated": _BY_NAME | {"options": emulated}}


def studies() -> dict[str, Any]:
    hosts = ["cpu-dual-socket", "big-basin-32g"]
    sweep = {"kind": "sweep", "model": "suite", "set": ["mlp=64^2"], "hosts": hosts, "vary": ["/sparse=4,8,16"]}
    size = {"kind": "size", "model": "criteo-kaggle", "hosts": hosts[1:], "throughput": "500k"}
    recommend = {"kind": "recommend", "model": _MODEL, "hosts": hosts, "objective": "throughput", "options": {"work_limit": 1}}
    curve = {"quality": "NE 0.78", "points": [{"global_batch": 2048, "examples": "4.1G"}, {"global_batch": 32768, "examples": "5.2G"}]}
    batch = {"kind": "batch", "model": "criteo-kaggle", "hosts": hosts[1:], "batches": [512, 1024, 2048], "curve": curve}
    return {"sweep": sweep, "size": size, "recommend": recommend, "batch": batch}


def runs() -> dict[str, Any]:
    return {"train": {"steps": 30, "seed": 0}, "emulate": {"steps": 10, "emulate": True}}


def profiles() -> dict[str, Any]:
    stored = datasheet_cost_model(builtin_host("cpu-dual-socket")).to_data()
    return {"measure": {"quick": True, "ranks": 1}, "store": {"cost_model": stored}}
