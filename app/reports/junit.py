"""A check as JUnit XML: one test case per model and host; a proven no fails, an undecided one and bad input err; one that
only warns passes, and is told in system-out."""

from __future__ import annotations

import platform
import re
from datetime import UTC, datetime
from xml.etree import ElementTree

from emplace.app.reports.checked import Checked
from emplace.app.reports.findings import Finding, findings_of, findings_of_refused

_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(checked: Checked) -> str:
    """Valid by Ant's schema, which has an order and no attributes on the root, and by Jenkins'."""
    results, refused = checked.results, checked.refused
    failures = sum(result.fails for result in results)
    errors = sum(result.is_open for result in results) + len(refused)
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        id="0",
        name="emplace check",
        package="emplace",
        timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        hostname=platform.node() or "localhost",
        tests=str(len(results) + len(refused)),
        failures=str(failures),
        errors=str(errors),
        skipped="0",
        time=_seconds(sum(result.seconds or 0.0 for result in results)),
    )
    ElementTree.SubElement(suite, "properties")
    warnings: list[str] = []
    for result in results:
        case = _case(suite, result.host, result.source or result.model, result.seconds or 0.0)
        if result.fails or result.is_open:
            _add_findings(case, "failure" if result.fails else "error", findings_of(result))
        else:
            warnings += [_valid(finding.located) for finding in findings_of(result)]
    for each in refused:
        _add_findings(_case(suite, each.host or "", each.source, 0.0), "error", findings_of_refused(each))
    ElementTree.SubElement(suite, "system-out").text = "\n".join(warnings)
    ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, host: str, source: str, seconds: float) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", {"classname": host, "name": _valid(source), "time": _seconds(seconds)})


def _add_findings(case: ElementTree.Element, tag: str, found: list[Finding]) -> None:
    worst = found[0]
    entry = ElementTree.SubElement(case, tag, {"type": worst.rule, "message": _valid(worst.message)})
    entry.text = "\n".join(_valid(finding.located) for finding in found)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _valid(text: str) -> str:
    """The text without the characters that XML 1.0 can't hold."""
    return _NO_XML.sub("", text)
