"""Answers that a client may keep: an ETag says which state of a resource it has, and If-None-Match asks for news of that only."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from fastapi import Request, Response

_TAG = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"')
_MAX_RECENT_BYTES = 2**24
_KEPT = {"Cache-Control": "private, no-cache"}
"""Kept by whoever asked, and asked about each time."""


def tag_of(*parts: object) -> str:
    """An entity tag of what an answer is made of. It is weak: the answer may be packed."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


class Conditions(NamedTuple):
    """What a request says of the answers that it can do with."""

    known: str
    """If-None-Match."""
    takes_gzip: bool

    def knows(self, tag: str) -> bool:
        """Whether the client has this state already (RFC 9110, 13.1.2)."""
        return self.known.strip() == "*" or _TAG.findall(tag)[0] in _TAG.findall(self.known)


def conditions_of(request: Request) -> Conditions:
    return Conditions(request.headers.get("if-none-match", ""), "gzip" in request.headers.get("accept-encoding", ""))


def unchanged(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag} | _KEPT)


def document(conditions: Conditions, tag: str, text: Callable[[], str]) -> Response:
    """The JSON document, packed for a client that takes that. One that was packed a moment ago is neither made nor packed again."""
    headers = {"ETag": tag} | _KEPT
    if not conditions.takes_gzip:
        return Response(text(), headers=headers, media_type="application/json")
    packed = _recent.get(tag)
    if packed is None:
        packed = gzip.compress(text().encode(), compresslevel=1)
        _recent.put(tag, packed)
    return Response(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type="application/json")


def again(response: Response) -> Response:
    """The same answer, for one more request: what it passes on its way out adds headers to it."""
    same = Response(response.body, response.status_code)
    same.raw_headers = [*response.raw_headers]
    return same


class _Recent:
    """The packed documents that were asked for last, within so many bytes. Several threads may ask."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, tag: str) -> bytes | None:
        with self._lock:
            if tag in self._kept:
                self._kept.move_to_end(tag)
            return self._kept.get(tag)

    def put(self, tag: str, packed: bytes) -> None:
        with self._lock:
            self._bytes += len(packed) - len(self._kept.pop(tag, b""))
            self._kept[tag] = packed
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])


_recent = _Recent(_MAX_RECENT_BYTES)
