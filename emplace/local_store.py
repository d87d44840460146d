"""What this machine keeps under EMPLACE_HOME: the cost models that were measured on it, and profiles that were interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from glob import escape
from pathlib import Path

from emplace.cost_model_store import Candidate, refusing_other_versions
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import ToolError
from emplace.placement.reading import read_file
from emplace.runtime.files import write_file


def emplace_home() -> Path:
    """EMPLACE_HOME, by default `~/.emplace`. Not created here."""
    return Path(os.environ.get("EMPLACE_HOME") or "~/.emplace").expanduser()


def unfinished_profiles() -> Path:
    """Where a profile keeps what it has measured, for the next one to go on with if it is interrupted."""
    return emplace_home() / "unfinished-profiles"


def local_cost_models() -> CostModelFiles:
    """The cost models that `emplace profile` kept."""
    return CostModelFiles(emplace_home() / "cost-models")


class CostModelFiles:
    """A folder of cost models, one file for each machine and number of ranks: <fingerprint>-r<ranks>.json."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def candidates(self, fingerprint: str) -> Iterator[Candidate]:
        """The files of the machine with this fingerprint, by name."""
        for path in self._folder.glob(f"{escape(_file_stem(fingerprint))}-r*.json"):
            ranks = path.stem.rpartition("-r")[2]
            if ranks.isdecimal() and path.is_file():  # a symlink may lead nowhere
                yield Candidate(int(ranks), path.stat().st_mtime, partial(_read, path))

    def keep(self, model: CostModel) -> str:
        """Store a measured model, in place of the one of the same machine and ranks, and return its path. Raises ToolError."""
        if model.fingerprint is None or model.ranks is None:
            raise ToolError("only a cost model measured on a known machine can be kept: it has no fingerprint or no ranks")
        path = self._folder / f"{_file_stem(model.fingerprint)}-r{model.ranks}.json"
        write_file(path, model.model_dump_json(exclude_none=True, indent=2) + "\n")
        return str(path)


def _read(path: Path) -> CostModel:
    with refusing_other_versions(str(path)):
        return read_file(path, CostModel)


def _file_stem(fingerprint: str) -> str:
    return fingerprint.replace(":", "-").replace("/", "-")
