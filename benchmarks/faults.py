"""Everything that can end a run early, done to it for real, many times: does anything stay behind?

    python -m benchmarks.faults [--times N] [--faults NAME,NAME...]

Each injection trains a small model on 2 ranks with `run_plan`'s own launch. Afterwards it counts processes that name the run's
folder, files left in it, and reads the plan's file again. Prints one JSON line per fault; exits with 1 unless all are clean.
Two faults need rights that not every machine gives (to mount a tmpfs, to make a memory cgroup): where they are missing, the line
says so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from benchmarks.executed_models import Drawn, model_of
from benchmarks.faulty_rank import CGROUP_VARIABLE, FAULTS
from benchmarks.json_lines import emit
from emplace.executor.errors import ExecutionFailed
from emplace.executor.launch import Launch
from emplace.executor.run import run_plan
from emplace.hardware.discover import discover_host
from emplace.placement.audit import audit
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import read_file
from emplace.planning import answer, build_question

TIMEOUT_S = 60.0
HANG_TIMEOUT_S = 15.0
STEPS = 230
"""Enough that a report is larger than the limit of `file too large`, and that whatever is to happen happens before the end."""

_CGROUPS = Path("/sys/fs/cgroup/memory")
_CGROUP_BYTES = 48 * 2**20
_DISK = "8m"

CAUSES = {
    "raises": "rank 1 failed: ValueError: no such row",
    "killed": "rank 1 was killed by SIGKILL",
    "agent killed": "the ranks' parent process was killed by SIGKILL",
    "hangs": r"did not end within .* rank 1 was last seen drawn: comparing updates",
    "memory limit": "rank 1 failed: .*(memory|MemoryError|bad_alloc)",
    "memory killer": "rank 1 was killed by SIGKILL; the kernel sends it when memory runs out",
    "disk full": "rank [01] failed: .*[Nn]o space left",
    "raises on a full disk": "rank [01] failed: .*[Nn]o space left",
    "file too large": r"rank 1 failed: OSError: \[Errno 27\] File too large",
    "cancelled": "the run was cancelled",
}
"""The regular expression that the message of each fault must match."""


class NotPermitted(Exception):
    """This machine does not let a fault be injected; says why."""


@dataclass
class Tally:
    """What is left after injections of one fault; everything but `seconds` must stay empty."""

    orphans: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    lost_plans: int = 0
    wrong_causes: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.orphans or self.files or self.lost_plans or self.wrong_causes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1, help="injections of each fault")
    parser.add_argument("--faults", type=lambda text: text.split(","), default=list(FAULTS), help=f"of {', '.join(FAULTS)}; default: all")
    arguments = parser.parse_args()
    if unknown := set(arguments.faults) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    clean = True
    with tempfile.TemporaryDirectory(prefix="emplace-faults-") as folder:
        stored = store_plan(Path(folder), discover_host())
        for fault in arguments.faults:
            try:
                tally = Tally()
                for _ in range(arguments.times):
                    inject(fault, stored, tally)
            except NotPermitted as reason:
                emit({"fault": fault, "not_injected": str(reason)})
                continue
            clean = clean and tally.is_clean
            emit(_line(fault, tally))
    sys.exit(0 if clean else 1)


def _line(fault: str, tally: Tally) -> dict[str, object]:
    return {
        "fault": fault,
        "times": len(tally.seconds),
        "orphans": len(tally.orphans),
        "files_left": len(tally.files),
        "lost_plans": tally.lost_plans,
        "wrong_causes": tally.wrong_causes,
        "median_s": round(median(tally.seconds), 1),
        "longest_s": round(max(tally.seconds), 1),
    }


def store_plan(folder: Path, host: HostSpec) -> Path:
    """A plan on 2 ranks of a model whose tables don't fit where memory is limited."""
    model = model_of(Drawn("drawn", 4, 500_000, 4, batch=16))
    path = folder / "plan.json"
    path.write_text(answer(build_question(model, host, PlanOptions(ranks=2))).canonical_json(), encoding="utf-8")
    return path


def inject(fault: str, stored: Path, tally: Tally) -> None:
    """Run the stored plan, with `fault` happening to it, and count what it leaves. Raises NotPermitted."""
    before = stored.read_bytes()
    program = ["benchmarks.faulty_rank", fault]
    started_at = time.monotonic()
    with _place(fault) as workdir:
        launch = Launch(STEPS, 0, workdir, _timeout_s(fault), should_stop=_stop(fault, workdir), program=program)
        try:
            run_plan(read_file(stored, Plan), launch)
            tally.wrong_causes.append("the run ended well")
        except ExecutionFailed as failure:
            if not re.search(CAUSES[fault], str(failure), re.DOTALL):
                tally.wrong_causes.append(str(failure))
        tally.seconds.append(time.monotonic() - started_at)
        tally.orphans += processes_of(workdir)
        tally.files += [str(path) for path in workdir.rglob("*")]
    tally.lost_plans += stored.read_bytes() != before or audit(read_file(stored, Plan)) != []


def _timeout_s(fault: str) -> float:
    return HANG_TIMEOUT_S if fault == "hangs" else TIMEOUT_S


def _stop(fault: str, workdir: Path) -> Callable[[], bool]:
    """Cancels once a rank has joined the others."""
    return lambda: fault == "cancelled" and any("comparing" in path.read_text() for path in workdir.glob("*/process-rank*.json"))


def processes_of(workdir: Path) -> list[str]:
    """Command lines of processes that name the folder, as the agent and every rank do."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or [])
        if str(workdir) in command and process.pid != os.getpid():
            found.append(command)
    return found


@contextmanager
def _place(fault: str) -> Iterator[Path]:
    """A fresh folder to run in, with what the fault needs."""
    needs: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
        "disk full": _small_disk,
        "raises on a full disk": _small_disk,
        "memory killer": _small_cgroup,
    }
    prepared = needs.get(fault, nullcontext)
    with tempfile.TemporaryDirectory(prefix="emplace-faults-") as name, prepared(Path(name)):
        yield Path(name)


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        raise NotPermitted(f"can't mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def _small_cgroup(folder: Path) -> Iterator[None]:
    cgroup = _CGROUPS / folder.name
    try:
        cgroup.mkdir()
        (cgroup / "memory.limit_in_bytes").write_text(str(_CGROUP_BYTES))
    except OSError as error:
        raise NotPermitted(f"can't make a memory cgroup: {error.strerror} ({error.filename})") from None
    os.environ[CGROUP_VARIABLE] = str(cgroup)
    try:
        yield
    finally:
        del os.environ[CGROUP_VARIABLE]
        cgroup.rmdir()


if __name__ == "__main__":
    main()
