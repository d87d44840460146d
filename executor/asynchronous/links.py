"""Connections between the processes of a fleet: sockets in the launch's folder, which carry arrays as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emplace.executor.asynchronous.job import Role

NOTHING: NDArray[np.float32] = np.empty(0, dtype=np.float32)
"""A message without content."""


@dataclass(frozen=True)
class Message:
    """What a client sent."""

    client: int
    content: bytearray

    def array(self, kind: type[np.generic]) -> NDArray[Any]:
        """The content as numbers, which may be written to."""
        return np.frombuffer(self.content, dtype=kind)


class Server:
    """A process that many connect to, and that serves them one message at a time."""

    def __init__(self, role: Role, index: int, clients: int) -> None:
        self._clients = clients
        self._listener = Listener(_address(role, index), family="AF_UNIX", backlog=clients)
        self._open: dict[Connection, int] = {}

    def accept(self) -> None:
        """Wait until all clients are here."""
        for number in range(self._clients):
            self._open[_bytes_only(self._listener.accept())] = number
        self._listener.close()
        self._links = list(self._open)

    def messages(self) -> Iterator[Message]:
        """Messages as they come, until all clients are gone."""
        while self._open:
            for ready in wait(list(self._open)):
                assert isinstance(ready, Connection)
                try:
                    content = bytearray(ready.recv_bytes())
                except EOFError:
                    del self._open[ready]
                    continue
                yield Message(self._open[ready], content)

    def answer(self, message: Message, content: NDArray[Any]) -> None:
        send(self._links[message.client], content)


def connect(role: Role, count: int) -> list[Connection]:
    """Connections to all servers of a role."""
    return [_bytes_only(Client(_address(role, index), family="AF_UNIX")) for index in range(count)]


def send(link: Connection, content: NDArray[Any]) -> None:
    link.send_bytes(np.ascontiguousarray(content).data.cast("B") if content.size else b"")


def receive(link: Connection, kind: type[np.generic] = np.float32) -> NDArray[Any]:
    """The next message as numbers, which may be written to."""
    return np.frombuffer(bytearray(link.recv_bytes()), dtype=kind)


def exchange(links: Sequence[Connection], contents: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Ask all servers at once; their answers."""
    for link, content in zip(links, contents, strict=True):
        send(link, content)
    return [receive(link) for link in links]


def _address(role: Role, index: int) -> str:
    """Relative to the launch's folder, where every process works: a socket's path is short, and folders' paths are not."""
    return f"{role}-{index}"


def _bytes_only(link: Any) -> Connection:
    """The connection that this system has; nothing is unpickled from it."""
    assert isinstance(link, Connection)
    return link
