"""Drawings that many look at are drawn once: a chart is a value, and equal ones look the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from markupsafe import Markup

Chart = TypeVar("Chart")

_KEPT = 64


def remembered(draw: Callable[[Chart], Markup]) -> Callable[[Chart], Markup]:
    return lru_cache(maxsize=_KEPT)(draw)
