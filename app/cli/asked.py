"""What the command line of `emplace check` asks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CheckArguments:
    """What is given, and nothing else: a config may say the rest."""

    models: tuple[str, ...]
    hosts: tuple[str, ...]
    settings: dict[str, Any]
    """The options and budgets that are given, by their names in documents."""
    baselines: tuple[Path, ...] = ()
    against: tuple[str, ...] = ()
    """A commit, or files of plans, to compare with."""
    whole: bool = False
    """Whether the best plan is looked for too."""
    why: bool = False
    """Whether all that is known is to be said."""
    server: str | None = None
