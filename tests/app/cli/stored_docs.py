"""What the docs keep of the command's output: the reports in docs/how-to/reports/, of the sample repository as it is and after a change
that no longer fits, and the JSON Schemas. All of it is written anew by

python -m tests.app.cli.stored_docs
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.app.cli.command import run_emplace

ROOT = Path(__file__).parents[3]
STORED = ROOT / "docs" / "how-to" / "reports"
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
NAMES = {
    "text": "txt",
    "markdown": "md",
    "json": "json",
    "junit": "xml",
    "sarif": "sarif",
    "github": "github.txt",
    "gitlab": "gitlab.json",
}
_VARIES = (
    (r'"seconds": [0-9.e-]+', '"seconds": 0.5'),
    (r'\btime="[0-9.]+"', 'time="0.500"'),
    (r'timestamp="[^"]*"', 'timestamp="2026-11-25T12:00:00"'),
    (r'hostname="[^"]*"', 'hostname="ci"'),
)
"""What is another at each run."""


def made(folder: Path) -> dict[str, str]:
    """Every report by its file's name."""
    sample = folder / "sample"
    shutil.copytree(ROOT / "examples" / "gate", sample)
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "first")):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments], cwd=sample, check=True)
    reports = _reports(sample, "passing")
    ranker = sample / "models" / "ranker.yaml"
    ranker.write_text(ranker.read_text().replace("400_000_000", "4_000_000_000"))
    return reports | _reports(sample, "failing", "--against", "HEAD", "--work-limit", "1")


def _reports(sample: Path, name: str, *arguments: str) -> dict[str, str]:
    out = sample.parent / name
    more = [part for format, ending in NAMES.items() for part in ("--report", f"{format}={out / f'{name}.{ending}'}")]
    run_emplace("check", *arguments, *more, cwd=sample, home=sample.parent, COLUMNS="120")
    narrow = run_emplace("check", *arguments, cwd=sample, home=sample.parent, COLUMNS="80").stdout
    found = {path.name: path.read_text() for path in sorted(out.iterdir())}
    return {file: _steady(text) for file, text in (found | {f"{name}.80.txt": narrow}).items()}


def _steady(text: str) -> str:
    for varies, steady in _VARIES:
        text = re.sub(varies, steady, text)
    return text


def main() -> None:
    for kind in ("model", "host", "config"):
        run_emplace("schema", kind, "--out", SCHEMAS / f"{kind}.schema.json", cwd=ROOT, home=ROOT)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in made(Path(folder)).items():
            (STORED / name).write_text(text)
            print(os.path.relpath(STORED / name))


if __name__ == "__main__":
    main()
