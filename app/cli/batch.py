"""`emplace batch`: throughput and time to a quality over batch sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli import options, studying
from emplace.app.cli.inputs import plan_options
from emplace.app.cli.options import OutputFormat
from emplace.app.cli.output import give
from emplace.app.cli.progress import StatusLine
from emplace.app.reports.batch_text import batch_view
from emplace.placement.reading import read_file
from emplace.studies.batch import BatchStudy, batches_of, run_batch
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.quality import read_curve
from emplace.studies.sweep import STUDY_GAP


def batch(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A built-in model, the template 'suite', or a model file.")],
    batches: Annotated[str, typer.Option("--batches", metavar="A,B,...", help="Examples of a rank's batch, such as 64,128,256.")],
    curve: Annotated[
        Path | None,
        typer.Option(
            "--curve", metavar="FILE", help="Your own measurement: examples or steps to a quality by global batch. YAML, JSON or CSV."
        ),
    ] = None,
    noise: Annotated[
        Path | None,
        typer.Option("--noise", metavar="FILE", help="The gradient-noise scale of MODEL that was measured (emplace.noise_scale)."),
    ] = None,
    settings: options.Settings = None,
    host: studying.OneHost = None,
    hosts: studying.Hosts = None,
    nodes: options.Nodes = None,
    ranks: options.Ranks = None,
    tiers: options.Tiers = None,
    work_limit: options.WorkLimit = None,
    gap: studying.Gap = None,
    seed: options.Seed = None,
    stack: options.StackName = None,
    processes: studying.Processes = None,
    format: options.Format = OutputFormat.TEXT,
    out: options.Out = None,
) -> int:
    """Plan MODEL at several batch sizes: where throughput saturates, and which batch reaches a quality first.

    The saturation point is the smallest batch with nine tenths of the highest throughput of all that are named. What a batch costs
    in quality is said only from --curve or --noise; a curve of one point and a noise scale go together.
    Exit code: 0 done, 1 proven that MODEL fits at no batch, 3 some batch is undecided within the limit.
    """
    chosen = plan_options(nodes=nodes, ranks=ranks, tiers=tiers, work_limit=work_limit, seed=seed, gap=STUDY_GAP if gap is None else gap)
    setting, named = studying.setting_of(model, settings, chosen, stack), batches_of(batches)
    measured = None if noise is None else read_file(noise, NoiseScale)
    own = None if curve is None else read_curve(curve)
    study = BatchStudy.of(setting, studying.read_hosts(host, hosts), named, own, measured)
    with StatusLine() as status:
        found = run_batch(study, studying.cores(processes), studying.Counted(status, "batches"))
    give(found, batch_view(found), format, out)
    return studying.exit_code(found.statuses)
