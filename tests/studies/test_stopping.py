"""Long studies say where they are, and end at once when they are told to."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.app.cli.command import COMMAND

LONG = ("sweep", "m3", "--vary", "/local_batch_size=800,1600,2400,3200", "--hosts", "big-basin-16g,big-basin-32g", "--gap", "0")


def _children(pid: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.add(int(path.parent.name))
    return found


def test_an_interrupt_ends_a_sweep_and_its_processes(tmp_path: Path) -> None:
    environment = {**os.environ, "EMPLACE_HOME": str(tmp_path)}
    command = [str(COMMAND), *LONG, "--processes", "2", "--out", str(tmp_path / "sweep.json")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline, children = time.monotonic() + 60, set[int]()
        while len(children) < 2 and time.monotonic() < deadline and process.poll() is None:
            children = _children(process.pid)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert len(children) >= 2
    assert (process.returncode, out) == (130, "")
    assert err.strip().endswith("emplace: interrupted")
    assert "Traceback" not in err
    assert not (tmp_path / "sweep.json").exists()
    ended = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < ended:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
