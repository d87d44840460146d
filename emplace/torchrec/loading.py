"""A module that a program builds, by the name of the function that builds it."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import torch
from torch import nn

from emplace.placement.errors import BrokenRule, InvalidDocument, ToolError


def built_module(name: str) -> nn.Module:
    """What `package.module:function` returns, called without arguments under the meta device; the working folder is importable.

    Layers that name no device allocate nothing. Raises InvalidDocument for a name that leads nowhere, ToolError where the program fails.
    """
    path, _, function = name.partition(":")
    if not path or not function.isidentifier():
        raise InvalidDocument("arguments", [BrokenRule("/builder", name, "must name a function, such as package.module:build_model")])
    sys.path.insert(0, os.getcwd())
    try:
        build = getattr(import_module(path), function, None)
        if not callable(build):
            raise InvalidDocument("arguments", [BrokenRule("/builder", name, f"must name a function: {path} has none of that name")])
        with torch.device("meta"):
            module = build()
    except InvalidDocument:
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(f"{name} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not isinstance(module, nn.Module):
        raise InvalidDocument("arguments", [BrokenRule("/builder", name, f"must return an nn.Module, it returned {type(module).__name__}")])
    return module
