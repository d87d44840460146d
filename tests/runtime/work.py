"""Work that the tests of processes hand to them."""

from __future__ import annotations

import os
import signal
import time

from emplace.placement.errors import BrokenRule, InvalidDocument


def slow_first(number: int) -> tuple[int, int]:
    time.sleep(0.3 if number == 0 else 0.0)
    return number, os.getpid()


def refused(number: int) -> None:
    raise InvalidDocument("here", [BrokenRule("", str(number), "no such thing")])


def ended(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def doubled(data: bytes) -> int:
    return 2 * len(data)
