"""What the service's processes write to standard error."""

from __future__ import annotations

import json
import re
import subprocess
import sys

PROGRAM = """
import asyncio, logging, sys
from emplace.app.logs import about, set_up_logs
from emplace.app.web.threads import Threads

async def main():
    with about("request 7"):
        await Threads(1).run(logging.getLogger("on.a.thread").warning, "one of %d", 2)
    logging.getLogger("uvicorn.error").error("of nothing")

set_up_logs(sys.argv[1])
asyncio.run(main())
"""


def test_a_line_says_when_and_about_what() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, "text"], capture_output=True, text=True, check=True, timeout=60
    ).stderr.splitlines()
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(rf"{time} WARNING on\.a\.thread \[request 7\]: one of 2", said[0])
    assert re.fullmatch(rf"{time} ERROR uvicorn\.error \[-\]: of nothing", said[1])
    assert len(said) == 2


def test_as_json_each_key_is_by_itself() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM, "json"], capture_output=True, text=True, check=True, timeout=60)
    first, second = (json.loads(line) for line in ended.stderr.splitlines())
    assert first | {"time": ""} == {"time": "", "level": "WARNING", "logger": "on.a.thread", "message": "one of 2", "request": "7"}
    assert "request" not in second
