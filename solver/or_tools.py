"""OR-Tools' `cp_model`. It imports pandas, which takes longer than a small plan, for functions that nothing here calls: pandas is imported
when they are.
"""

from __future__ import annotations

import builtins
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from emplace.placement.errors import MissingPackage

_NAME = "ortools.sat.python.cp_model"


class _Pandas(ModuleType):
    """Stands for pandas, of which cp_model needs two names in annotations while it is imported."""

    Index: Any
    Series: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("pandas"), name)


def _imported() -> ModuleType:
    """The module. Other programs that import it have their own, with pandas."""
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    spec = find_spec(_NAME)
    assert spec is not None
    assert spec.loader is not None
    module, pandas = module_from_spec(spec), _Pandas("pandas")
    pandas.Index, pandas.Series = "pandas.Index", "pandas.Series"

    def import_but_pandas(name: str, *arguments: Any) -> ModuleType:
        return pandas if name == "pandas" else builtins.__import__(name, *arguments)

    module.__dict__["__builtins__"] = vars(builtins) | {"__import__": import_but_pandas}
    spec.loader.exec_module(module)
    del pandas.Index, pandas.Series
    return module


if TYPE_CHECKING:
    from ortools.sat.python import cp_model as cp_model
else:
    try:
        cp_model = _imported()
    except ModuleNotFoundError:
        raise MissingPackage("OR-Tools") from None
