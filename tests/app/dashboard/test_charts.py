"""Charts as data, and how they are drawn: without a browser."""

from __future__ import annotations

import re

import numpy as np
import pytest

from emplace.app.dashboard.catalog.models_page import access_chart, sizes_chart
from emplace.app.dashboard.charts.heat_map import LEVELS, heat_map
from emplace.app.dashboard.charts.host import host_chart
from emplace.app.dashboard.charts.memory import memory_charts
from emplace.app.dashboard.charts.mirror import Pair, mirror
from emplace.app.dashboard.charts.points import axis
from emplace.app.dashboard.charts.ranks import MOST_SHOWN
from emplace.app.dashboard.charts.search import search_chart
from emplace.app.dashboard.charts.step import step_chart
from emplace.app.dashboard.compare.compare_page import compared_stages, mirrors
from emplace.app.dashboard.drawing.heat_map import draw_heat_map
from emplace.app.dashboard.drawing.host import draw_host
from emplace.app.dashboard.drawing.memory import draw_memory
from emplace.app.dashboard.drawing.mirror import draw_mirror
from emplace.app.dashboard.drawing.points import draw_points, shown, ticks
from emplace.app.dashboard.drawing.step import draw_step
from emplace.app.dashboard.loaded import LoadedPlan
from emplace.app.dashboard.plan.limits import limits
from emplace.app.dashboard.plan.table_lines import table_lines
from emplace.app.dashboard.runs.run_page import compare_stages, stages_chart
from emplace.app.dashboard.units import size_unit, time_unit
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage
from tests.app.dashboard.demo import EVENTS, question_of
from tests.app.finished import measurement_of, plan_of
from tests.app.questions import a_question, model_data
from tests.executor.plans import build_plan, table_wise


@pytest.fixture(scope="module")
def m3() -> Plan:
    return plan_of(question_of("m3", "big-basin-16g", ranks=8))


@pytest.mark.parametrize("ranks_per_core", [1.0, 2.0])
def test_stages_of_a_step_add_up_to_its_headline(ranks_per_core: float) -> None:
    question = a_question()
    plan = plan_of(question.model_copy(update={"cost_model": question.cost_model.model_copy(update={"ranks_per_core": ranks_per_core})}))
    chart = step_chart(plan)
    assert chart.spans[-1].end_us == pytest.approx(plan.step_time_us)
    assert all(after.start_us == before.end_us for before, after in zip(chart.spans, chart.spans[1:], strict=False))
    assert [rank.own_us for rank in chart.ranks] == pytest.approx([rank.step_time_us for rank in plan.ranks])


def test_each_stage_lasts_until_its_slowest_rank_and_the_others_wait(m3: Plan) -> None:
    chart = step_chart(m3)
    for index, span in enumerate(chart.spans[:-1]):
        works = {rank.rank: rank.work_us[index] for rank in chart.ranks}
        assert span.slowest is not None
        assert max(works.values()) == works[span.slowest] == pytest.approx(span.length_us)
    lasts = sum(span.length_us for span in chart.spans if span.slowest is not None)
    for rank in chart.ranks:
        assert rank.own_us + rank.waits_us == pytest.approx(lasts)
    assert max(rank.own_us for rank in chart.ranks) < lasts


def test_a_step_is_drawn_to_scale_with_waiting_and_bound(m3: Plan) -> None:
    chart = step_chart(m3)
    drawing = str(draw_step(chart))
    pale = {key: float(width) for key, width in re.findall(r'class="segment wait (\w+)" [^>]*width="([\d.]+)"', drawing)}
    track = sum(pale.values())
    for span in chart.spans:
        assert pale[span.key] == pytest.approx(track * span.length_us / chart.step_us, abs=0.1)
    assert drawing.count('class="over"') == len(m3.ranks)
    assert 'class="bound"' in drawing


def test_ranks_by_load_begin_with_the_busiest_and_end_with_the_idle(m3: Plan) -> None:
    own = [rank.own_us for rank in step_chart(m3, by_load=True).ranks]
    assert own == sorted(own, reverse=True)
    assert [rank.rank for rank in step_chart(m3).ranks] == list(range(8))


def test_of_too_many_ranks_the_busiest_and_the_most_idle_are_shown(m3: Plan) -> None:
    first = m3.ranks[0]
    many = tuple(first.model_copy(update={"rank": n, "step_time_us": float(n), "stages_us": {Stage.DENSE: float(n)}}) for n in range(400))
    chart = step_chart(m3.model_copy(update={"ranks": many}))
    shown = {rank.rank for rank in chart.ranks}
    assert len(shown) == MOST_SHOWN
    assert chart.left_out == 400 - MOST_SHOWN
    assert {0, 1, 398, 399} <= shown


