"""FBGEMM's reports of its inputs (FBGEMM_REPORT_INPUT_PARAMS_INTERVAL) as what was observed of a model's features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emplace.executor.traces.measuring import spell_points
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ModelSpec, Table
from emplace.placement.reading import from_data, parse_json, text_of

_POINTS = 64
"""Points of the curve beyond the rows that a report has by themselves."""


@dataclass(frozen=True)
class ReportedFeature:
    rows: int
    mean_length: float
    hottest: tuple[float, ...]
    """Shares of the lookups of single rows, hottest first."""
    zipf: tuple[float, float]
    """(q, s): the row of rank x beyond the hottest is looked up in proportion to (x + q)^-s."""


@dataclass(frozen=True)
class FbgemmReport:
    """What the reports of one TBE say of its features; a report has one mean length and one access curve of each."""

    features: dict[str, ReportedFeature]

    def apply(self, spec: ModelSpec) -> ModelSpec:
        """`spec` with the reported mean lengths (fixed where whole, else Poisson) and accesses; features without a report stay.

        A table gets the accesses of its feature with most lookups. Raises InvalidDocument where a reported table has other rows, and
        where the model lacks a reported feature.
        """
        data = spec.to_data()
        left = set(self.features)
        broken = []
        for table, entry in zip(spec.tables, data["tables"], strict=True):
            known = {feature.name: self.features[feature.name] for feature in table.features if feature.name in self.features}
            left -= set(known)
            broken += [_other_rows(table, name, each) for name, each in known.items() if each.rows != table.num_embeddings]
            for feature in entry["features"]:
                if feature["name"] in known:
                    feature["length"] = _length(known[feature["name"]].mean_length)
            if known:
                entry["access"] = _access(max(known.values(), key=lambda each: each.mean_length))
        broken += [BrokenRule("", name, "is no feature of the model") for name in sorted(left)]
        if broken:
            raise InvalidDocument("FBGEMM's report", broken)
        data["source"] = "; ".join(filter(None, [spec.source, "lengths and accesses of FBGEMM's report"]))
        return from_data(data, ModelSpec, source="FBGEMM's report")


def read_fbgemm_reports(paths: Iterable[str | Path], features: Sequence[str]) -> FbgemmReport:
    """The reports of one TBE, of any iterations: lengths are their mean, accesses the last one's.

    Reports have no names: `features` are the model's, in the TBE's order. Raises InvalidDocument.
    """
    found = [_read(Path(path), len(features)) for path in paths]
    if not found:
        raise InvalidDocument("FBGEMM's report", [BrokenRule("", "", "there is none: name one file or more")])
    return FbgemmReport(
        {
            name: ReportedFeature(last.rows, float(np.mean([each[number].mean_length for each in found])), last.hottest, last.zipf)
            for number, name in enumerate(features)
            for last in [found[-1][number]]
        }
    )


def _read(path: Path, features: int) -> list[ReportedFeature]:
    data = parse_json(text_of(path), str(path))
    try:
        rows, lengths, accesses = data["Es"], data["pooling_params"]["Ls"], data["indices_params_list"]
        found = [
            ReportedFeature(int(each), float(length), tuple(sorted(map(float, access["heavy_hitters"]), reverse=True)), _zipf(access))
            for each, length, access in zip(rows, lengths, accesses, strict=True)
        ]
    except (KeyError, TypeError, ValueError):
        rule = "must be a report of FBGEMM 1.8 with Es, pooling_params.Ls and indices_params_list, one of each feature"
        raise InvalidDocument(str(path), [BrokenRule("", "", rule)]) from None
    if len(found) != features:
        raise InvalidDocument(str(path), [BrokenRule("/T", str(len(found)), f"{features} features were named: name the TBE's, in order")])
    return found


def _zipf(access: Any) -> tuple[float, float]:
    return float(access["zipf_q"]), float(access["zipf_s"])


def _length(mean: float) -> dict[str, Any]:
    return {"fixed": int(mean)} if mean.is_integer() else {"poisson": mean}


def _access(feature: ReportedFeature) -> Any:
    hottest, (q, s) = np.array(feature.hottest[: feature.rows]), feature.zipf
    taken = np.append(0.0, np.cumsum(hottest)).clip(max=1.0)
    points = [(float(number), float(taken[number])) for number in range(1, len(taken))]
    if len(hottest) < feature.rows and taken[-1] < 1:
        ends = np.unique(np.round(np.geomspace(max(len(hottest), 1), feature.rows, _POINTS)))[1:]
        edges = np.maximum(np.append(len(hottest), ends) + q - 0.5, 0.5)
        mass = np.cumsum(np.diff(np.log(edges) if abs(s - 1) < 1e-9 else edges ** (1 - s) / (1 - s)))
        points += [(float(end), float(taken[-1] + (1 - taken[-1]) * each / mass[-1])) for end, each in zip(ends, mass, strict=True)]
    return spell_points(points, 1.0, feature.rows)


def _other_rows(table: Table, name: str, reported: ReportedFeature) -> BrokenRule:
    rule = f"was reported with {reported.rows:,} rows, its table {table.name} has {table.num_embeddings:,}: report a TBE with whole tables"
    return BrokenRule(f"/{table.name}", name, rule)
