"""HOW FOLDER/job.json: says who it is, then sleeps; `deaf` ignores SIGTERM as well, as a rank that hangs in a driver does."""

import os
import signal
import sys
import time
from pathlib import Path

from emplace.runtime.rank_process import tell_phase


def main() -> None:
    if sys.argv[1] == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell_phase(Path(sys.argv[2]).parent, int(os.environ["RANK"]), "asleep")
    time.sleep(600)
