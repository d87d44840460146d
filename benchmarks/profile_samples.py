"""The samples of a profile, kept: what a fit can be tried on again where the machine is no longer at hand.

    python -m benchmarks.profile_samples FOLDER [--seconds S] [--seed N]

One rank measures each point once, as `emplace profile` would. FOLDER gets host.json, design.json and rank-0.jsonl; what it holds already
is not measured again.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from emplace.hardware.discover import discover_host
from emplace.hardware.machine import usable_memory_bytes
from emplace.placement.model import DataType, Optimizer
from emplace.profiler.design.experiments import FULL, FULL_ON_CUDA, KERNELS_ON_CPU, KERNELS_ON_CUDA, make_design
from emplace.profiler.profile import measure
from emplace.runtime.temporary import temporary_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    host, folder = discover_host(), asked.folder
    effort, kernels = (FULL_ON_CUDA, KERNELS_ON_CUDA) if host.has_cuda else (FULL, KERNELS_ON_CPU)
    effort = replace(effort, budget_s=asked.seconds, round_s=0.5, step_sweeps=1, lookup_points=400)
    if host.has_cuda:
        effort = replace(effort, variants=(*effort.variants, (Optimizer.ADAM, DataType.FP32)))
    design = make_design(effort, 1, asked.seed, kernels, usable_memory_bytes() // 4)
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in (("host.json", host), ("design.json", design)):
        (folder / name).write_text(document.canonical_json())
    with temporary_folder("samples", folder) as scratch:
        measure(design, 1, partial(print, file=sys.stderr), scratch, folder)


if __name__ == "__main__":
    main()
