"""A study as parts that are done one after the other, so that one that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from emplace.placement.document import Document
from emplace.placement.plan import Plan


class Study(Protocol):
    """A study of which everything was refused that can be before anything is solved. The same parts make the same answer."""

    @property
    def part(self) -> type[Document]:
        """The kind of what each part comes to."""

    @property
    def size(self) -> int:
        """How many parts there are: points, jobs or placements."""

    def do(self, number: int, before: Plan | None) -> tuple[Document, Plan | None]:
        """A part, and the plan that the next one begins with; `before` is what the part before this one returned."""

    def answer(self, parts: Sequence[Any]) -> Document:
        """What all parts, in their order, come to."""
