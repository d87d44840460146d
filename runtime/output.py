"""What a process prints, while it runs: followed line by line, or kept to be looked up once it has ended."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import IO

_PATIENCE_S = 5.0
_CHUNK_BYTES = 2**16
_KEPT_BYTES = 2**20


def lines(pipe: IO[bytes], poll_s: float) -> Iterator[bytes | None]:
    """Whole lines, without their ends, until the process closes its side of `pipe`; None before each wait, of `poll_s` seconds at most."""
    unread = b""
    poller = select.poll()  # select itself takes no descriptor above 1023, of which a service has more
    poller.register(pipe, select.POLLIN)
    while True:
        yield None
        if not poller.poll(1000 * poll_s):
            continue
        chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        if not chunk:
            return
        *whole, unread = (unread + chunk).split(b"\n")
        yield from whole


class Heard:
    """The end of what a process prints, read by a thread: from a pipe, because a file would be of no use once the disk is full."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        """`pipe` is a process's stdout or stderr that was opened with subprocess.PIPE; it belongs to the thread from now on."""
        assert pipe is not None
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(os.dup(pipe.fileno()),), daemon=True)
        pipe.close()
        self._thread.start()

    def text(self) -> str:
        """All that was kept. The process has ended; others that it started may still hold the pipe, and are not waited for."""
        self._thread.join(_PATIENCE_S)
        return bytes(self._kept).decode(errors="replace")

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(_CHUNK_BYTES):
                self._kept += chunk
                del self._kept[:-_KEPT_BYTES]
