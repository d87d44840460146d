"""What is refused of a study, pointed into the request that asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from emplace.placement.errors import BrokenRule, InvalidDocument

_DOCUMENTS = ("options", "curve", "noise")
_VARIED = {"batch": "/batches"}
"""The key that says what is varied, of each kind where it is not `vary`."""


@contextmanager
def pointing_into_study(kind: str) -> Iterator[None]:
    """Make what is wrong with an option of the command line point to the key of its name; with a point, to what is varied."""
    varied = _VARIED.get(kind, "/vary")
    try:
        yield
    except InvalidDocument as error:
        if error.source == "body":
            raise
        raise InvalidDocument("body", [_pointed(error.source, each, varied) for each in error.broken_rules]) from None


def _pointed(source: str, broken: BrokenRule, varied: str) -> BrokenRule:
    key = source.removeprefix("--").replace("-", "_")
    if key in _DOCUMENTS:
        return replace(broken, pointer=f"/{key}{broken.pointer}")
    where = f"{broken.pointer} " if broken.pointer else ""
    if source.startswith("--"):
        return replace(broken, pointer=varied if key == "vary" else f"/{key}", rule=f"{where}{broken.rule}")
    return replace(broken, pointer=varied if " with " in source else "/hosts", rule=f"{source}: {where}{broken.rule}")
