"""The service under load and under fire: one command, one table.

    python -m benchmarks.service [--scale 1.0] [--database-url URL] [--only PART] [--out FILE]

Server, worker and clients share this machine. `--scale` shrinks the numbers of plans and requests; the clients stay as many. Parts:
accept, arrivals, drain, read, crowd, kills, stop. SQLite unless a URL of an empty PostgreSQL database is given.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.json_lines import emit
from benchmarks.markdown import beside_reach
from benchmarks.service_load import Request, by_chance, closed_loop, get, post, small_question
from benchmarks.service_process import ServedService

CLIENTS, CROWD = 50, 200
_DRAIN_S = 40.0
_seeds = itertools.count()

REACH = {
    "accept": "p99 <= 250 ms, 0 errors",
    "arrivals": "p99 <= 60 ms, 0 errors",
    "drain": ">= 4 a second on 2 cores",
    "read": "p99 <= 150 ms",
    "read, unchanged": "p99 <= 30 ms",
    "crowd": "none of 500 and over, longest <= 2 s",
    "kills": "0 lost, 0 stuck",
    "stop": "<= 5 s",
    "memory": "flat within 10%",
}


def accept(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    number = max(50, round(10_000 * scale))
    asyncio.run(_loop(service, CLIENTS, _asking(number // 5)))  # threads, connections and caches are there
    before = service.memory_bytes()
    answers, seconds = asyncio.run(_loop(service, CLIENTS, _asking(number)))
    yield {"part": "accept"} | answers | {"per_second": answers["requests"] / seconds}
    yield {"part": "memory", "plans": number, "before_mb": before / 1e6, "after_mb": service.memory_bytes() / 1e6}


def arrivals(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    answers = asyncio.run(by_chance(service.port, 50.0, _asking(max(50, round(3000 * scale)))))
    yield {"part": "arrivals"} | answers.figures()


def drain(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    """How fast plans that wait already are answered, with nothing else asked."""
    del scale
    with httpx.Client(base_url=service.url, timeout=60) as client:
        for _ in range(max(0, 400 - _count(client, "queued"))):
            client.post("/v1/plans", json=small_question(next(_seeds)))
        done, started = _count(client, "done"), time.monotonic()
        while _count(client, "queued") and time.monotonic() - started < _DRAIN_S:
            time.sleep(1.0)
        made, seconds = _count(client, "done") - done, time.monotonic() - started
        yield {"part": "drain", "plans": made, "per_second": made / seconds, "failed": _count(client, "failed")}


def read(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    with httpx.Client(base_url=service.url, timeout=120) as client:
        _empty_queue(client)
        asked = small_question(next(_seeds), tables=1000, work_limit=0.5)
        plan = client.post("/v1/plans", json=asked, headers={"Prefer": "wait=100"}).json()
        tag = client.get(f"/v1/plans/{plan['id']}").headers["etag"]
    assert plan["plan"] is not None, plan
    number = max(100, round(5000 * scale))
    for name, headers in (("read", {}), ("read, unchanged", {"If_None_Match": tag})):
        answers, seconds = asyncio.run(_loop(service, CLIENTS, iter([get(f"/v1/plans/{plan['id']}", **headers)] * number)))
        yield {"part": name} | answers | {"per_second": number / seconds}


def crowd(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    """Readers, writers, pages and probes, each on a connection of its own."""
    paths = ["/v1/plans?limit=20", "/", "/v1/models", "/v1/hosts", "/readyz", "/metrics", "/v1/profiles", "/openapi.json"]
    chosen = random.Random(2).choices([*map(get, paths), None], k=max(2 * CROWD, round(10_000 * scale)))
    mixed = (request if request is not None else _question() for request in chosen)
    answers, seconds = asyncio.run(_loop(service, CROWD, mixed))
    yield {"part": "crowd"} | answers | {"per_second": answers["requests"] / seconds}


def kills(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    """Jobs whose worker is killed every few seconds, and the service with it now and then."""
    with httpx.Client(base_url=service.url, timeout=60) as client:
        _empty_queue(client)
    number, killed, lost = max(20, round(1000 * scale)), 0, 0
    asked = [_id_of(service, small_question(next(_seeds))) for _ in range(number)]
    states: dict[str, int] = {}
    deadline, started = time.monotonic() + 60 + number, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(3.0)
        killed += 1
        if killed % 4:
            service.kill_worker()
        else:
            service.kill()
            service.start()
        with httpx.Client(base_url=service.url, timeout=60) as client:
            found = [client.get(f"/v1/plans/{each}") for each in asked]
        lost = sum(answer.status_code != httpx.codes.OK for answer in found)
        states = {}
        for answer in found:
            state = str(answer.json().get("state"))
            states[state] = states.get(state, 0) + 1
        if not {"queued", "running"} & set(states):
            break
    stuck = states.get("queued", 0) + states.get("running", 0)
    yield {"part": "kills", "jobs": number, "kills": killed, "lost": lost, "stuck": stuck, "seconds": time.monotonic() - started} | states


def stop(service: ServedService, scale: float) -> Iterator[dict[str, Any]]:
    """SIGTERM while a check is being solved."""
    del scale
    told: list[int] = []

    def check() -> None:
        body = {"model": "dlrm-dcnv2", "host": "dgx-h100", "options": {"time_limit": 120, "gap": 0.0}, "plan": True}
        told.append(httpx.post(f"{service.url}/v1/checks", json=body, timeout=120).status_code)

    thread = threading.Thread(target=check)
    thread.start()
    time.sleep(3.0)
    seconds = service.stop()
    thread.join()
    yield {"part": "stop", "seconds": seconds, "check_told": told[0]}
    service.start()


PARTS = {part.__name__: part for part in (accept, arrivals, drain, read, crowd, kills, stop)}


async def _loop(service: ServedService, clients: int, requests: Iterator[Request]) -> tuple[dict[str, Any], float]:
    answers, seconds = await closed_loop(service.port, clients, requests)
    return answers.figures(), seconds


def _asking(number: int) -> Iterator[Request]:
    return (_question() for _ in range(number))


def _question() -> Request:
    return post("/v1/plans", small_question(next(_seeds)))


def _id_of(service: ServedService, question: dict[str, Any]) -> str:
    return str(httpx.post(f"{service.url}/v1/plans", json=question, timeout=60).json()["id"])


def _count(client: httpx.Client, state: str) -> int:
    """By the service's own metrics."""
    start = f'emplace_resources{{kind="plans",state="{state}"}} '
    return next(int(float(line.removeprefix(start))) for line in client.get("/metrics").text.splitlines() if line.startswith(start))


def _empty_queue(client: httpx.Client) -> None:
    """Cancel what waits: the next part begins with idle workers."""
    while waiting := client.get("/v1/plans", params={"state": "queued", "limit": 200}).json()["items"]:
        for each in waiting:
            client.post(f"/v1/plans/{each['id']}/cancel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--database-url")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder, ServedService(Path(folder), asked.database_url, lease_s=5) as service:
        for name in asked.only or PARTS:
            for line in PARTS[name](service, asked.scale):
                lines.append(line)
                emit(line, asked.out)
    print("\n".join(beside_reach(lines, REACH)))


if __name__ == "__main__":
    main()
