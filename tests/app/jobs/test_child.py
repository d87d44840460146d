"""Child programs: they report, they fail with reasons, and they are gone when they are told to or their parent is."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from emplace.app.jobs.child import run_child
from emplace.app.jobs.child_errors import ChildFailed, ChildLost, ChildStopped
from emplace.app.jobs.warm import WarmProcess
from emplace.placement.plan import Plan
from emplace.placement.reading import read_text
from emplace.runtime.temporary import remove_leftovers
from tests.app.processes import MARK, is_alive, step_processes, wait_until
from tests.app.questions import a_question, busy_question


def ignore(_: dict[str, Any]) -> None:
    pass


def test_the_result_is_an_audited_plan_and_progress_is_reported() -> None:
    seen: list[dict[str, Any]] = []
    text = run_child("solve", a_question().canonical_json(), seen.append, lambda: False)
    assert read_text(text, Plan, source="plan", as_json=True).question == a_question()
    assert {"incumbent_us", "bound_us", "gap", "elapsed_s"} <= set(seen[-1])


def test_bad_input_comes_back_as_problems() -> None:
    broken = json.loads(a_question().canonical_json()) | {"options": {"gap": 7}}
    with pytest.raises(ChildFailed) as caught:
        run_child("solve", json.dumps(broken), ignore, lambda: False)
    assert caught.value.problems[0]["pointer"] == "/options/gap"


@pytest.mark.parametrize("step", ["run", "profile"])
def test_what_takes_the_execute_extra_says_so_where_that_is_not_installed(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["psutil"] = None\n')
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))))
    with pytest.raises(ChildFailed, match=r"^this needs .*psutil.*, which is not installed: pip install '\.\[execute\]'"):
        run_child(step, "{}", ignore, lambda: False)


def test_a_child_that_breaks_is_reported_by_its_last_words() -> None:
    with pytest.raises(ChildFailed, match=r"ended with status 1: .*no_such_step"):
        run_child("no_such_step", "{}", ignore, lambda: False)


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """As a service has that streams events to a thousand clients."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    with ExitStack() as held, open(os.devnull, "rb") as file:
        for _ in range(1024):
            held.callback(os.close, os.dup(file.fileno()))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.usefixtures("many_open_files")
def test_a_child_is_followed_however_many_files_are_open(*, is_warm: bool) -> None:
    with ExitStack() as held:
        warm = held.enter_context(WarmProcess()) if is_warm else None
        text = run_child("solve", a_question().canonical_json(), ignore, lambda: False, warm=warm)
    assert read_text(text, Plan, source="plan", as_json=True).question == a_question()


def test_a_child_is_ended_when_told_to() -> None:
    asked: list[float] = []

    def should_stop() -> bool:
        asked.append(0.0)
        return bool(step_processes()) and len(asked) > 5

    with pytest.raises(ChildStopped):
        run_child("solve", busy_question().canonical_json(), ignore, should_stop)
    assert step_processes() == []


class EndsAtOnce(WarmProcess):
    """Its children have ended, and nothing of them is left, before anyone knows of them."""

    @contextmanager
    def forked(self, step: str, source: Path, target: Path, *, patience_s: float) -> Iterator[Any]:
        del step, patience_s
        source.rename(target)
        with subprocess.Popen(["true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.wait()
            yield child


def test_a_child_may_have_ended_before_it_gives_way() -> None:
    assert run_child("solve", "done", ignore, lambda: False, niceness=5, warm=EndsAtOnce()) == "done"


def test_a_child_gives_way_to_others() -> None:
    """By itself, and where that doesn't count, as a session of its own."""
    seen: set[tuple[int, str]] = set()

    def look() -> bool:
        for pid in step_processes():
            group = Path(f"/proc/{pid}/autogroup")
            seen.add((os.getpriority(os.PRIO_PROCESS, pid), group.read_text().split()[-1] if group.exists() else "10"))
        return bool(seen)

    with pytest.raises(ChildStopped):
        run_child("solve", busy_question().canonical_json(), ignore, look, niceness=10)
    assert seen == {(10, "10")}


def test_a_child_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ChildFailed, match="longer than 1 s"):
        run_child("solve", busy_question().canonical_json(), ignore, lambda: False, timeout_s=1.0)
    assert step_processes() == []


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ChildFailed):
        run_child("no_such_step", "{}", ignore, lambda: False)
    assert list(tmp_path.iterdir()) == []


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    question = tmp_path / "question.json"
    question.write_text(busy_question().canonical_json())
    program = "import sys; from emplace.app.jobs.child import run_child\nrun_child('solve', open(sys.argv[1]).read(), lambda _: None, lambda: False)"
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(question)], env=os.environ | {MARK: str(os.getpid()), "TMPDIR": str(tmp_path)}
    )
    child = wait_until(step_processes, 60)[0]
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    wait_until(lambda: not is_alive(child), 10)
    [left] = tmp_path.glob("emplace-solve-*")
    remove_leftovers(tmp_path)
    assert not left.exists()


def test_forks_of_a_warm_process_answer_as_programs_of_their_own_do(warm: WarmProcess) -> None:
    seen: list[dict[str, Any]] = []
    for _ in range(2):
        text = run_child("solve", a_question().canonical_json(), seen.append, lambda: False, warm=warm)
        plan = read_text(text, Plan, source="plan", as_json=True)
    cold = read_text(run_child("solve", a_question().canonical_json(), ignore, lambda: False), Plan, source="plan", as_json=True)
    assert plan.tables == cold.tables
    assert {"incumbent_us", "bound_us", "gap", "elapsed_s"} <= set(seen[-1])
    broken = json.loads(a_question().canonical_json()) | {"options": {"gap": 7}}
    with pytest.raises(ChildFailed) as caught:
        run_child("solve", json.dumps(broken), ignore, lambda: False, warm=warm)
    assert caught.value.problems[0]["pointer"] == "/options/gap"
    with pytest.raises(ChildFailed, match=r"ended with status 1: KeyError: 'no_such_step'"):
        run_child("no_such_step", "{}", ignore, lambda: False, warm=warm)


def test_a_fork_is_ended_when_told_to_or_killed_and_the_next_one_works(warm: WarmProcess) -> None:
    with pytest.raises(ChildStopped):
        run_child("solve", busy_question().canonical_json(), ignore, lambda: bool(step_processes()), warm=warm)
    assert step_processes() == []

    def kill() -> bool:
        for pid in step_processes():
            os.kill(pid, signal.SIGKILL)
        return False

    with pytest.raises(ChildFailed, match="was ended by SIGKILL; the machine may have run out of memory"):
        run_child("solve", busy_question().canonical_json(), ignore, kill, warm=warm)
    with pytest.raises(ChildFailed, match="longer than 1 s"):
        run_child("solve", busy_question().canonical_json(), ignore, lambda: False, timeout_s=1.0, warm=warm)
    assert run_child("solve", a_question().canonical_json(), ignore, lambda: False, warm=warm)
    assert step_processes() == []


def test_a_warm_process_that_is_killed_takes_its_forks_along_and_is_replaced(warm: WarmProcess) -> None:
    def kill_its_parent() -> bool:
        for pid in step_processes():
            os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        return False

    with pytest.raises(ChildLost, match="ended with all it had in hand"):
        run_child("solve", busy_question().canonical_json(), ignore, kill_its_parent, warm=warm)
    assert step_processes() == []
    assert run_child("solve", a_question().canonical_json(), ignore, lambda: False, warm=warm)
