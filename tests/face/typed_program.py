"""A program that uses the package. `make lint` checks its types: the last line is wrong, and were it not seen to be, the comment would be."""

from __future__ import annotations

import emplace

plan: emplace.Plan = emplace.plan("m1", "zion", tiers=["hbm"])
gap: float | None = plan.gap
fits: bool | None = emplace.check("m1", "zion").fits
wrong: int = emplace.read_model("m1")  # type: ignore[assignment]
