"""A PostgreSQL server of our own: fresh data in a temporary folder, a UNIX socket, ended with the tests."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from sqlalchemy import make_url

from tests.app.processes import wait_until


def find_programs() -> Path | None:
    """The folder of initdb and postgres."""
    found = shutil.which("initdb")
    folders = [Path(path) for path in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    folders += [Path(found).resolve().parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


class PostgresServer:
    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="emplace-pg-", dir="/tmp"))
        self._names = count()
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            user = next(pwd.getpwnam(name) for name in ("postgres", "nobody") if name in {each.pw_name for each in pwd.getpwall()})
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def __enter__(self) -> PostgresServer:
        data = self._folder / "data"
        initdb: list[str | Path] = [self._programs / "initdb", "-D", data, "-U", "emplace", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self._folder, **self._as_user)
        options = [
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=",
            "-c",
            f"unix_socket_directories={self._folder}",
            "-c",
            "max_connections=100",
        ]
        self._command: list[str | Path] = [self._programs / "postgres", "-D", data, *options]
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The server is gone for a while, at once and whoever is connected, and comes back with its data."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as_user
        )
        try:
            wait_until(lambda: self._ask("SELECT 1"), 30)
        except BaseException:
            self._remove()
            raise

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(20)

    def _remove(self) -> None:
        self._stop()
        shutil.rmtree(self._folder)

    def create_database(self, name: str | None = None, template: str = "template1") -> str:
        """The URL of a new database."""
        name = name or f"test_{next(self._names)}"
        assert self._ask(f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"postgresql://emplace@/{name}?host={self._folder}"

    def drop_database(self, url: str) -> None:
        """Whoever is connected to it is thrown out."""
        assert self._ask(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def _ask(self, sql: str) -> bool:
        try:
            with psycopg.connect(host=str(self._folder), user="emplace", dbname="postgres", autocommit=True) as connection:
                connection.execute(sql.encode())
        except psycopg.OperationalError:
            return False
        return True
