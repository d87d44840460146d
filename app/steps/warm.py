"""A process with the solver in memory, which forks itself for each piece of work: what is imported once serves all.

    python -m emplace.app.steps.warm DESCRIPTOR

The socket DESCRIPTOR brings orders, each a JSON object with three descriptors: for the standard output and standard error of the
child, and for telling. The child does what app.steps.<step> does. What is told is {"pid": N} and, once it has ended, {"status": N} as
subprocess has it. This process has one thread, so that a fork is whole, and ends when the other side closes the socket.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from emplace.app.steps.check import check
from emplace.app.steps.child import do_step
from emplace.app.steps.prepare import prepare
from emplace.app.steps.solve import solve
from emplace.app.steps.study import study
from emplace.runtime.process import die_with, die_with_parent
from emplace.runtime.start import import_large

_STEPS = {"solve": solve, "check": check, "prepare": prepare, "study": study}
_LATER = (
    "emplace.placement.extrapolation",
    "emplace.solver.branch_and_price.prover",
    "emplace.solver.cp_sat",
    "emplace.solver.heuristics.improve",
    "emplace.solver.solve",
    "emplace.studies.asked",
    "scipy.optimize",
)
"""What the solver imports only where it needs it."""
_MAX_ORDER_BYTES = 65_536


def serve(orders: socket.socket) -> None:
    """Take orders until the socket is closed."""
    woken = _wake_when_a_child_ends()
    children: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(4096)
                elif not _take_order(orders, children):
                    return
            _tell_of_ended(children)


def _take_order(orders: socket.socket, children: dict[int, socket.socket]) -> bool:
    """Fork for the next order. False once there are no more."""
    text, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, 3)
    if not text:
        return False
    stdout, stderr, telling = descriptors
    parent, order = os.getpid(), json.loads(text)
    pid = os.fork()
    if not pid:
        _be_child(order, stdout, stderr, telling, parent)
    os.close(stdout)
    os.close(stderr)
    children[pid] = socket.socket(fileno=telling)
    return True


def _be_child(order: dict[str, Any], stdout: int, stderr: int, telling: int, parent: int) -> None:
    """What `python -m emplace.app.steps.<step>` does in a session of its own; never returns."""
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with(parent, signal.SIGTERM)
        _tell(socket.socket(fileno=telling), {"pid": os.getpid()})  # only now does its group exist, and SIGTERM end it
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, 1 + max(int(name) for name in os.listdir("/proc/self/fd")))
        os.chdir(order["folder"])
        do_step(_STEPS[order["step"]], Path(order["source"]), Path(order["target"]))
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wake_when_a_child_ends() -> socket.socket:
    """A socket that can be read after SIGCHLD."""
    reading, writing = socket.socketpair()
    for each in (reading, writing):
        each.setblocking(False)
    signal.set_wakeup_fd(writing.detach())
    signal.signal(signal.SIGCHLD, lambda _, __: None)
    return reading


def _tell_of_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as telling:
            _tell(telling, {"status": os.waitstatus_to_exitcode(status)})


def _tell(telling: socket.socket, what: dict[str, int]) -> None:
    with suppress(OSError):  # nobody waits for this child any more
        telling.sendall(json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    die_with_parent(signal.SIGTERM)
    for module in _LATER:
        import_large(module)  # the collector of a child leaves its pages alone, so they stay shared
    serve(socket.socket(fileno=int(sys.argv[1])))
