"""`emplace serve`: the API, the dashboard and a worker, in one command."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from emplace.app.application import create_app
from emplace.app.database.connection import Database
from emplace.app.database.migrate import migrate
from emplace.app.settings import Settings
from emplace.placement.errors import ToolError

_SHUTDOWN_SECONDS = 5


def serve(host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; then end the worker and what it works on. Port 0 takes a free one.

    Raises ToolError when the port is taken or the database can't be used.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    settings = Settings.from_environment()
    listening = _listen(host, port)
    database = Database(settings.database_url)
    migrate(database)
    app = create_app(settings, database, with_worker=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS))
    app.state.closing = lambda: server.should_exit
    shown = f"[{host}]" if ":" in host else host
    print(f"Emplace serves http://{shown}:{listening.getsockname()[1]}/ (API documentation at /docs)", file=sys.stderr, flush=True)
    server.run(sockets=[listening])
    database.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # before the address is told: who connects early waits, and is not refused
    except OSError as error:
        listening.close()
        raise ToolError(f"can't listen on {host} port {port}: {error.strerror or error}") from None
    return listening
