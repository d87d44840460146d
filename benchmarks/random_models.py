"""The arguments of benchmarks that draw random models and train them."""

from __future__ import annotations

import argparse
from pathlib import Path


def asked_models(description: str | None, models: int) -> argparse.Namespace:
    """What is asked for: `ranks`, a list of numbers; `models`, for each of them; `seed`; and `out`, a file or None."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[2, 4], help="default: 2,4")
    parser.add_argument("--models", type=int, default=models, help=f"for each number of ranks; default: {models}")
    parser.add_argument("--seed", type=int, default=0, help="of models, plans and batches")
    parser.add_argument("--out", type=Path, help="append the lines to this file too")
    return parser.parse_args()
