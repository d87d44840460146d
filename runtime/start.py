"""How a process starts that trains: it imports torch and TorchRec.

They make a million objects that stay. To look through them for garbage, again and again while they are imported, takes a fifth to a
third of the start.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType


def import_large(name: str) -> ModuleType:
    """The imported module. What its import makes is never looked through for garbage, nor written to by that: forks share it."""
    gc.disable()
    module = import_module(name)
    gc.freeze()
    gc.enable()
    return module
