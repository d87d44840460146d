"""HOW FOLDER/job.json: says who it is, then sleeps; `deaf` ignores SIGTERM as well, as a rank that hangs in a driver does."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil

from emplace.executor.job import RankProcess, process_path, write_atomically

if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank, me = int(os.environ["RANK"]), psutil.Process()
process = RankProcess(rank=rank, pid=me.pid, started_at=me.create_time(), phase="asleep")
write_atomically(process_path(Path(sys.argv[2]).parent, rank), process)
time.sleep(600)
