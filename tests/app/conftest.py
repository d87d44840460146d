"""Real parts: SQLite and PostgreSQL, uvicorn on a socket, worker processes. Every test that takes `database_url` runs on both databases."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, text

from emplace.app.application import create_app
from emplace.app.database.connection import Database
from emplace.app.database.migrate import migrate
from emplace.app.jobs.warm import WarmProcess
from emplace.app.server import server_of
from emplace.app.settings import Settings
from emplace.app.web.service import PATIENCE_S
from tests.app.asking import START_S
from tests.app.postgres import PostgresServer, find_programs
from tests.app.processes import MARK, WorkerProcess, step_processes, wait_until

BACKENDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed")
    with PostgresServer(programs) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> str:
    _migrate(postgres.create_database("migrated"))
    return "migrated"


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()


@pytest.fixture(scope="session")
def new_database(request: pytest.FixtureRequest) -> Callable[[str, Path], str]:
    """The URL of a migrated database, of the backend asked for; SQLite's is a file in the folder."""

    def new(backend: str, folder: Path) -> str:
        if backend == "sqlite":
            shutil.copy(request.getfixturevalue("migrated_sqlite"), folder / "emplace.db")
            return f"sqlite:///{folder / 'emplace.db'}"
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database(template=request.getfixturevalue("migrated_postgres"))

    return new


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, new_database: Callable[[str, Path], str], tmp_path: Path) -> str:
    """A migrated database of its own."""
    return new_database(request.param, tmp_path)


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the service and the workers of this test read from the environment."""
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EMPLACE_DATABASE_URL", database_url)
    monkeypatch.setenv("EMPLACE_WORKER_LEASE_SECONDS", "2")
    return Settings.from_environment()


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database_url, patience_s=PATIENCE_S)
    yield database
    database.close()


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmProcess]:
    """What solves the checks of every service."""
    with WarmProcess() as process:
        yield process


@pytest.fixture
def api(settings: Settings, database: Database, warm: WarmProcess) -> Iterator[httpx.Client]:
    """The service on a free port, without a worker."""
    with served(settings, database, warm) as client:
        yield client


@pytest.fixture
def guarded(settings: Settings, database: Database, warm: WarmProcess) -> Iterator[httpx.Client]:
    """The same, where keys are asked for; the client has none."""
    with served(settings, database, warm, asks_for_keys=True) as client:
        yield client


@contextmanager
def served(settings: Settings, database: Database, warm: WarmProcess, *, asks_for_keys: bool = False) -> Iterator[httpx.Client]:
    server = server_of(create_app(settings, database, warm, with_worker=False, asks_for_keys=asks_for_keys), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, 20)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client:
            yield client
    finally:  # else a test that fails would never end
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def start_worker(settings: Settings, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Start worker processes; what is left of them is ended after the test. They read `settings` from the environment."""
    del settings
    started: list[WorkerProcess] = []

    def start(worker_id: str = "worker-1") -> WorkerProcess:
        worker = WorkerProcess(worker_id, tmp_path / f"{worker_id}-{len(started)}.log")
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """No child program outlives the tests."""
    os.environ[MARK] = str(os.getpid())
    yield
    wait_until(lambda: not step_processes(), 20)


@pytest.fixture
def query(settings: Settings) -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
    """Ask the database directly."""
    engine = create_engine(Database(settings.database_url).url)

    def ask(sql: str) -> list[tuple[object, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql))]

    yield ask
    engine.dispose()


@pytest.fixture
def serve(settings: Settings, tmp_path: Path) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    del settings  # it set the environment
    log = tmp_path / "serve.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", "from emplace.app.server import serve; serve('127.0.0.1', 0)"]
        process = subprocess.Popen(command, stderr=output)
    try:
        url = wait_until(lambda: re.search(r"http://127.0.0.1:\d+", log.read_text()), START_S)[0]
        with httpx.Client(base_url=url, timeout=30, verify=False) as client:
            wait_until(lambda: client.get("/readyz").status_code == 200, START_S)
            yield client, process
    finally:
        process.kill()
        process.wait(10)
