"""Clients of the service's benchmark: in a closed loop, by chance, and many at once. Each is told how long it waited, and for what."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

Request = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
_TIMEOUT_S = 60.0


@dataclass
class Answers:
    """Seconds and status of each request; status 0 is no answer."""

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        ordered = sorted(self.seconds)
        return {
            "requests": len(ordered),
            "p50_ms": 1000 * ordered[len(ordered) // 2],
            "p99_ms": 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
            "longest_ms": 1000 * ordered[-1],
            "errors": sum(not 200 <= status < 400 for status in self.statuses),
            "of_500_and_over": sum(status >= 500 or not status for status in self.statuses),
        }


def small_question(seed: int, tables: int = 3, **options: Any) -> dict[str, Any]:
    """Questions of different seeds share no plan."""
    model = {
        "schema_version": 1,
        "name": f"load-{tables}",
        "local_batch_size": 64,
        "dense_features": 4,
        "bottom_mlp": [16, 8],
        "top_mlp": [16, 1],
        "interaction": "cat",
        "tables": [
            {
                "name": f"table_{index}",
                "num_embeddings": 1000 * (index + 1),
                "embedding_dim": 8,
                "features": [{"name": f"feature_{index}", "length": {"fixed": index % 3 + 1}}],
            }
            for index in range(tables)
        ],
    }
    return {"model": model, "host": "cpu-dual-socket", "options": {"work_limit": 2.0, "seed": seed} | options}


def opened(url: str, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, limits=limits)


async def closed_loop(client: httpx.AsyncClient, clients: int, requests: Iterator[Request]) -> tuple[Answers, float]:
    """So many clients, each of which asks again once it is answered; the answers, and seconds in all."""
    answers, started = Answers(), time.monotonic()

    async def one() -> None:
        for request in requests:
            await _timed(client, request, answers, time.monotonic())

    await asyncio.gather(*(one() for _ in range(clients)))
    return answers, time.monotonic() - started


async def by_chance(client: httpx.AsyncClient, per_second: float, requests: Iterator[Request]) -> Answers:
    """Requests that come at random times (Poisson), whether or not those before are answered."""
    answers, chance, due, tasks = Answers(), random.Random(1), time.monotonic(), []
    for request in requests:
        due += chance.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(_timed(client, request, answers, due)))
    await asyncio.gather(*tasks)
    return answers


async def _timed(client: httpx.AsyncClient, request: Request, answers: Answers, since: float) -> None:
    try:
        status = (await request(client)).status_code
    except httpx.HTTPError:
        status = 0
    answers.seconds.append(time.monotonic() - since)
    answers.statuses.append(status)
