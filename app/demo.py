"""`make demo`: the main job, end to end, through the service.

Starts the service on an embedded database in a fresh folder, measures this machine, POSTs a model, waits for the plan,
trains under it, and prints the plan with predicted and measured throughput. Ends everything it started.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from emplace.app.cli.output import show
from emplace.app.reports.figures import rate
from emplace.app.reports.plan_text import plan_view
from emplace.app.reports.run_text import run_view
from emplace.placement.errors import EmplaceError, ToolError
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data

MODEL, HOST, RANKS, STEPS = "criteo-kaggle", "local", 2, 30
HOME = Path("build/demo").absolute()
_START_SECONDS, _STOP_SECONDS = 60.0, 60.0


def main() -> None:
    signal.signal(signal.SIGTERM, _stop)
    try:
        _demo()
    except (EmplaceError, httpx.HTTPError) as error:
        sys.exit(f"demo: {error or type(error).__name__}; the service's log is {HOME / 'service.log'}")
    except KeyboardInterrupt:
        sys.exit(130)


def _demo() -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    started = time.monotonic()
    with _service() as client:
        _say(1, f"measuring this machine with {RANKS} ranks side by side (about a minute)")
        _finish(client, _post(client, "/v1/profiles", {"ranks": RANKS, "quick": True}))

        _say(2, f"planning {MODEL} for the host {HOST} with {RANKS} ranks")
        resource = _finish(client, _post(client, "/v1/plans", {"model": MODEL, "host": HOST, "options": {"ranks": RANKS}}))
        plan = from_data(resource["plan"], Plan, source="the service's plan")
        show(plan_view(plan))

        _say(3, f"training {STEPS} steps under the plan, {RANKS} processes")
        run = _finish(client, _post(client, f"/v1/plans/{resource['id']}/runs", {"steps": STEPS}))
        measured = from_data(run["measurement"], Measurement, source="the service's measurement")
        show(run_view(plan, measured))
    print(f"\npredicted throughput  {rate(measured.predicted_throughput_samples_per_s)}")
    print(f"measured throughput   {rate(measured.throughput_samples_per_s)}")
    print(f"\nDone in {time.monotonic() - started:.0f} s; nothing is left running. To look at it:")
    print(f"  EMPLACE_HOME={shlex.quote(str(HOME))} {shlex.quote(str(Path(sys.executable).parent / 'emplace'))} serve")
    print(f"  then open http://127.0.0.1:8000/plans/{resource['id']}")


@contextmanager
def _service() -> Iterator[httpx.Client]:
    """A service of our own on a free port; ended, with all it started, on the way out."""
    port = _free_port()
    log_path = HOME / "service.log"
    _say(0, f"starting the service on port {port}, its database in {HOME}")
    ours = sorted(name for name in os.environ if name.startswith("EMPLACE_"))
    if ours:
        print(f"  {', '.join(ours)}: set, but not used by the demo", flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in ours} | {"EMPLACE_HOME": str(HOME)}
    with log_path.open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "emplace.app.cli", "serve", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the demo, which then ends the service
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0, trust_env=False) as client:
            _wait_until_ready(client, server)
            yield client
    finally:
        server.terminate()
        try:
            server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(client: httpx.Client, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ToolError(f"the service ended with status {server.returncode}")
        try:
            if client.get("/readyz").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise ToolError(f"the service was not ready within {_START_SECONDS:.0f} s")


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The new resource, with its own address under `self`. Until the service's worker has reported, it answers 409."""
    print(f"  POST {path} {json.dumps(body)}", flush=True)
    deadline = time.monotonic() + _START_SECONDS
    while (response := client.post(path, json=body)).status_code == httpx.codes.CONFLICT and time.monotonic() < deadline:
        time.sleep(0.5)
    if not response.is_success:
        raise ToolError(f"POST {path} answered {response.status_code}: {response.text[:500]}")
    resource: dict[str, Any] = response.json()
    collection = path.rpartition("/")[2]
    return resource | {"self": f"/v1/{collection}/{resource['id']}"}


def _finish(client: httpx.Client, resource: dict[str, Any]) -> dict[str, Any]:
    """Show a job's progress until it ends. Raises ToolError when it did not succeed."""
    with client.stream("GET", f"{resource['self']}/events", timeout=None) as events:
        for line in events.iter_lines():
            if line.startswith("data: "):
                _show_progress(json.loads(line.removeprefix("data: ")))
    finished: dict[str, Any] = client.get(resource["self"]).json()
    if finished["state"] != "done":
        raise ToolError(f"{resource['self']} is {finished['state']}: {finished['error']}")
    return finished


def _show_progress(event: dict[str, Any]) -> None:
    if "message" in event:
        print(f"  {event['message']}", flush=True)
    elif event.get("bound_us") is not None:
        incumbent = "no plan yet" if event["incumbent_us"] is None else f"plan {event['incumbent_us']:,.1f} us"
        print(f"  {event['elapsed_s']:5.1f} s  {event['phase']}: {incumbent}, bound {event['bound_us']:,.1f} us", flush=True)


def _say(step: int, what: str) -> None:
    print(f"\n[{step}/3] {what}", flush=True)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
