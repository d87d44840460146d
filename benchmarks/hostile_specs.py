"""Hostile documents through the real readers: whether anything but an error for people comes out, and what it takes.

    python -m benchmarks.hostile_specs [--specs 200000] [--seed 0] [--workers 2]

Each spec is a file, read as the command line reads it. A model that is still good is asked for its distributions, and one in ten of
them planned. Endless texts have a process each, so that the memory is theirs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.hostile_text import ENDLESS, GOOD_MODEL, mutated
from benchmarks.json_lines import emit
from emplace.placement.catalog import builtin_host, builtin_stack, stack_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.document import Document
from emplace.placement.errors import EmplaceError
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import MAX_DOCUMENT_BYTES, read_file, read_text
from emplace.placement.stack import Stack
from emplace.planning import answer, build_question

_HOST = "zion"
_QUICK = PlanOptions(work_limit=0.05, ranks=2)
_BATCH, _PLANNED = 500, 10
_SHOWN_TRACEBACKS = 20


@dataclass
class Outcome:
    """What became of some specs."""

    specs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """How many were read, planned or refused."""
    tracebacks: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""
    peak_mib: float = 0.0
    """The most memory that the process which read them ever had."""

    def add(self, other: Outcome) -> None:
        self.specs += other.specs
        self.ends += other.ends
        self.tracebacks += other.tracebacks
        self.peak_mib = max(self.peak_mib, other.peak_mib)
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest

    def line(self, case: str) -> dict[str, Any]:
        shown = {"ends": dict(self.ends), "tracebacks": len(self.tracebacks), "first": self.tracebacks[:_SHOWN_TRACEBACKS]}
        return {
            "case": case,
            "specs": self.specs,
            **shown,
            "slowest_s": round(self.slowest_s, 2),
            "slowest": self.slowest,
            "peak_mib": self.peak_mib,
        }


Good = Sequence[tuple[str, type[Document], str]]


def good_documents() -> Good:
    """(suffix, kind, text): what is mutated."""
    model = read_text(GOOD_MODEL, ModelSpec, source="model", as_json=False)
    host = builtin_host(_HOST)
    plan = answer(build_question(model, host, _QUICK))
    documents: list[tuple[type[Document], Document]] = [(HostSpec, host), (CostModel, datasheet_cost_model(host)), (Plan, plan)]
    documents += [(Stack, builtin_stack(stack_names()[0]))]
    good: list[tuple[str, type[Document], str]] = []
    good += [("yaml", ModelSpec, GOOD_MODEL)] * 6 + [("json", ModelSpec, json.dumps(model.to_data(), indent=1))] * 3
    for kind, document in documents:
        data = document.to_data()
        good += [("yaml", kind, yaml.safe_dump(data, sort_keys=False)), ("json", kind, json.dumps(data, indent=1))]
    return good


def read_mutated(good: Good, seed: int, numbers: range) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            rng = random.Random(f"{seed} {number}")
            suffix, kind, text = rng.choice(good)
            path = Path(folder) / f"spec.{suffix}"
            path.write_bytes(mutated(rng, text))
            _judge(outcome, f"{number} ({suffix}, {kind.__name__})", path, kind, planned=number % _PLANNED == 0)
    return outcome


def read_endless(case: str, size: int) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"spec.{case[:4]}"
        path.write_text(ENDLESS[case](size), encoding="utf-8")
        _judge(outcome, case, path, ModelSpec, planned=False)
    return outcome


def _judge(outcome: Outcome, name: str, path: Path, kind: type[Document], *, planned: bool) -> None:
    started, end = time.process_time(), "refused"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            document = read_file(path, kind)
            end = _used(document, planned=planned)
    except EmplaceError:
        pass
    except BaseException:  # a panic of compiled code is no Exception
        end = "traceback"
        outcome.tracebacks.append(f"{name}: {traceback.format_exc(limit=-3)}")
    took_s = time.process_time() - started
    outcome.ends[end] += 1
    outcome.specs += 1
    outcome.peak_mib = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    if end != "planned" and took_s > outcome.slowest_s:
        outcome.slowest_s, outcome.slowest = took_s, name


def _used(document: Document, *, planned: bool) -> str:
    """A good document does what it is for."""
    document.content_digest()
    if not isinstance(document, ModelSpec):
        return "read"
    for table in document.tables:
        table.accesses.unique_rows(table.pooling_factor)
    question = build_question(document, builtin_host(_HOST), _QUICK)
    question.topology(with_servers=False)
    if not planned:
        return "read"
    answer(question)
    return "planned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first spec")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        for case in ENDLESS:
            emit(pool.apply(read_endless, (case, MAX_DOCUMENT_BYTES - 1024)).line(case))
    everything = Outcome()
    last = arguments.first + arguments.specs
    batches = [range(first, min(first + _BATCH, last)) for first in range(arguments.first, last, _BATCH)]
    with context.Pool(arguments.workers) as pool:
        for outcome in pool.imap_unordered(partial(read_mutated, good_documents(), arguments.seed), batches):
            everything.add(outcome)
    emit(everything.line("mutated"))


if __name__ == "__main__":
    main()
