"""A check as JUnit XML: one test case per model and host; a proven no fails, an undecided one and bad input err."""

from __future__ import annotations

from xml.etree import ElementTree

from emplace.app.reports.checked import Checked
from emplace.app.reports.findings import Finding, findings, findings_of


def junit_report(checked: Checked) -> str:
    results, refused = checked.results, checked.refused
    failures = sum(result.fits is False for result in results)
    errors = sum(result.fits is None for result in results) + len(refused)
    counts = {"tests": str(len(results) + len(refused)), "failures": str(failures), "errors": str(errors)}
    root = ElementTree.Element("testsuites", counts)
    took = _seconds(sum(result.seconds or 0.0 for result in results))
    suite = ElementTree.SubElement(root, "testsuite", {"name": "emplace check", **counts, "skipped": "0", "time": took})
    for result in results:
        case = _case(suite, result.host, result.source or result.model, result.seconds or 0.0)
        if result.fits is not True:
            _add_findings(case, "failure" if result.fits is False else "error", findings_of(result))
    for each in refused:
        _add_findings(_case(suite, each.host or "", each.source, 0.0), "error", findings(Checked((), (each,))))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, host: str, source: str, seconds: float) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", {"classname": host, "name": _valid(source), "time": _seconds(seconds)})


def _add_findings(case: ElementTree.Element, tag: str, found: list[Finding]) -> None:
    worst = found[0]
    entry = ElementTree.SubElement(case, tag, {"type": worst.rule, "message": _valid(worst.message)})
    entry.text = "\n".join(_valid(finding.message) for finding in found)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _valid(text: str) -> str:
    """The text without the characters that XML 1.0 can't hold."""
    return "".join(character for character in text if character in "\t\n" or character >= " ")
