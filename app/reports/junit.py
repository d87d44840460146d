"""A check as JUnit XML: one test case per model; a proven no fails, an undecided one errs."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from emplace.app.reports.findings import Finding, findings
from emplace.gate import CheckResult


def junit_report(results: Sequence[CheckResult]) -> str:
    failures = sum(result.fits is False for result in results)
    errors = sum(result.fits is None for result in results)
    counts = {"tests": str(len(results)), "failures": str(failures), "errors": str(errors)}
    root = ElementTree.Element("testsuites", counts)
    took = _seconds(sum(result.seconds or 0.0 for result in results))
    suite = ElementTree.SubElement(root, "testsuite", {"name": "emplace check", **counts, "skipped": "0", "time": took})
    for result in results:
        named = {"classname": result.host, "name": result.source or result.model, "time": _seconds(result.seconds or 0.0)}
        case = ElementTree.SubElement(suite, "testcase", named)
        if result.fits is not True:
            _add_findings(case, "failure" if result.fits is False else "error", findings([result]))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_findings(case: ElementTree.Element, tag: str, found: list[Finding]) -> None:
    worst = found[0]
    entry = ElementTree.SubElement(case, tag, {"type": worst.rule, "message": _valid(worst.message)})
    entry.text = "\n".join(_valid(finding.message) for finding in found)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _valid(text: str) -> str:
    """The text without the characters that XML 1.0 can't hold."""
    return "".join(character for character in text if character in "\t\n" or character >= " ")
