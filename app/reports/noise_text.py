"""A gradient-noise scale as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count
from emplace.app.reports.sweep_text import short
from emplace.app.reports.tables import facts
from emplace.studies.gradient_noise import NoiseScale


def noise_view(noise: NoiseScale) -> RenderableType:
    """The scale and what it follows from."""
    rows = [
        ("|G|^2", f"{noise.squared_gradient:.4g}"),
        ("tr(Sigma)", f"{noise.gradient_variance:.4g}"),
        ("from", f"{count(noise.pairs, 'pair')} of gradients of {noise.small_batch:,} and of {noise.large_batch:,} examples"),
    ]
    return Group(Text(noise_line(noise), style="bold"), Text(""), facts(rows))


def noise_line(noise: NoiseScale) -> str:
    """The scale with its interval on one line."""
    most = "no bound" if noise.high is None else short(noise.high)
    when = f", {noise.measured_at}" if noise.measured_at else ""
    return f"gradient-noise scale of {noise.model}: {short(noise.noise_scale)} examples (90% of resampled pairs: {short(noise.low)} to {most}){when}"
