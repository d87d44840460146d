"""Clients of the service's benchmark: in a closed loop, by chance, and many at once. Each is told how long it waited, and for what.

They speak HTTP over plain sockets: a whole client library would take more of the machine than the service that is measured.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Request:
    """One request, as it goes over the wire."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def wire(self) -> bytes:
        own = (("Host", "localhost"), ("Accept-Encoding", "gzip"), ("Content-Length", str(len(self.body))))
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in (*own, *self.headers))]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


def get(path: str, **headers: str) -> Request:
    return Request("GET", path, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


def post(path: str, body: dict[str, Any]) -> Request:
    return Request("POST", path, (("Content-Type", "application/json"),), json.dumps(body).encode())


class Connection:
    """One connection, opened anew when the other side has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> int:
        """The status of the answer, once all of it is there; 0 where there is none."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._ask(request)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.close()
            return 0

    async def _ask(self, request: Request) -> int:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request.wire())
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        await _pass_over_body(reader, headers)
        if headers.get("connection") == "close":
            self.close()
        return int(status.split()[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _pass_over_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
    """Read a body of a stated length, or in chunks."""
    if headers.get("transfer-encoding") != "chunked":
        await reader.readexactly(int(headers.get("content-length", 0)))
        return
    size_bytes = -1
    while size_bytes != 0:
        size_bytes = int(await reader.readuntil(b"\r\n"), 16)
        await reader.readexactly(size_bytes + 2)


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


async def closed_loop(port: int, clients: int, requests: Iterator[Request]) -> tuple[Answers, float]:
    """So many clients, each of which asks again once it is answered; the answers, and seconds in all."""
    answers, started = Answers(), time.monotonic()

    async def one() -> None:
        connection = Connection(port)
        for request in requests:
            await _timed(connection, request, answers, time.monotonic())
        connection.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return answers, time.monotonic() - started


async def by_chance(port: int, per_second: float, requests: Iterator[Request]) -> Answers:
    """Requests that come at random times (Poisson), whether or not those before are answered."""
    answers, chance, due, tasks = Answers(), random.Random(1), time.monotonic(), []
    free: list[Connection] = []

    async def one(request: Request, since: float) -> None:
        connection = free.pop() if free else Connection(port)
        await _timed(connection, request, answers, since)
        free.append(connection)

    for request in requests:
        due += chance.expovariate(per_second)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(one(request, due)))
    await asyncio.gather(*tasks)
    for connection in free:
        connection.close()
    return answers


async def _timed(connection: Connection, request: Request, answers: Answers, since: float) -> None:
    answers.statuses.append(await connection.ask(request))
    answers.seconds.append(time.monotonic() - since)
