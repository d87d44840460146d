"""`python -m emplace.runtime.agent PARENT_PID TORCHRUN_ARGUMENTS...`: torchrun that does not outlive the process that started it.

Its ranks take from here how to end: with the agent (`die_with`), and once they have nothing left to do (`leave`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

from emplace.runtime.start import import_large

AGENT_PID_VARIABLE = "EMPLACE_AGENT_PID"
_PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int, signal_number: int) -> None:
    """Have the kernel send `signal_number` to this process when its parent ends (Linux prctl(2)); exit now if it already has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent_pid:
        sys.exit(1)


def leave(exit_code: int = os.EX_OK) -> NoReturn:
    """End this rank at once, without the interpreter's own shutdown.

    A thread of gloo that wants the interpreter's lock during that aborts the process (github.com/pytorch/pytorch, pull request
    179291): about one profile in ten, on a busy machine.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def main() -> None:
    die_with(int(sys.argv.pop(1)), signal.SIGTERM)
    os.environ[AGENT_PID_VARIABLE] = str(os.getpid())
    import_large("torch.distributed.run").main(sys.argv[1:])


if __name__ == "__main__":
    main()
