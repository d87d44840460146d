"""What a model document calls the modules and tables of a live TorchRec model, and how that is undone. Imports no torch."""

from __future__ import annotations

import re

from emplace.placement.modules import DEFAULT_PATH


def spelt(name: str) -> str:
    """A table's or a feature's name as a model document allows it."""
    return re.sub(r"[^A-Za-z0-9_:-]", "-", name.replace(".", ":")).lstrip(":")


def spelt_path(path: str) -> str:
    """A module's path as a model document allows it; of one that is the whole model, `ebc`."""
    plain = ".".join(re.sub(r"\W", "_", part, flags=re.ASCII) for part in path.split("."))
    return re.sub(r"^(?=\d)", "_", plain) or DEFAULT_PATH


def live_path(path: str) -> str:
    """A document's path in the live model: modules of an nn.ModuleList or nn.Sequential have numbers, which no document begins with."""
    return re.sub(r"^_(?=\d)", "", path)


def long_name(path: str, name: str) -> str:
    """What a document calls a table where several modules have one of its name; `path` is its module's, spelt either way."""
    return spelt(f"{spelt_path(path)}:{name}")


def short_name(path: str, name: str) -> str:
    """The name in its module of a table that a document calls so."""
    return name.removeprefix(long_name(path, ""))