def test_memory_is_told_apart_by_its_largest_tables(m3: Plan) -> None:
    (chart,) = memory_charts(m3)
    held: dict[int, dict[str, int]] = {}
    for table in m3.tables:
        for shard in table.shards:
            held.setdefault(shard.rank, {})[table.name] = shard.hbm_bytes
    for rank, memory in zip(m3.ranks, chart.memories, strict=True):
        largest = sorted(held[rank.rank].items(), key=lambda item: -item[1])[:3]
        assert [(part.title, part.bytes) for part in memory.parts[:3]] == largest
        assert sum(part.bytes for part in memory.parts) == memory.used_bytes == rank.hbm_bytes
        assert memory.limit_bytes == rank.hbm_capacity_bytes
        assert memory.capacity_bytes == m3.question.host.node.devices[0].hbm_capacity
    drawing = str(draw_memory(chart))
    assert drawing.count('class="limit"') == drawing.count('class="reserve"') == 8


def test_a_cpu_host_shows_the_memory_of_its_nodes() -> None:
    plan = plan_of(a_question())
    (chart,) = memory_charts(plan)
    assert [(memory.used_bytes, memory.limit_bytes) for memory in chart.memories] == [
        (node.ddr_bytes, node.ddr_capacity_bytes) for node in plan.nodes
    ]


def test_the_search_is_cut_where_it_tells_nothing_more() -> None:
    chart = search_chart(EVENTS)
    assert chart is not None
    assert [moment.best_us for moment in chart.moments] == [None, 2000.0, 1250.0]
    assert chart.low_us < 900
    assert chart.high_us > 2000
    assert search_chart(EVENTS[:1]) is None


def test_a_map_has_each_table_where_it_is(m3: Plan) -> None:
    loaded = LoadedPlan(m3)
    amounts = loaded.amounts["bytes"]
    chart = heat_map("Bytes", "bytes", [table.name for table in m3.tables], amounts, range(len(m3.tables)))
    for table, row in zip(m3.tables, chart.rows, strict=True):
        assert [(run.first, run.ranks) for run in row.runs] == [(table.shards[0].rank, 1)]
        assert row.total == table.shards[0].hbm_bytes + table.shards[0].ddr_bytes
    assert max(run.level for row in chart.rows for run in row.runs) == LEVELS
    assert chart.sums == pytest.approx([sum(amounts[:, rank]) for rank in range(8)])
    assert str(draw_heat_map(chart)).count('class="over"') == len(m3.tables)


