"""What a result is written to stays what it is, and a path that can't be used is named with the reason."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests.app.cli.command import COMMAND, QUICK, Emplace, write_model

PLAN = ("plan", "small.json", "--host", "dgx-h100", "--ranks", "2", *QUICK)


@pytest.fixture(autouse=True)
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "small.json")


def test_a_result_is_written_through_a_symlink(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "plan.json", tmp_path / "link.json"
    target.write_text("before")
    link.symlink_to(target)
    assert emplace_here(*PLAN, "--out", link).returncode == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["tables"]


def test_a_result_goes_into_a_pipe(emplace_here: Emplace, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    assert emplace_here(*PLAN, "--out", pipe).returncode == 0
    reader.join(10)
    assert json.loads(received[0])["tables"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_result_makes_its_folder(emplace_here: Emplace, tmp_path: Path) -> None:
    assert emplace_here(*PLAN, "--out", "reports/plan.json").returncode == 0
    assert (tmp_path / "reports" / "plan.json").is_file()


@pytest.mark.parametrize(("before", "after"), [(None, 0o640), (0o600, 0o600), (0o664, 0o664)])
def test_a_result_leaves_permissions_as_they_were(emplace_here: Emplace, tmp_path: Path, before: int | None, after: int) -> None:
    out = tmp_path / "plan.json"
    if before is not None:
        out.touch()
        out.chmod(before)
    mask = os.umask(0o027)
    try:
        assert emplace_here(*PLAN, "--out", out).returncode == 0
    finally:
        os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == after


@pytest.mark.parametrize(("out", "reason"), [("small.json/plan.json", "Not a directory"), (".", "Is a directory"), ("/proc/plan.json", "")])
@pytest.mark.parametrize("option", ["--out", "--report"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(emplace_here: Emplace, option: str, out: str, reason: str) -> None:
    """Not even the model is read."""
    command = ("plan", "none.json") if option == "--out" else ("check", "none.json")
    done = emplace_here(*command, "--host", "dgx-h100", option, out if option == "--out" else f"json={out}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"emplace: {out}: can't be written: {reason}")
    assert len(done.stderr.splitlines()) == 1


def test_a_result_is_printed_even_where_the_file_cannot_be_written_any_more(emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.app.cli.options.refuse_unwritable", lambda _: None)  # as if it could be, when the work began
    done = emplace_here(*PLAN, "--format", "json", "--out", "small.json/plan.json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["tables"]
    assert done.stderr == "emplace: small.json/plan.json: can't be written: Not a directory\n"


@pytest.mark.parametrize(
    ("command", "redirection"), [((*PLAN, "--format", "json"), "> /dev/full"), (("check", *PLAN[1:]), "> /dev/full"), (PLAN, ">&-")]
)
def test_output_that_cannot_be_written(tmp_path: Path, command: tuple[str, ...], redirection: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" "$@" --out out.json {redirection}', COMMAND, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2), done.stderr
    assert "standard output" in done.stderr
    assert (tmp_path / "out.json").read_text()


def test_a_result_is_written_even_where_nobody_reads_the_output(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", '"$0" "$@" --out out.json | true', COMMAND, *PLAN], cwd=tmp_path, timeout=60, stderr=subprocess.DEVNULL)
    assert json.loads((tmp_path / "out.json").read_text())["tables"]


def test_a_path_that_cannot_be_read(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for path, reason in (("x" * 5000, "File name too long"), ("folder.yaml", "Is a directory")):
        for arguments in ((path, "--host", "dgx-h100"), ("small.json", "--host", path)):
            done = emplace_here("check", *arguments)
            assert done.returncode == 2
            assert f"{path}: (document): can't be read: {reason}" in done.stderr


def test_a_trace_that_is_a_folder(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    done = emplace_here("trace", "folder.csv", "--embedding-dim", "8")
    assert done.returncode == 2
    assert "Is a directory" in done.stderr


def test_a_folder_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    # Root may read everything, unless these capabilities are taken from it.
    as_anyone = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    command: list[str | Path] = [*as_anyone, COMMAND, "check", "locked/small.json", "--host", "dgx-h100"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    locked.chmod(0o700)
    assert done.returncode == 2
    assert "locked/small.json: (document): can't be read: Permission denied" in done.stderr


@pytest.mark.parametrize(
    "command", [pytest.param(("profile", "--quick", "--ranks", "1"), marks=pytest.mark.torch), ("serve", "--port", "0"), ("worker",)]
)
def test_a_home_that_is_a_file(emplace_here: Emplace, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "home").touch()
    done = emplace_here(*command)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "home") in done.stderr.splitlines()[-1]
