"""Where this machine keeps what was measured on it: EMPLACE_HOME/cost-models/<fingerprint>-r<ranks>.json."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emplace.placement.cost_model import CostModel
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError
from emplace.placement.host import HostSpec
from emplace.placement.reading import read_file
from emplace.runtime.files import write_file


def emplace_home() -> Path:
    """EMPLACE_HOME, by default `~/.emplace`. Not created here."""
    return Path(os.environ.get("EMPLACE_HOME") or "~/.emplace").expanduser()


def unfinished_profiles() -> Path:
    """Where a profile keeps what it has measured, for the next one to go on with if it is interrupted."""
    return emplace_home() / "unfinished-profiles"


def find_cost_model(host: HostSpec, ranks: int | None) -> CostModel | None:
    """The model measured on exactly this machine: with as many ranks if there is one, else with the nearest number.

    A host without a fingerprint was never measured. Raises InvalidDocument for one that another version stored, or that was damaged.
    """
    if host.fingerprint is None:
        return None
    folder, wanted = emplace_home() / "cost-models", ranks if ranks is not None else host.num_devices
    stored = {path: _ranks_of(path) for path in folder.glob(f"{_file_stem(host.fingerprint)}-r*.json")}
    for path in sorted(stored, key=lambda path: (abs(stored[path] - wanted), stored[path])):
        with refusing_other_versions(str(path)):
            model = read_file(path, CostModel)
        if model.fingerprint == host.fingerprint and model.ranks is not None:
            return model
    return None


def _ranks_of(path: Path) -> int:
    """As its name says; 0 of one that was not stored by `save_cost_model`."""
    ranks = path.stem.rpartition("-r")[2]
    return int(ranks) if ranks.isdecimal() else 0


@contextmanager
def refusing_other_versions(source: str) -> Iterator[None]:
    """While a stored cost model is read: what can't be read now is to be measured again. Raises InvalidDocument."""
    try:
        yield
    except InvalidDocument as error:
        rule = (
            f"was stored by another version of Emplace, or damaged; measure this machine again with as many ranks ({error.broken_rules[0]})"
        )
        raise InvalidDocument(source, [BrokenRule("", "", rule)]) from None


def save_cost_model(model: CostModel) -> Path:
    """Keep a measured model, replacing the one of the same machine and ranks. Raises ToolError."""
    if model.fingerprint is None or model.ranks is None:
        raise ToolError("only a cost model measured on a known machine can be kept: it has no fingerprint or no ranks")
    path = emplace_home() / "cost-models" / f"{_file_stem(model.fingerprint)}-r{model.ranks}.json"
    write_file(path, model.model_dump_json(exclude_none=True, indent=2) + "\n")
    return path


def _file_stem(fingerprint: str) -> str:
    return fingerprint.replace(":", "-").replace("/", "-")
