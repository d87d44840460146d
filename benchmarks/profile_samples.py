"""The samples of a profile, kept: what a fit can be tried on again where the machine is no longer at hand.

    python -m benchmarks.profile_samples FOLDER [--seconds S] [--seed N]

One rank measures each point once, as `emplace profile` would. FOLDER gets host.json, design.json and rank-0.jsonl; what it holds already
is not measured again.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from emplace.hardware.discover import discover_host
from emplace.hardware.machine import usable_memory_bytes
from emplace.placement.model import ComputeKernel, DataType, Optimizer
from emplace.profiler.design.experiments import FULL, FULL_ON_CUDA, make_design
from emplace.runtime.ranks import run_ranks
from emplace.runtime.temporary import temporary_folder

KERNELS = (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM, ComputeKernel.FUSED, ComputeKernel.DENSE)
PROGRAM = "emplace.profiler.measure.rank"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    host, folder = discover_host(), asked.folder
    effort = replace(FULL_ON_CUDA if host.has_cuda else FULL, budget_s=asked.seconds, round_s=0.5, sweeps=1, lookup_points=400)
    if host.has_cuda:
        effort = replace(effort, variants=(*effort.variants, (Optimizer.ADAM, DataType.FP32)))
    kernels = KERNELS if host.has_cuda else (ComputeKernel.FUSED, ComputeKernel.DENSE)
    design = make_design(effort, 1, asked.seed, kernels, usable_memory_bytes() // 4)
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in (("host.json", host), ("design.json", design)):
        (folder / name).write_text(document.canonical_json())
    until = time.monotonic() + asked.seconds
    with temporary_folder("samples", folder) as scratch:
        run_ranks([PROGRAM, str(folder / "design.json"), str(folder), str(until)], 1, scratch, 3 * asked.seconds + 300, lambda: None)
    print(f"wrote {folder / 'rank-0.jsonl'}", file=sys.stderr)


if __name__ == "__main__":
    main()
