"""Parts of Emplace that a core installation leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from placement.errors import ToolError

_OWN_PACKAGES = {"app", "executor", "placement", "profiler", "solver"}


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Around the imports of an optional part. Raises ToolError naming what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _OWN_PACKAGES:
            raise
        raise ToolError(f"this needs {error.name}, which is not installed: pip install 'emplace[{extra}]' (docs/dependencies.md)") from None
