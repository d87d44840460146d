"""Stored plans of every kind, made without a solver, on one server that a module's tests share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy.orm import Session

from emplace.app.application import create_app
from emplace.app.database import jobs, plans
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow
from emplace.app.jobs.warm import WarmProcess
from emplace.app.server import server_of
from emplace.app.settings import Settings
from emplace.app.web.service import PATIENCE_S
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.measurement import Emulation
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Explanation, Fix, Plan, PlanOptions, PlanStatus, Question
from tests.app.finished import infeasible_plan_of, measurement_of, plan_of, store_run
from tests.app.processes import wait_until
from tests.app.questions import a_question, model_data
from tests.app.stored_studies import a_batch, a_ranking, a_sizing, a_sweep, store_study, sweep_figures
from tests.prices import bandwidth_prices

EVENTS: list[dict[str, Any]] = [
    {"incumbent_us": None, "bound_us": 900.0, "gap": None, "elapsed_s": 0.1, "phase": "bound"},
    {"incumbent_us": 2000.0, "bound_us": 1000.0, "gap": 0.5, "elapsed_s": 0.5, "phase": "search"},
    {"incumbent_us": 1250.0, "bound_us": 1000.0, "gap": 0.2, "elapsed_s": 1.5, "phase": "search"},
]


@dataclass
class Site:
    """A running service. `ids` are of its plans by what they show, `runs` of runs by their plan's."""

    url: str
    database: Database
    api: httpx.Client
    ids: dict[str, str] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    def study(self, name: str) -> str:
        return f"/studies/{self.ids[name]}"

    def plan(self, name: str) -> str:
        return f"/plans/{self.ids[name]}"

    def every_view(self) -> list[str]:
        """An address of each view, of plans in each state."""
        plain, m3 = self.plan("plain"), self.plan("m3")
        parts = [f"{plain}/tables", f"{plain}/map?by=time", f"{m3}/what-if?hbm=32GiB", f"{plain}/runs/{self.runs['plain']}"]
        listed = ["/", "/?q=no-such", "/new", f"/new?plan={self.ids['plain']}", "/models", "/models/m3", "/hosts", "/hosts/big-basin-16g"]
        studies = [
            "/studies",
            *(f"/studies/new?kind={kind}" for kind in ("sweep", "size", "recommend", "batch")),
            *map(self.study, ("swept", "sized", "ranked", "batched", "sweeping")),
        ]
        studies += [f"/studies/compare?study={self.ids['swept']}&study={self.ids['swept again']}"]
        others = ["/profiles", "/overview", "/runs?host=none", f"/compare?plan={self.ids['plain']}&plan={self.ids['seeded']}"]
        return [
            *map(self.plan, ("plain", "fixable", "failed", "queued")),
            *parts,
            *listed,
            *studies,
            *others,
            f"/plans/delete?plan={self.ids['plain']}",
            "/docs",
        ]

    def refusals(self) -> dict[str, int]:
        """Addresses at which a browser is told why there is no view, and with which status."""
        gone = f"/plans/{'0' * 32}"
        lost = dict.fromkeys(
            ("/no-such-page", gone, f"{gone}/tables", f"{self.plan('plain')}/runs/none", "/models/none", "/studies/none"), 404
        )
        return lost | {f"{self.plan('fixable')}/map": 409, f"/compare?plan={self.ids['plain']}": 422, "/?page=0": 422}


@contextmanager
def serving(url: str, home: Path, warm: WarmProcess) -> Iterator[Site]:
    """The service on a free port, without a worker."""
    settings = Settings(home=home, database_url=url)
    database = Database(url, patience_s=PATIENCE_S)
    server = server_of(create_app(settings, database, warm, with_worker=False), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, 20)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=60, verify=False, headers={"Accept": "text/html"}) as api:
            yield Site(address, database, api)
    finally:  # else a test that fails while it stores would never end
        server.should_exit = True
        thread.join(20)
        database.close()


