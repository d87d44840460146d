"""FOLDER HOW: says which process imported it, which one runs it, and who that is; then ends as it is told to."""

import json
import os
import sys
import time
from pathlib import Path

IMPORTED_BY = os.getpid()
TOLD = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2]
    told = {name: int(os.environ[name]) for name in TOLD}
    said = {"imported_by": IMPORTED_BY, "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "told": told}
    (folder / f"said-{told['RANK']}.json").write_text(json.dumps(said))
    print("last words of rank", told["RANK"])
    if how == "sleep":
        time.sleep(600)
    if how == "fail" and told["RANK"] == 1:
        sys.exit(3)
