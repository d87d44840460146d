"""Ctrl-C is not lost where the exception is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from emplace.app.cli.interrupts import listen, raise_what_was_lost
from emplace.app.cli.progress import StatusLine
from emplace.solver.progress import Progress
from tests.app.cli.command import Emplace


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """As in the foreground, wherever the tests run: in the background interrupts are ignored from the start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    listen()
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_got_lost_ends_the_solve_at_its_next_report() -> None:
    listen()
    progress = Progress(elapsed_s=1.0, incumbent_us=None, bound_us=1.0, gap=None, phase="search")
    StatusLine().solving(progress)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        StatusLine().solving(progress)
    listen()
    raise_what_was_lost()


def test_where_interrupts_are_ignored_they_stay_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listen()
    signal.raise_signal(signal.SIGINT)
    raise_what_was_lost()


def test_an_interrupt_before_anything_is_imported_ends_without_a_word(emplace: Emplace, tmp_path: Path) -> None:
    """While Python reads what the command line takes; half a second that is, of which a module here stands for any part."""
    (tmp_path / "typer.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    done = emplace("models", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(("before", "code"), [(signal.SIG_DFL, 143), (signal.SIG_IGN, 0)])
def test_a_closed_terminal_ends_a_command_as_sigterm_does_but_for_nohup(
    emplace_here: Emplace, monkeypatch: pytest.MonkeyPatch, before: signal.Handlers, code: int
) -> None:
    def hang_up(*_: object) -> tuple[str, ...]:
        signal.raise_signal(signal.SIGHUP)
        return ("dlrm-dcnv2",)

    kept = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    signal.signal(signal.SIGHUP, before)
    monkeypatch.setattr("emplace.app.cli.catalog.model_names", hang_up)
    try:
        assert _code_of(emplace_here) == code
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _code_of(emplace_here: Emplace) -> object:
    try:
        return emplace_here("models").returncode
    except SystemExit as left:
        return left.code
