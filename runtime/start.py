"""`python -m emplace.runtime.start MODULE ARGUMENTS...`: calls main() of a module that imports torch, and imports it faster.

torch and TorchRec make a million objects that stay. To look through them for garbage, again and again while they are imported, takes a
fifth to a third of a rank's start.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType


def import_large(name: str) -> ModuleType:
    """The imported module. What its import makes is never looked through for garbage."""
    gc.disable()
    module = import_module(name)
    gc.freeze()
    gc.enable()
    return module


def main() -> None:
    del sys.argv[0]
    import_large(sys.argv[0]).main()


if __name__ == "__main__":
    main()
