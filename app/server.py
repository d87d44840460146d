"""`emplace serve`: the API, the dashboard and a worker, in one command."""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import closing

import uvicorn
from fastapi import FastAPI

from emplace.app.application import create_app
from emplace.app.database import keys
from emplace.app.database.connection import Database
from emplace.app.database.migrate import migrate
from emplace.app.jobs.warm import WarmProcess
from emplace.app.logs import set_up_logs
from emplace.app.settings import Settings
from emplace.app.traces import sending_traces
from emplace.app.web.addresses import is_loopback
from emplace.app.web.impatient import impatient
from emplace.app.web.service import PATIENCE_S
from emplace.placement.errors import ToolError

_SHUTDOWN_SECONDS = 3
_KEEP_ALIVE_SECONDS = 75
"""Longer than proxies keep a connection that is idle (60 s mostly): one that closes first can't meet their next request half-way."""
_BACKLOG = 512


def serve(host: str, port: int, *, no_auth: bool = False, auth: bool = False, with_worker: bool = True) -> None:
    """Serve until SIGINT or SIGTERM; then end the worker and what it works on. Port 0 takes a free one.

    Keys are asked for where other machines reach the address, unless `no_auth`; and on the loopback address only with `auth`.
    Raises ToolError when the address is taken, or no key is there where keys are asked for, or the database can't be used.
    """
    settings = Settings.from_environment()
    set_up_logs(settings.log_format)
    with _listen(host, port) as listening, sending_traces("api"), _migrated(settings) as database, WarmProcess() as warm:
        asks = _asks_for_keys(host, listening.getsockname()[0], database, auth=auth, no_auth=no_auth)
        app = create_app(settings, database, warm, with_worker=with_worker, names=(host, socket.gethostname()), asks_for_keys=asks)
        gc.collect()
        gc.freeze()  # what is there now stays: to look through all of it again holds up every answer for a tenth of a second
        shown = f"[{host}]" if ":" in host else host
        print(f"Emplace serves http://{shown}:{listening.getsockname()[1]}/ (API documentation at /docs)", file=sys.stderr, flush=True)
        server_of(app, settings).run(sockets=[listening])


def server_of(app: FastAPI, settings: Settings, port: int = 0) -> uvicorn.Server:
    """The server of the application, which tells it when it is about to end. `port` is for one that opens its own socket."""
    config = uvicorn.Config(
        app,
        port=port,
        loop="uvloop",
        http=impatient(settings.request_timeout_seconds),
        ws="none",
        lifespan="on",
        log_config=None,  # as all else is logged
        access_log=False,  # below what is logged, and put into words all the same
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    app.state.closing = lambda: server.should_exit
    return server


def _migrated(settings: Settings) -> closing[Database]:
    """The database, up to date. Other processes may be at it, too: this waits longer for them than a request may."""
    patient = Database(settings.database_url)
    migrate(patient)
    patient.close()
    return closing(Database(settings.database_url, patience_s=PATIENCE_S))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # said outright: only then does asyncio send at once
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # before the address is told: who connects early waits, and is not refused
    except OSError as error:
        listening.close()
        raise ToolError(f"can't listen on {host} port {port}: {error.strerror or error}") from None
    return listening


def _asks_for_keys(host: str, address: str, database: Database, *, auth: bool, no_auth: bool) -> bool:
    """Whether whoever asks must have a key. Raises ToolError where that is so and there is none."""
    if auth and no_auth:
        raise ToolError("--auth and --no-auth exclude each other")
    if no_auth or (is_loopback(address) and not auth):
        if not is_loopback(address):
            print(f"warning: --no-auth: whoever reaches {host} may plan, run and delete", file=sys.stderr, flush=True)
        return False
    with database.reading() as session:
        if not keys.any_counts(session):
            raise ToolError(
                f"{host} asks for keys, and there is none yet: make one with 'emplace keys make NAME --scope admin', on the same "
                "database; or say --no-auth, and whoever reaches the address may plan, run and delete"
            )
    return True
