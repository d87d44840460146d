"""Parts of Emplace that a core installation leaves out."""

from __future__ import annotations

from importlib.util import find_spec

from emplace.placement.errors import ToolError

EXTRAS = {
    "solve": ("ortools", "scipy"),
    "serve": ("alembic", "dbos", "fastapi", "prometheus_client", "pydantic_settings", "sqlalchemy", "uvicorn"),
    "execute": ("torch", "fbgemm_gpu", "psutil", "torchrec"),
    "figures": ("resvg_py", "font_lato"),
    "tune": ("optuna", "torch"),
}


def require_extra(extra: str, only: tuple[str, ...] = ()) -> None:
    """Raises ToolError naming what to install when a package of `extra`, or of those that are needed of it, is missing."""
    missing = [package for package in only or EXTRAS[extra] if find_spec(package) is None]
    if missing:
        raise ToolError(
            f"this needs {', '.join(missing)}, which is not installed: pip install '.[{extra}]' in a checkout of Emplace (docs/dependencies.md)"
        )
