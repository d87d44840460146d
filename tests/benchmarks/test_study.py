"""The study's page is of the sweeps and claims that the program makes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from benchmarks.study import claims
from benchmarks.study.sweeps import HOSTS, SWEEPS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "study.md").read_text(encoding="utf-8")


def test_every_sweep_has_its_table_and_its_figure() -> None:
    for name, varied in SWEEPS.items():
        assert f"### By {varied.title}\n" in PAGE
        assert f"(study-{name}.svg)" in PAGE
        figure = (DOCS / f"study-{name}.svg").read_text(encoding="utf-8")
        assert all(f">{host}</text>" in figure for host in HOSTS)
        [section] = re.findall(rf"^### By {re.escape(varied.title)}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
        assert section.count("\n| ") == 1 + len(varied.vary.split(","))


def test_every_claim_is_answered() -> None:
    asked = re.findall(r'Finding\(\s*"([^"]+)"', inspect.getsource(claims))
    answered = re.findall(r"^\| ([A-Z][^|]+?) \| (yes|no) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert len(asked) == 13
    assert sorted(claim for claim, _ in answered) == sorted(asked)
