"""What is refused of a study, pointed into the request that asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from emplace.placement.errors import BrokenRule, InvalidDocument


@contextmanager
def pointing_into_study() -> Iterator[None]:
    """Make what is wrong with an option of the command line point to the key of its name; with a point, to what is varied."""
    try:
        yield
    except InvalidDocument as error:
        if error.source == "body":
            raise
        raise InvalidDocument("body", [_pointed(error.source, each) for each in error.broken_rules]) from None


def _pointed(source: str, broken: BrokenRule) -> BrokenRule:
    if source == "options":
        return replace(broken, pointer=f"/options{broken.pointer}")
    where = f"{broken.pointer} " if broken.pointer else ""
    if source.startswith("--"):
        key = source.removeprefix("--").replace("-", "_")
        return replace(broken, pointer=f"/{key}", rule=f"{where}{broken.rule}")
    return replace(broken, pointer="/vary" if " with " in source else "/hosts", rule=f"{source}: {where}{broken.rule}")
