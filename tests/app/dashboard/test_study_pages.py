"""A study's page says what the command of its kind says, what was asked, and what two studies ask differently."""

from __future__ import annotations

from html import unescape
from typing import Any

from emplace.placement.plan import PlanOptions
from emplace.studies.asked import AskedSweep
from emplace.studies.axes import Axis, QuestionPart
from emplace.studies.jobs import NodesAndServers
from emplace.studies.recommend import RankingObjective
from emplace.studies.sized_job import SizedJob, SizeOutcome
from tests.app.dashboard.demo import Site
from tests.app.stored_studies import HOSTS, MODEL, OPTIONS, a_ranking, a_sizing, a_sweep, store_study, sweep_figures


def page_of(site: Site, address: str) -> str:
    answer = site.api.get(address)
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


def twin(site: Site, address: str) -> dict[str, Any]:
    found: dict[str, Any] = site.api.get(f"{address}{'&' if '?' in address else '?'}format=json").json()
    return found


def test_a_sizing_says_which_cheaper_sizes_are_undecided(site: Site) -> None:
    asked, [job] = a_sizing()
    assert isinstance(job, SizedJob)
    open_job = job.model_copy(update={"smaller_undecided": (NodesAndServers(nodes=3, parameter_servers=0),)})
    page = page_of(site, f"/studies/{store_study(site.database, asked, [open_job])}")
    assert f"Why no fewer on {job.host}" in page
    assert "nodes: 1: forward" in page
    assert "smaller: 1 cheaper size undecided: 3 nodes" in page


def test_a_sizing_without_a_job_says_why(site: Site) -> None:
    asked, [job] = a_sizing()
    assert isinstance(job, SizedJob)
    none = SizedJob(host=job.host, training=job.training, outcome=SizeOutcome.IMPOSSIBLE, why_impossible="dense layers alone take 9 s")
    page = page_of(site, f"/studies/{store_study(site.database, asked, [none])}")
    assert "Why none" in page
    assert "dense layers alone take 9 s" in page


def test_a_sweep_shows_its_fronts(site: Site) -> None:
    asked = a_sweep(64, 128).model_copy(update={"fronts": (("throughput", "servers"),)})
    parts = twin(site, f"/studies/{store_study(site.database, asked, sweep_figures(asked))}")["answer"]["parts"]
    [front] = [part for part in parts if part["title"] == "Pareto front of throughput and servers"]
    assert front["heads"][0] == "host"
    assert front["rows"]


def test_a_ranking_says_what_to_measure(site: Site) -> None:
    asked, made = a_ranking()
    parts = [each.model_copy(update={"value_range": (1.0, 1e12)}) for each in made]
    page = page_of(site, f"/studies/{store_study(site.database, asked, parts)}")
    assert "What would decide what is too close to call" in page


def test_a_figure_says_how_many_lines_it_leaves_out(site: Site) -> None:
    batches = Axis(path="/local_batch_size", part=QuestionPart.MODEL, values=(32, 64, 128, 256, 512, 1024))
    gaps = Axis(path="--gap", part=QuestionPart.OPTIONS, values=(0.1, 0.2, 0.3, 0.4, 0.5))
    asked = AskedSweep(model=MODEL, hosts=HOSTS, options=OPTIONS, axes=(batches, gaps))
    figures = sweep_figures(a_sweep(*batches.values))
    study_id = store_study(site.database, asked, [figure for figure in figures for _ in gaps.values])
    assert "8 of 10 lines" in page_of(site, f"/studies/{study_id}")


def test_a_study_remembers_what_was_asked(site: Site) -> None:
    asked = a_sweep(64, 128)
    study_id = store_study(site.database, asked, sweep_figures(asked))
    assert site.api.get(f"/v1/studies/{study_id}").json()["asked"] == asked.to_data()
    facts = twin(site, f"/studies/{study_id}")["asked"]
    assert facts["/local_batch_size"] == "64, 128"
    assert facts["ranks"] == "2"
    assert MODEL.content_digest()[:19] in facts["model"]
    sizing, parts = a_sizing()
    facts = twin(site, f"/studies/{store_study(site.database, sizing, parts)}")["asked"]
    assert facts["to reach"] == "1.00k examples/s"
    assert facts["least of"] == "servers"


def test_what_two_studies_ask_differently_comes_first(site: Site) -> None:
    asked = a_sweep(64, 128)
    other = asked.model_copy(update={"options": PlanOptions(ranks=2, gap=0.2), "axes": a_sweep(64, 256).axes})
    ids = [store_study(site.database, each, sweep_figures(each)) for each in (asked, other)]
    address = f"/studies/compare?study={ids[0]}&study={ids[1]}"
    changes = {each["where"]: (each["before"], each["after"]) for each in twin(site, address)["questions"]}
    assert changes == {"/options/gap": ("0.001", "0.2"), "/varied/local_batch_size": ("64, 128", "64, 256")}
    page = page_of(site, address)
    assert page.index("What they ask differently") < page.index("What both have")


def test_rankings_by_different_objectives_are_not_compared(site: Site) -> None:
    asked, parts = a_ranking()
    other = asked.model_copy(update={"objective": RankingObjective.THROUGHPUT_PER_WATT})
    ids = [store_study(site.database, each, parts) for each in (asked, other)]
    address = f"/studies/compare?study={ids[0]}&study={ids[1]}"
    assert all(point.get("change") is None for point in twin(site, address)["points"])
    assert "They are of different things, examples/s and examples/J" in page_of(site, address)
