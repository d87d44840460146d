"""The sweeps and case studies of Acun et al. (HPCA 2021), and whether the model agrees with what the paper says.

    python -m benchmarks.study [FOLDER]

Writes FOLDER/study.md and FOLDER/study-*.svg; FOLDER is docs unless it is given. It takes some five minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.study.cases import case_studies
from benchmarks.study.page import page
from benchmarks.study.sweeps import SWEEPS, run
from emplace.app.reports.sweep_svg import sweep_svg
from emplace.hardware.machine import cores_here


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    folder, processes = parser.parse_args().folder, cores_here()
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in SWEEPS:
        found[name] = run(name, processes)
        (folder / f"study-{name}.svg").write_text(sweep_svg(found[name], SWEEPS[name].title), encoding="utf-8")
        print(f"swept {name}", file=sys.stderr, flush=True)
    cases = case_studies(processes)
    (folder / "study.md").write_text(page(found, cases), encoding="utf-8")
    print(f"wrote {folder / 'study.md'} and {len(found)} figures beside it")


if __name__ == "__main__":
    main()
