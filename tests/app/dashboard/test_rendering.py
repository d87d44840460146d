"""Pages as they are sent: part by part, and without drawing again what never changes."""

from __future__ import annotations

import zlib

from emplace.app.dashboard.rendering import packed
from tests.app.dashboard.demo import Site, store
from tests.app.finished import measurement_of, plan_of, store_run
from tests.app.questions import a_question


def test_a_packed_part_is_there_before_the_next_is_made() -> None:
    parts = ["<p>first</p>" * 1000, "<p>second</p>", ""]
    reader, made = zlib.decompressobj(wbits=31), packed(iter(parts))
    for part in parts:
        assert reader.decompress(next(made)) == part.encode()
    assert reader.decompress(next(made)) == b""
    assert reader.eof


def test_a_page_that_was_drawn_has_what_came_since(site: Site) -> None:
    plan = plan_of(a_question(seed=71))
    plan_id = store(site, plan)
    before = site.api.get(f"/plans/{plan_id}").text
    assert "Measured step" not in before
    store_run(site.database, plan_id, measurement_of(plan))
    after = site.api.get(f"/plans/{plan_id}").text
    assert "Measured step" in after
    chart = '<svg viewBox="'
    assert after[after.index(chart) :].partition("</svg>")[0] == before[before.index(chart) :].partition("</svg>")[0]
    by_load = site.api.get(f"/plans/{plan_id}?ranks=load").text
    assert 'ranks=load#step" aria-current="true"' in by_load


def test_a_gap_that_is_next_to_nothing_is_spelled(site: Site) -> None:
    plan_id = store(site, plan_of(a_question(seed=92)).model_copy(update={"gap": 1e-6}))
    sentence = site.api.get(f"/plans/{plan_id}?format=json").json()["verdict"]["sentence"]
    assert sentence.endswith("no placement is more than 0.01% faster.")
