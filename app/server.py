"""`emplace serve`: the API, the dashboard and a worker, in one command."""

from __future__ import annotations

import socket
import sys

import uvicorn
from fastapi import FastAPI

from emplace.app.application import create_app
from emplace.app.database.connection import Database
from emplace.app.database.migrate import migrate
from emplace.app.logs import set_up_logs
from emplace.app.settings import Settings
from emplace.app.web.addresses import is_loopback
from emplace.app.web.impatient import impatient
from emplace.app.web.service import PATIENCE_S
from emplace.placement.errors import ToolError

_SHUTDOWN_SECONDS = 3
_BACKLOG = 512


def serve(host: str, port: int, *, no_auth: bool = False) -> None:
    """Serve until SIGINT or SIGTERM; then end the worker and what it works on. Port 0 takes a free one.

    Raises ToolError when the address is taken, or reached from other machines without `no_auth`, or the database can't be used.
    """
    set_up_logs()
    settings = Settings.from_environment()
    listening = _listen(host, port, no_auth=no_auth)
    _migrate(settings)
    database = Database(settings.database_url, patience_s=PATIENCE_S)
    app = create_app(settings, database, with_worker=True, names=(host, socket.gethostname()))
    shown = f"[{host}]" if ":" in host else host
    print(f"Emplace serves http://{shown}:{listening.getsockname()[1]}/ (API documentation at /docs)", file=sys.stderr, flush=True)
    server_of(app, settings).run(sockets=[listening])
    database.close()


def server_of(app: FastAPI, settings: Settings, port: int = 0) -> uvicorn.Server:
    """The server of the application, which tells it when it is about to end. `port` is for one that opens its own socket."""
    config = uvicorn.Config(
        app,
        port=port,
        http=impatient(settings.request_timeout_seconds),
        ws="none",
        lifespan="on",
        log_config=None,  # as all else is logged
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    app.state.closing = lambda: server.should_exit
    return server


def _migrate(settings: Settings) -> None:
    """Other processes may be at it, too: this waits longer for them than a request may."""
    database = Database(settings.database_url)
    migrate(database)
    database.close()


def _listen(host: str, port: int, *, no_auth: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        _refuse_strangers(host, listening.getsockname()[0], no_auth=no_auth)
        listening.listen(_BACKLOG)  # before the address is told: who connects early waits, and is not refused
    except OSError as error:
        listening.close()
        raise ToolError(f"can't listen on {host} port {port}: {error.strerror or error}") from None
    except ToolError:
        listening.close()
        raise
    return listening


def _refuse_strangers(host: str, address: str, *, no_auth: bool) -> None:
    """Raises ToolError for an address that other machines reach, unless that was said to be meant."""
    if is_loopback(address):
        return
    if not no_auth:
        raise ToolError(
            f"{host} is reached from other machines, and nobody is asked who they are: whoever reaches it may plan, run and delete. "
            "Listen on 127.0.0.1 (the default), behind a proxy that asks; or say --no-auth if this is meant"
        )
    print(f"warning: --no-auth: whoever reaches {host} may plan, run and delete", file=sys.stderr, flush=True)
