"""`emplace serve` and `emplace worker`."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.extras import require_extra


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on.")] = 8000,
    no_auth: Annotated[
        bool,
        typer.Option(
            "--no-auth", help="Ask nobody for a key, also where other machines reach the address: whoever does may plan, run and delete."
        ),
    ] = False,
    auth: Annotated[bool, typer.Option("--auth", help="Ask for keys on the loopback address, too, as behind a proxy.")] = False,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Start no worker: what is asked waits for those of 'emplace worker'.")
    ] = False,
) -> None:
    """Serve the API, the dashboard and a worker."""
    require_extra("serve")
    from emplace.app.server import serve as serve_api

    serve_api(host, port, no_auth=no_auth, auth=auth, with_worker=not no_worker)


def worker() -> int:
    """Add a worker on the database of EMPLACE_DATABASE_URL."""
    require_extra("serve")
    from emplace.app.jobs.worker import run_worker

    return run_worker()
