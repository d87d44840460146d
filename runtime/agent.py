"""`python -m emplace.runtime.agent TORCHRUN_ARGUMENTS...`: torchrun that does not outlive the process that started it.

Its ranks die with it in turn: they call `die_with_parent` too.
"""

from __future__ import annotations

import os
import signal
import sys

from emplace.runtime.process import PARENT_VARIABLE, die_with_parent
from emplace.runtime.start import import_large


def main() -> None:
    die_with_parent(signal.SIGTERM)
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    import_large("torch.distributed.run").main(sys.argv[1:])


if __name__ == "__main__":
    main()
