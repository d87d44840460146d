"""What the charts show, as data: bars of segments on one scale. No drawing here."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.beside_stages import beside_stages_us
from emplace.placement.model import Tier
from emplace.placement.plan import Plan, RankLoad
from emplace.placement.stages import Stage

MAX_BARS = 48
"""More ranks than this are shown by their most loaded ones."""

OVERHEAD = "overhead"

STAGE_TITLES = {
    Stage.INPUT_DIST: "ids all-to-all",
    Stage.LOOKUP_FORWARD: "lookup forward",
    Stage.OUTPUT_DIST: "vectors all-to-all",
    Stage.DENSE: "dense layers",
    Stage.GRADIENT_DIST: "gradients all-to-all",
    Stage.LOOKUP_BACKWARD: "lookup backward",
    Stage.ALL_REDUCE: "all-reduce",
}


@dataclass(frozen=True)
class Segment:
    """A part of a bar; `key` names its colour."""

    key: str
    title: str
    value: float


@dataclass(frozen=True)
class Bar:
    """`limit` is what the bar must not pass, drawn as a mark."""

    label: str
    segments: tuple[Segment, ...]
    limit: float | None = None

    @property
    def total(self) -> float:
        return sum(segment.value for segment in self.segments)


@dataclass(frozen=True)
class Chart:
    """Bars on a common scale from 0 to `scale`. `left_out` bars are smaller than those shown."""

    title: str
    bars: tuple[Bar, ...]
    scale: float
    left_out: int = 0

    @property
    def legend(self) -> tuple[tuple[str, str], ...]:
        """(key, title) of every kind of segment, in drawing order."""
        return tuple({segment.key: segment.title for bar in self.bars for segment in bar.segments}.items())


def memory_charts(plan: Plan) -> list[Chart]:
    """Bytes per rank, against the capacity of its device where it has one; and system memory per node against its capacity."""
    devices = [
        Bar(_rank_label(rank), (Segment(Tier.HBM, "device memory", rank.hbm_bytes),), rank.hbm_capacity_bytes)
        for rank in plan.ranks
        if rank.hbm_capacity_bytes
    ]
    shares = [Bar(_rank_label(rank), (Segment(Tier.DDR, "system memory", rank.ddr_bytes),)) for rank in plan.ranks]
    nodes = [
        Bar(f"node {node.node}", (Segment(Tier.DDR, "system memory", node.ddr_bytes),), node.ddr_capacity_bytes) for node in plan.nodes
    ]
    named = [("Device memory of each rank", devices), ("System memory of each rank", shares), ("System memory of each node", nodes)]
    return [_chart(title, bars) for title, bars in named if any(bar.total for bar in bars)]


def stage_chart(plan: Plan) -> Chart:
    """Predicted microseconds of each rank's own work, by stage, and of what every step takes beside it."""
    overhead = Segment(OVERHEAD, OVERHEAD, beside_stages_us(plan))
    with_overhead = (overhead,) if overhead.value else ()
    return _chart("Predicted step by stage", [Bar(_rank_label(rank), _stage_segments(rank) + with_overhead) for rank in plan.ranks])


def _stage_segments(rank: RankLoad) -> tuple[Segment, ...]:
    return tuple(Segment(stage, STAGE_TITLES[stage], rank.stages_us[stage]) for stage in Stage if rank.stages_us.get(stage))


def _chart(title: str, bars: list[Bar]) -> Chart:
    """The bars in their order, or the longest of them."""
    shown = bars
    if len(bars) > MAX_BARS:
        longest = sorted(range(len(bars)), key=lambda index: -bars[index].total)[:MAX_BARS]
        shown = [bars[index] for index in sorted(longest)]
    scale = max((max(bar.total, bar.limit or 0.0) for bar in bars), default=0.0)
    return Chart(title, tuple(shown), scale or 1.0, len(bars) - len(shown))


def _rank_label(rank: RankLoad) -> str:
    return f"server {rank.rank}" if rank.is_server else f"rank {rank.rank}"
