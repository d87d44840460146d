"""Ctrl-C, also where its exception is lost: a callback from C, such as a compiler's, can't pass it on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None
_seen = False
"""A plain flag: a handler that takes a lock could wait for itself."""


def end_at_once() -> None:
    """Let Ctrl-C end the process without a word, as long as there is nothing to tidy up."""
    _on_interrupt(signal.SIG_DFL)


def listen() -> None:
    """Remember Ctrl-C besides raising KeyboardInterrupt."""
    global _seen
    _seen = False
    _on_interrupt(_interrupt)


def raise_what_was_lost() -> None:
    """Raise KeyboardInterrupt for a Ctrl-C whose exception was lost. Long work in the main thread calls this now and then."""
    if _seen:
        raise KeyboardInterrupt


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Within it the first Ctrl-C asks to stop, which the function that comes tells; another one interrupts as always."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            _interrupt(number, frame)
        asked = True

    before = _on_interrupt(ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _on_interrupt(handler: Handler) -> Handler:
    """What was done on Ctrl-C before. Where it is ignored, as in a background job, it stays ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)
    return before


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    global _seen
    _seen = True
    raise KeyboardInterrupt
