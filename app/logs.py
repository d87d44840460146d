"""What the service writes to standard error: a line says when, how grave, who, about what, and then the words.

2026-11-24T16:05:12.031Z ERROR emplace.app.web.problems [request 5f0c...]: the database does not answer: ...
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_about: ContextVar[str] = ContextVar("about", default="-")
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s [%(about)s]: %(message)s"


class JsonLines(logging.Formatter):
    """A JSON object a line, for programs; what it is about is under a key of its own: `request` or `job`."""

    def format(self, record: logging.LogRecord) -> str:
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"
        line = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        kind, _, name = _about.get().partition(" ")
        if name:
            line[kind] = name
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(form: str) -> None:
    """Warnings and errors of everything in this process, also of libraries, as `text` or as `json`."""
    handler = logging.StreamHandler()
    formatter = JsonLines() if form == "json" else logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(say_what_about)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


@contextmanager
def about(what: str) -> Iterator[None]:
    """Everything that is logged in here, and on threads that it hands work to, is about `what`: `request 5f0c`, `job 0193`."""
    token = _about.set(what)
    try:
        yield
    finally:
        _about.reset(token)


def say_what_about(record: logging.LogRecord) -> bool:
    """A filter that adds `about` to what is logged, and lets all of it through."""
    record.about = _about.get()
    return True
