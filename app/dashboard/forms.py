"""What a browser's form sends, read without a library: pairs of names and texts, files among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import HTTP
from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from emplace.app.web.problems import Refused

_MOST_FIELDS = 1000


@dataclass(frozen=True)
class Form:
    """Fields in the order they were sent; a file is the text in it. `unreadable` are the names of files that are no UTF-8 text."""

    pairs: tuple[tuple[str, str], ...]
    unreadable: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """The last field of this name, without the spaces around it; empty where there is none."""
        return next((value.strip() for key, value in reversed(self.pairs) if key == name), "")

    def every(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name and value]


async def read_form(request: Request) -> Form:
    """Raises Refused for a body that no form sends."""
    kind, body = request.headers.get("content-type", ""), await request.body()
    try:
        if kind.startswith("multipart/form-data"):
            return _form_of(kind, body)
        return Form(tuple(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")))
    except (UnicodeError, ValueError, IndexError):  # the last is the email parser's, for a parameter such as `name*` without a value
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "the form's fields must be UTF-8 text") from None


def _form_of(kind: str, body: bytes) -> Form:
    pairs, unreadable = [], set()
    for name, content, is_file in _parts(kind, body):
        try:
            pairs.append((name, content.decode()))
        except UnicodeDecodeError:
            if not is_file:
                raise
            unreadable.add(name)
    return Form(tuple(pairs), frozenset(unreadable))


def _parts(kind: str, body: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """The name and content of each field, and whether it is a file."""
    message = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body, policy=HTTP)
    for part in message.iter_parts() if message.is_multipart() else ():
        assert isinstance(part, EmailMessage)
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            yield name, content, part.get_filename() is not None


TheForm = Annotated[Form, Depends(read_form)]