def test_neighbours_with_as_much_are_one_run() -> None:
    chart = heat_map("Bytes", "bytes", ["a"], np.array([[4.0, 4.0, 0.0, 1.0]]), [0])
    assert [(run.first, run.ranks, run.level) for run in chart.rows[0].runs] == [(0, 2, LEVELS), (3, 1, LEVELS // 2)]


def test_figures_of_tables_add_up_to_what_the_plan_says(m3: Plan) -> None:
    loaded = LoadedPlan(m3)
    lines = table_lines(loaded)
    assert sum(line.bytes for line in lines) == sum(shard.hbm_bytes + shard.ddr_bytes for table in m3.tables for shard in table.shards)
    assert sum(line.lookups_share for line in lines) == pytest.approx(1)
    assert sum(line.time_share for line in lines) == pytest.approx(1)
    assert loaded.amounts["lookups"].sum() == pytest.approx(sum(line.lookups for line in lines))


def test_what_limits_a_step_is_said_in_sentences(m3: Plan) -> None:
    found = limits(LoadedPlan(m3))
    assert sum(stage.time_us for stage in found.stages) == pytest.approx((m3.step_time_us or 0) - m3.question.cost_model.step_overhead_us)
    worst = max(found.stages, key=lambda stage: stage.time_us - stage.mean_us)
    assert any(f"{worst.title.capitalize()} lasts" in sentence and worst.waits_for in sentence for sentence in found.sentences)


@pytest.mark.parametrize("values", [(20_000, 27_000), (3.0, 3.1), (11.0, 90.0), (1.0, 5e9), (0.002, 0.0021)])
def test_a_logarithmic_axis_has_a_scale(values: tuple[float, float]) -> None:
    drawn = axis("rows", "number", values, is_log=True)
    found = ticks(drawn)
    assert 2 <= len(found) <= 8
    assert all(drawn.low <= value <= drawn.high for value in found)
    assert len({shown(drawn, value) for value in found}) == len(found)


def test_mirrored_plans_stand_on_one_scale() -> None:
    chart = mirror("Own work", "time", ("before", "after"), [Pair("rank 0", 100.0, 50.0), Pair("rank 1", None, 200.0)])
    assert [(pair.left, pair.right) for pair in chart.pairs] == [(100.0, 50.0), (None, 200.0)]
    widths = re.findall(r'class="segment (before|after)" [^>]*width="([\d.]+)"', str(draw_mirror(chart)))
    by_side = [float(width) for _, width in widths]
    assert by_side[0] == pytest.approx(by_side[3] / 2, abs=0.02)
    assert by_side[1] == pytest.approx(by_side[3] / 4, abs=0.02)


def test_stages_are_compared_by_their_slowest_rank() -> None:
    plan = plan_of(a_question())
    rows = {row.title: row for row in compare_stages(plan, measurement_of(plan))}
    forward = rows["lookup forward"]
    assert forward.predicted_us == max(rank.stages_us[Stage.LOOKUP_FORWARD] for rank in plan.ranks)
    assert forward.measured_us == pytest.approx(0.75 * (plan.step_time_us or 0))
    assert forward.error == pytest.approx(forward.predicted_us / (forward.measured_us or 1) - 1)
    assert rows["dense layers"].measured_us is None
    assert sum(row.predicted_us for row in rows.values()) == pytest.approx(plan.step_time_us)


def test_points_above_the_diagonal_took_longer_than_predicted() -> None:
    plan = plan_of(a_question())
    chart = stages_chart(plan, measurement_of(plan))
    assert chart is not None
    assert {point.label for point in chart.points} == {"rank 0, lookup forward", "rank 1, lookup forward"}
    assert chart.x.low == chart.y.low
    assert 'class="equal"' in str(draw_points(chart))


def test_a_model_shows_its_tables_by_size_and_use() -> None:
    model = builtin_model("m3")
    chart = sizes_chart(model)
    assert len(chart.points) == len(model.tables)
    assert sum(chart.margin(chart.x, [point.x for point in chart.points])) == len(model.tables)
    curves = access_chart(list(model.tables))
    assert curves is not None
    assert all(curve.points[-1][1] == pytest.approx(1) for curve in curves.curves)


def test_of_equal_tables_one_is_named_at_their_place() -> None:
    tables = [
        table | {"num_embeddings": 1000, "features": [{"name": table["name"], "length": {"fixed": 3}}]} for table in model_data()["tables"]
    ]
    drawn = draw_points(sizes_chart(ModelSpec.model_validate(model_data(tables=0) | {"tables": tables})))
    assert drawn.count("<circle") == 3
    assert re.findall(r"table_\d(?=</text>)", drawn) == ["table_0"]


def test_a_host_is_drawn_with_its_links() -> None:
    drawing = str(draw_host(host_chart(builtin_host("big-basin-16g"))))
    assert drawing.count("v100-16g: 16GiB at 900GB/s") == 8
    for words in ("150GB/s of each device", "system memory 256GiB", "remote servers: 16"):
        assert words in drawing


def test_units_are_those_of_the_largest_value() -> None:
    assert time_unit([4.0, 98_490.0]).number(4.0) == "<0.01"
    assert time_unit([5.0, 98_490.0]).number(98_490.0) == "98.49"
    assert time_unit([812.3]).show(812.3) == "812.3 us"
    assert size_unit([10, 3 * 2**30]).show(10 * 2**20) == "0.01 GiB"
    assert time_unit([1e13]).number(1e13) == "1e+07"
    assert time_unit([None]).number(None) == "-"


def test_an_axis_has_room_for_all_values() -> None:
    level = axis("x", "count", [10.0, 1000.0], is_log=True)
    assert 0 < level.place(10.0) < level.place(100.0) < level.place(1000.0) < 1
    assert level.place(100.0) == pytest.approx(0.5)


def on_servers(ranks: int) -> Plan:
    """Two tables on two servers, and one on a trainer."""
    host = builtin_host("big-basin-16g")
    first, second, third = a_question().model.tables
    remote = host.remote_servers
    assert remote is not None
    few = host.model_copy(update={"remote_servers": remote.model_copy(update={"count": 2})})
    layouts = {first.name: table_wise(first, 0), second.name: table_wise(second, ranks), third.name: table_wise(third, ranks + 1)}
    return build_plan(a_question().model, few, layouts, ranks=ranks)


def test_a_server_has_one_name_in_every_chart() -> None:
    plan = on_servers(4)
    names = [rank.label for rank in step_chart(plan).ranks[4:]]
    assert names == ["server 4", "server 5"]
    nodes = next(chart for chart in memory_charts(plan) if chart.title.startswith("System"))
    assert [memory.label for memory in nodes.memories] == ["node 0", *names]


def test_trainers_stand_beside_trainers_and_servers_beside_servers() -> None:
    before, after = on_servers(2), on_servers(4)
    own, devices, nodes = mirrors(before, after)
    servers = ["servers 2, 4", "servers 3, 5"]
    assert [pair.label for pair in own.pairs] == ["rank 0", "rank 1", "rank 2", "rank 3", *servers]
    assert own.pairs[2].left is None
    assert own.pairs[4] == Pair(servers[0], before.ranks[2].step_time_us, after.ranks[4].step_time_us)
    assert [pair.label for pair in devices.pairs] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert [pair.label for pair in nodes.pairs] == ["node 0", *servers]


def test_compared_stages_add_up_to_both_steps() -> None:
    before, after = on_servers(2), on_servers(4)
    rows = compared_stages(before, after)
    assert sum(row.before_us for row in rows) == pytest.approx(before.step_time_us)
    assert sum(row.after_us for row in rows) == pytest.approx(after.step_time_us)
