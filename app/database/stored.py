"""Documents that were stored before: what one version stored another may not read."""

from __future__ import annotations

from typing import TypeVar

from emplace.placement.document import Document
from emplace.placement.errors import EmplaceError, InvalidDocument
from emplace.placement.reading import read_text

D = TypeVar("D", bound=Document)


class OutdatedDocument(EmplaceError):
    """A stored document is not read any more."""

    def __init__(self, what: str, invalid: InvalidDocument) -> None:
        super().__init__(
            f"{what} was stored by an earlier version of Emplace, and this one can't read it ({invalid.broken_rules[0]}): ask for it again"
        )


def read_stored(text: str, kind: type[D], what: str) -> D:
    """The document that `text` spells, which was valid when it was stored as `what`. Raises OutdatedDocument."""
    try:
        return read_text(text, kind, source=what, as_json=True)
    except InvalidDocument as error:
        raise OutdatedDocument(what, error) from None
