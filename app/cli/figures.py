"""What commands that draw figures share."""

from __future__ import annotations

from pathlib import Path

from emplace.extras import require_extra
from emplace.placement.errors import BrokenRule, InvalidDocument


def refuse_png(out: Path | None) -> None:
    """Raises ToolError where figures can't be drawn as pixels, InvalidDocument where no file is named for them."""
    require_extra("figures")
    if out is None:
        raise InvalidDocument("--format", [BrokenRule("", "png", "is no text for a terminal: say with --out where to write it")])
