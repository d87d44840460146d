"""The service of a benchmark: `emplace serve` on a free port and a database of its own, which can be killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

_START_S = 90.0


class ServedService:
    def __init__(self, folder: Path, database_url: str | None, lease_s: int = 15) -> None:
        """`lease_s`: after so long without a beat a worker is taken for dead."""
        self._folder = folder
        own = {"EMPLACE_HOME": str(folder), "EMPLACE_PLAN_QUEUE": "100000", "EMPLACE_WORKER_LEASE_SECONDS": str(lease_s)}
        self._environment = os.environ | own
        if database_url is not None:
            self._environment["EMPLACE_DATABASE_URL"] = database_url
        self._port = 0
        """A free one, and then the same."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def log(self) -> str:
        return (self._folder / "serve.log").read_text()

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it has a worker."""
        told = self._folder / "serve.log"
        seen = len(told.read_text()) if told.exists() else 0
        with told.open("ab") as output:
            command = [sys.executable, "-m", "emplace.app.cli", "serve", "--port", str(self._port)]
            self._process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
        deadline = time.monotonic() + _START_S
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", told.read_text()[seen:])):
            assert time.monotonic() < deadline, self.log
            assert self._process.poll() is None, self.log
            time.sleep(0.05)
        self._port = int(found[1])
        while not self._is_ready():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def stop(self) -> float:
        """SIGTERM; seconds until it was gone."""
        started = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
        return time.monotonic() - started

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)

    def kill_worker(self) -> None:
        """SIGKILL to its worker process, where it has one at this moment."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self._process.pid and b"emplace.app.jobs.worker" in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except (OSError, ValueError):  # it has ended
                continue

    def memory_bytes(self) -> int:
        """What the API process has in memory."""
        pages = int((Path("/proc") / str(self._process.pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """What the API process took of the cores since it was started: the same on a busy machine as on a quiet one, or nearly."""
        fields = (Path("/proc") / str(self._process.pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
