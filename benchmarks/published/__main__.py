"""Predicted beside published: every time of GPU hosts in benchmarks/published/data, as a page with a plot.

    python -m benchmarks.published [FOLDER]

Writes FOLDER/validation.md and FOLDER/validation.svg; FOLDER is docs unless it is given. It takes about a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.prediction_plot import plot
from benchmarks.published import fbgemm_lookups, synthetic_models, torchrec_dlrm
from benchmarks.published.page import page
from benchmarks.published.points import data

PUBLICATIONS = (fbgemm_lookups, torchrec_dlrm, synthetic_models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    folder: Path = parser.parse_args().folder
    points = [point for publication in PUBLICATIONS for point in publication.points()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "validation.md").write_text(page(points), encoding="utf-8")
    dots = [(data(point.publication)["title"], point.published_ms, point.predicted_ms) for point in points]
    (folder / "validation.svg").write_text(plot(dots), encoding="utf-8")
    print(f"wrote {folder / 'validation.md'} and {folder / 'validation.svg'}")


if __name__ == "__main__":
    main()
