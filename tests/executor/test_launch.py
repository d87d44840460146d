"""Whatever ends a run early: the root cause is named, and no process and no file is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from benchmarks.faults import NotPermitted, Tally, inject, processes_of, store_plan
from emplace.executor.errors import ExecutionCancelled, ExecutionFailed
from emplace.executor.launch import Launch, launch_ranks
from emplace.executor.run import run_plan
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import read_file
from emplace.runtime.rank_process import RankProcess
from tests.executor.plans import build_plan, column_wise, make_model

pytestmark = pytest.mark.torch

HANG_TIMEOUT_S = 25
SLEEPING = ["tests.executor.programs.sleeping_rank"]


@pytest.fixture(scope="module")
def plan(here: HostSpec) -> Plan:
    """It has one table: its steps are the shortest."""
    model = make_model()
    model = model.model_copy(update={"tables": model.tables[:1]})
    return build_plan(model, here, {"user": column_wise(model.tables[0], [1, 0])}, ranks=2)


class Run:
    """A run of very many steps, with something done to it when a line of progress comes."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self.ranks: list[psutil.Process] = []

    def look(self) -> list[psutil.Process]:
        """The ranks' processes, and the agent's."""
        said = [read_file(path, RankProcess) for path in sorted(self.workdir.glob("*/process-rank*.json"))]
        self.ranks = [psutil.Process(process.pid) for process in said]
        return self.ranks

    def assert_nothing_left(self) -> None:
        assert self.ranks
        _, alive = psutil.wait_procs(self.ranks, timeout=5)
        assert alive == []
        assert list(self.workdir.iterdir()) == []


def test_a_rank_killed_while_training(plan: Plan, tmp_path: Path) -> None:
    run = Run(tmp_path)

    def report(line: str) -> None:
        if line.endswith(": training"):
            run.look()[1].send_signal(signal.SIGKILL)

    with pytest.raises(ExecutionFailed, match="rank 1 was killed by SIGKILL; the kernel sends it when memory runs out") as failure:
        run_plan(plan, Launch(steps=100_000, seed=0, workdir=tmp_path, timeout_s=120, report=report))
    assert failure.value.rank == 1
    run.assert_nothing_left()


def test_the_agent_killed(plan: Plan, tmp_path: Path) -> None:
    """Ranks have sessions of their own and nobody to end them: they end themselves."""
    run = Run(tmp_path)

    def kill_the_agent() -> bool:
        if not run.ranks and len(run.look()) == 2:
            agent = run.ranks[0].parent()
            assert agent is not None
            assert agent.pid != os.getpid()
            agent.send_signal(signal.SIGKILL)
        return False

    with pytest.raises(ExecutionFailed, match="the ranks' parent process was killed by SIGKILL"):
        run_plan(
            plan, Launch(steps=1, seed=0, workdir=tmp_path, timeout_s=120, should_stop=kill_the_agent, program=[*SLEEPING, "listening"])
        )
    run.assert_nothing_left()


def test_a_cancelled_run_ends_at_once(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(ExecutionCancelled):
        run_plan(plan, Launch(steps=10, seed=0, workdir=tmp_path, timeout_s=120, should_stop=lambda: True))
    assert list(tmp_path.iterdir()) == []


def _sleep(folder: Path, how: str, should_stop: Callable[[], bool], timeout_s: float) -> None:
    launch = Launch(steps=0, seed=0, workdir=folder, timeout_s=timeout_s, should_stop=should_stop, program=[*SLEEPING, how])
    launch_ranks(launch, 2, folder)


def _sleepers(folder: Path) -> list[psutil.Process]:
    return [psutil.Process(read_file(path, RankProcess).pid) for path in folder.glob("process-rank*.json")]


@pytest.fixture(scope="module", autouse=True)
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Future[None], list[psutil.Process]]]:
    """A launch whose ranks hang until its time is up, beside the other tests of this file: it only waits. And those ranks."""
    folder, sleepers, is_over = tmp_path_factory.mktemp("hung"), list[psutil.Process](), threading.Event()

    def look() -> bool:
        if len(sleepers) < 2:
            sleepers[:] = _sleepers(folder)
        return is_over.is_set()

    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(_sleep, folder, "deaf", look, HANG_TIMEOUT_S), sleepers
        is_over.set()


def test_cancelling_ends_every_rank(tmp_path: Path) -> None:
    sleepers: list[psutil.Process] = []
    asked_at: list[float] = []

    def should_stop() -> bool:
        if len(list(tmp_path.glob("process-rank*.json"))) == 2 and not asked_at:
            sleepers.extend(_sleepers(tmp_path))
            asked_at.append(time.monotonic())
        return bool(asked_at)

    with pytest.raises(ExecutionCancelled):
        _sleep(tmp_path, "listening", should_stop, 60)
    assert time.monotonic() - asked_at[0] < 20
    assert len(sleepers) == 2
    assert not any(sleeper.is_running() for sleeper in sleepers)


@pytest.fixture(scope="module")
def stored(plan: Plan, here: HostSpec, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small plan, and one of tables that don't fit where memory is limited."""
    small, folder = tmp_path_factory.mktemp("small") / "plan.json", tmp_path_factory.mktemp("stored")
    small.write_text(plan.canonical_json())
    return {"small": small, "large": store_plan(folder, here)}


@pytest.mark.parametrize(("fault", "of"), [("memory limit", "large"), ("raises on a full disk", "small"), ("file too large", "small")])
def test_what_the_system_refuses(fault: str, of: str, stored: dict[str, Path]) -> None:
    """Those of the benchmark's injections that nothing else here is like, once each. The rank that it happens to is named, not the one
    that loses it."""
    tally = Tally()
    try:
        inject(fault, stored[of], tally)
    except NotPermitted as reason:
        pytest.skip(str(reason))
    assert tally.wrong_causes == []
    assert tally.is_clean
    assert len(tally.seconds) == 1


def test_an_orphan_would_be_seen(tmp_path: Path) -> None:
    orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", str(tmp_path)])
    try:
        assert len(processes_of(tmp_path)) == 1
    finally:
        orphan.kill()
        orphan.wait()
    assert processes_of(tmp_path) == []


def test_ranks_that_hang_are_ended_when_time_is_up(hung: tuple[Future[None], list[psutil.Process]]) -> None:
    """Deaf to the agent's SIGTERM, they are killed by what they wrote down about themselves. Last: their time is up by now."""
    launch, sleepers = hung
    said = f"did not end within {HANG_TIMEOUT_S} s; rank 0 was last seen asleep, rank 1 was last seen asleep"
    with pytest.raises(ExecutionFailed, match=said):
        launch.result(2 * HANG_TIMEOUT_S)
    assert len(sleepers) == 2
    assert not any(sleeper.is_running() for sleeper in sleepers)
