"""TorchRec's embedding configs where a program has them: `package.module:object`, a list or a function that returns one."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

from emplace.app.converting.converted import Converted
from emplace.app.converting.torchrec_configs import from_config_list
from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_FIELDS = ("name", "num_embeddings", "embedding_dim", "feature_names", "data_type", "pooling")
_MORE = ("need_pos", "use_virtual_table")
"""Fields that are named where they are set: they change what is stored."""


def is_object_path(text: str) -> bool:
    return _PATH.fullmatch(text) is not None


def from_embedding_objects(path: str) -> Converted:
    """The configs of a program, which is imported from the working folder. Raises InvalidDocument, and ToolError where it fails."""
    module, _, name = path.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        found = found() if callable(found) else found
        listed = list(found.values() if isinstance(found, dict) else found)
    except (Exception, SystemExit) as error:
        raise ToolError(f"{path} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return from_config_list([_config(each, path) for each in listed], path, "")


def _config(config: Any, path: str) -> dict[str, Any]:
    """What the JSON form of a config holds. Raises InvalidDocument."""
    if not all(hasattr(config, field) for field in _FIELDS[:4]):
        rule = f"must hold TorchRec's EmbeddingBagConfig or EmbeddingConfig, has {type(config).__name__}"
        raise InvalidDocument(path, [BrokenRule("", "", rule)])
    given = {field: getattr(config, field) for field in _FIELDS if getattr(config, field, None) is not None}
    named = {field: str(given[field]) for field in ("data_type", "pooling") if field in given}
    features = {"feature_names": list(given["feature_names"])} if "feature_names" in given else {}
    return given | named | features | {field: True for field in _MORE if getattr(config, field, None)}