def store_demo(site: Site) -> None:
    """Store small plans: plain (measured 50% longer), seeded, optimal, fixable, failed, cancelled, emulated, queued. And m3 on its host."""
    plain = plan_of(a_question())
    site.ids["plain"] = store(site, plain)
    site.runs["plain"] = store_run(site.database, site.ids["plain"], measurement_of(plain))
    site.ids["seeded"] = store(site, plan_of(a_question(seed=7)))
    optimal = plan_of(a_question(seed=8)).model_copy(update={"status": PlanStatus.OPTIMAL, "gap": 0.0})
    site.ids["optimal"] = store(site, optimal)
    site.ids["fixable"] = store(site, fixable_plan(a_question(seed=9)))
    site.ids["m3"] = store(site, plan_of(question_of("m3", "big-basin-16g", ranks=8)), EVENTS)
    emulated = plan_of(a_question(seed=10))
    site.ids["emulated"] = store(site, emulated)
    emulation = Emulation(host="h", holds=True, rows=9, emulated_rows=3, local_batch_size=2, emulated_local_batch_size=1)
    changes = {"emulated": emulation, "verified": False, "ranks": (), "step_time_us": None}
    site.runs["emulated"] = store_run(site.database, site.ids["emulated"], measurement_of(emulated).model_copy(update=changes))
    broken = changes | {"emulated": emulation.model_copy(update={"holds": False})}
    site.runs["emulated in vain"] = store_run(site.database, site.ids["emulated"], measurement_of(emulated).model_copy(update=broken))
    site.ids["failed"] = ask(site, a_question(seed=11))
    end(site, site.ids["failed"], State.FAILED, error="<script>alert(1)</script>")
    site.ids["cancelled"] = ask(site, a_question(seed=12))
    site.api.post("/plans/cancel", data={"plan": site.ids["cancelled"]})
    site.ids["queued"] = ask(site, a_question(seed=13))
    store_studies(site)


def store_studies(site: Site) -> None:
    """swept, and swept again with one value in common; sized, ranked, batched, and sweeping: two of four points are done."""
    for name, asked in (("swept", a_sweep(64, 128, 256)), ("swept again", a_sweep(256, 512))):
        site.ids[name] = store_study(site.database, asked, sweep_figures(asked))
    site.ids["sized"] = store_study(site.database, *a_sizing())
    site.ids["ranked"] = store_study(site.database, *a_ranking())
    site.ids["batched"] = store_study(site.database, *a_batch(256, 16384, 65536, 131072))
    asked = a_sweep(32, 64)
    site.ids["sweeping"] = store_study(site.database, asked, sweep_figures(asked)[:2])


def question_of(model: str, host: str, **options: Any) -> Question:
    spec = builtin_host(host)
    return Question(model=builtin_model(model), host=spec, cost_model=bandwidth_prices(spec), options=PlanOptions(**options))


def large_question() -> Question:
    """1000 tables for 128 ranks."""
    host = builtin_host("dgx-a100-40g")
    model = ModelSpec.model_validate(model_data(tables=1000, name="large", local_batch_size=256))
    return Question(model=model, host=host, cost_model=bandwidth_prices(host), options=PlanOptions(nodes=16, ranks=128))


def fixable_plan(question: Question) -> Plan:
    """One that does not fit, with a fix that carries a patch."""
    patch = {"options": {"seed": 99}}
    fixes = (Fix(change="Take another seed", kind="seed", verified=True, patch=patch),)
    plan = infeasible_plan_of(question)
    return plan.model_copy(update={"explanation": Explanation(reasons=("hbm: 12 bytes over",), fixes=fixes)})


def ask(site: Site, question: Question) -> str:
    """A plan that waits: a worker that never comes would make it."""
    with site.database.writing() as session:
        row, _ = plans.create(session, question, f"seed {question.options.seed}" if question.options.seed else "")
        row.ticket = 1
        return row.id


def store(site: Site, plan: Plan, events: list[dict[str, Any]] | None = None) -> str:
    """A plan as a worker stores it."""
    plan_id = ask(site, plan.question)
    with site.database.writing() as session:
        for event in events or []:
            jobs.add_event(session, plan_id, event)
    end(site, plan_id, State.DONE, document=plan.model_dump_json(exclude_none=True), **plans.columns_of(plan))
    return plan_id


def end(site: Site, plan_id: str, to: State, **values: Any) -> None:
    with site.database.writing() as session:
        ticket = _ticket(session, plan_id)
        assert jobs.take_up(session, ticket)
        assert jobs.finish(session, ticket, to, **values)


def _ticket(session: Session, plan_id: str) -> Ticket:
    return Ticket(PlanRow, plan_id, session.get_one(PlanRow, plan_id).ticket)
