"""The charts as data, and how they are drawn."""

from __future__ import annotations

import re

import pytest

from emplace.app.dashboard.charts import MAX_BARS, memory_charts, stage_chart
from emplace.app.dashboard.comparison import compare_stages
from emplace.app.dashboard.svg import draw
from emplace.app.reports.figures import microseconds
from emplace.placement.catalog import builtin_host
from emplace.placement.stages import Stage
from tests.app.finished import measurement_of, plan_of
from tests.app.questions import a_question
from tests.prices import bandwidth_prices


def test_stage_bars_add_up_to_each_ranks_own_work_and_the_overhead() -> None:
    plan = plan_of(a_question())
    chart = stage_chart(plan)
    overhead_us = plan.question.cost_model.step_overhead_us
    assert overhead_us > 0
    assert [bar.total for bar in chart.bars] == pytest.approx([rank.step_time_us + overhead_us for rank in plan.ranks])
    assert chart.scale == max(bar.total for bar in chart.bars)
    assert [key for key, _ in chart.legend] == [*(stage for stage in Stage if plan.ranks[0].stages_us.get(stage)), "overhead"]


def test_memory_bars_are_the_plans_bytes_against_capacity() -> None:
    plan = plan_of(a_question())
    by_rank, by_node = memory_charts(plan)
    assert [bar.total for bar in by_rank.bars] == [rank.ddr_bytes for rank in plan.ranks]
    assert [(bar.total, bar.limit) for bar in by_node.bars] == [(node.ddr_bytes, node.ddr_capacity_bytes) for node in plan.nodes]
    assert by_node.scale == plan.nodes[0].ddr_capacity_bytes


def test_a_cuda_host_shows_device_memory() -> None:
    question = a_question()
    host = builtin_host("dgx-h100")
    plan = plan_of(question.model_copy(update={"host": host, "cost_model": bandwidth_prices(host)}))
    chart = memory_charts(plan)[0]
    assert chart.title == "Device memory of each rank"
    assert [bar.limit for bar in chart.bars] == [rank.hbm_capacity_bytes for rank in plan.ranks]


def test_of_many_ranks_the_most_loaded_are_shown_in_order() -> None:
    plan = plan_of(a_question())
    rank = plan.ranks[0]
    many = [rank.model_copy(update={"rank": index, "stages_us": {Stage.DENSE: float(index % 100)}}) for index in range(200)]
    chart = stage_chart(plan.model_copy(update={"ranks": tuple(many)}))
    assert len(chart.bars) == MAX_BARS
    assert chart.left_out == 200 - MAX_BARS
    assert min(bar.total for bar in chart.bars) >= 100 - MAX_BARS / 2
    assert [int(bar.label.split()[1]) for bar in chart.bars] == sorted(int(bar.label.split()[1]) for bar in chart.bars)


def test_the_drawing_is_to_scale() -> None:
    drawing = str(draw(stage_chart(plan_of(a_question())), microseconds))
    assert drawing.startswith("<svg")
    assert drawing.endswith("</svg>")
    widths = [float(width) for width in re.findall(r'class="segment [a-z_]+" x="[\d.]+" y="\d+" width="([\d.]+)"', drawing)]
    track = float(re.findall(r'class="track"[^>]* width="(\d+)"', drawing)[0])
    bars = stage_chart(plan_of(a_question())).bars
    assert sum(widths) == pytest.approx(track * sum(bar.total for bar in bars) / max(bar.total for bar in bars), abs=0.05 * len(widths))


def test_stages_are_compared_by_their_slowest_rank() -> None:
    plan = plan_of(a_question())
    rows = {row.title: row for row in compare_stages(plan, measurement_of(plan))}
    forward = rows["lookup forward"]
    assert forward.predicted_us == max(rank.stages_us[Stage.LOOKUP_FORWARD] for rank in plan.ranks)
    assert forward.measured_us == pytest.approx(0.75 * (plan.step_time_us or 0))
    assert rows["dense layers"].measured_us is None


@pytest.mark.parametrize("ranks_per_core", [1.0, 2.0])
def test_predicted_stages_and_the_overhead_add_up_to_the_step(ranks_per_core: float) -> None:
    question = a_question()
    cost_model = question.cost_model.model_copy(update={"ranks_per_core": ranks_per_core})
    plan = plan_of(question.model_copy(update={"cost_model": cost_model}))
    rows = compare_stages(plan, measurement_of(plan))
    assert rows[-1].title == "overhead"
    assert sum(row.predicted_us for row in rows) == pytest.approx(plan.step_time_us)
