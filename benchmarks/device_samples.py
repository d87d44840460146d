"""What a device does without FBGEMM: lookups, copies, matrix products and launches, each timed many times.

    python -m benchmarks.device_samples [--device cuda|cpu] [--seconds S] > SAMPLES.jsonl

One JSON line a point: what, its sizes, and the median, 10th and 90th percentile in microseconds. Needs torch alone."""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from emplace.runtime.clock import now_us

FEWEST, MOST = 5, 200
"""Times that a point is timed."""
LAUNCHES = 100
"""Kernels launched one after the other at a time."""
Work = Callable[[], None]


@dataclass(frozen=True)
class TimedPoint:
    """Something to time; `prepare` makes what it works on."""

    what: str
    sizes: dict[str, Any]
    prepare: Callable[[torch.device], Work]


def points(device: torch.device) -> Iterator[TimedPoint]:
    """All of them, the smallest first; fewer and smaller ones on a CPU."""
    on_cuda = device.type == "cuda"
    yield TimedPoint("launch", {"launches": LAUNCHES}, _launch)
    for exponent, pinned in itertools.product(range(12, 28 if on_cuda else 23, 3), (False, True) if on_cuda else (False,)):
        for to_device in (True, False) if on_cuda else (True,):
            sizes = {"bytes": 2**exponent, "pinned": pinned, "to_device": to_device}
            yield TimedPoint("copy", sizes, partial(_copy, **sizes))
    for size, precision in itertools.product(
        (512, 2048, 8192) if on_cuda else (256, 512), ("fp32", "tf32", "bf16") if on_cuda else ("fp32",)
    ):
        yield TimedPoint("matmul", {"size": size, "precision": precision}, partial(_matmul, size=size, precision=precision))
    shapes = itertools.product((10**5, 10**7) if on_cuda else (10**5,), (32, 128), (1, 20), (0.0, 1.05))
    for rows, columns, ids, zipf in shapes:
        sizes = {"rows": rows, "columns": columns, "ids": ids, "bags": 65_536 if on_cuda else 1024, "zipf": zipf}
        for backward in (False, True):
            name = "embedding_bag backward, sgd" if backward else "embedding_bag"
            yield TimedPoint(name, sizes, partial(_lookups, **sizes, backward=backward))


def _launch(device: torch.device) -> Work:
    one = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(LAUNCHES):
            one.add_(1.0)

    return launch


def _copy(device: torch.device, bytes: int, pinned: bool, to_device: bool) -> Work:
    host = torch.zeros(bytes, dtype=torch.uint8, pin_memory=pinned)
    there = torch.zeros(bytes, dtype=torch.uint8, device=device)
    source, target = (host, there) if to_device else (there, host)

    def copy() -> None:
        target.copy_(source, non_blocking=pinned)

    return copy


def _matmul(device: torch.device, size: int, precision: str) -> Work:
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    out = torch.empty_like(left)

    def multiply() -> None:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.mm(left, left, out=out)

    return multiply


def _lookups(device: torch.device, rows: int, columns: int, ids: int, bags: int, zipf: float, *, backward: bool) -> Work:
    rng = np.random.default_rng(0)
    found = rng.zipf(zipf, bags * ids) % rows if zipf > 1 else rng.integers(0, rows, bags * ids)
    chosen = torch.from_numpy(found).to(device)
    offsets = torch.arange(0, bags * ids, ids, device=device)
    table = torch.zeros(rows, columns, device=device, requires_grad=backward)

    def look_up() -> None:
        pooled = torch.nn.functional.embedding_bag(chosen, table, offsets, mode="sum", sparse=backward)
        if backward:
            torch.autograd.backward(pooled.sum())
            assert table.grad is not None
            with torch.no_grad():
                table.add_(table.grad, alpha=-0.1)
            table.grad = None

    return look_up


def timed(point: TimedPoint, device: torch.device, seconds: float) -> dict[str, Any]:
    """The point's line. The first time does not count."""
    work = point.prepare(device)
    work()
    times: list[float] = []
    until = time.monotonic() + seconds
    while len(times) < FEWEST or (time.monotonic() < until and len(times) < MOST):
        start = now_us(device)
        work()
        times.append(now_us(device) - start)
    low, middle, high = np.quantile(times, [0.1, 0.5, 0.9]).tolist()
    return {
        "what": point.what,
        **point.sizes,
        "device": str(device),
        "times": len(times),
        "median_us": middle,
        "p10_us": low,
        "p90_us": high,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each point")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    for point in points(device):
        print(json.dumps(timed(point, device, asked.seconds)), flush=True)


if __name__ == "__main__":
    main()
