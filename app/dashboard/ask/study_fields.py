"""The form of a new study: its fields, what they hold, and from them the body that the API takes."""

from __future__ import annotations

from typing import Any

from emplace.app.dashboard.ask.fields import AskForm, chosen, number_in
from emplace.app.dashboard.forms import Form
from emplace.app.study_pointers import pointing_into_study
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.studies.batch import batches_of

LINES = ("vary", "pareto", "set")
"""Lists, with an item on each line."""
TEXTS_OF = {"sweep": (), "size": ("throughput", "examples", "deadline", "objective"), "recommend": ("objective",), "batch": ()}
NUMBERS_OF = {"sweep": (), "size": ("max_nodes", "async_batch", "threads", "tau"), "recommend": (), "batch": ()}
OPTIONS_OF = {
    "sweep": ("nodes", "ranks", "gap", "work_limit"),
    "size": ("gap", "work_limit"),
    "recommend": ("nodes", "gap", "work_limit"),
    "batch": ("nodes", "ranks", "gap", "work_limit"),
}
LINES_OF = {"sweep": LINES, "size": ("set",), "recommend": ("set",), "batch": ("set",)}
MEASURED = ("curve", "noise")
"""Documents of a kind `batch`, pasted or uploaded."""
_WHOLE = ("nodes", "ranks", "max_nodes", "async_batch", "threads", "tau")


def fields_of(kind: str) -> tuple[str, ...]:
    """Every field that an error may be at."""
    of_kind = (*LINES_OF[kind], *TEXTS_OF[kind], *NUMBERS_OF[kind], *OPTIONS_OF[kind], *(("batches", *MEASURED) if kind == "batch" else ()))
    return ("model", "hosts", "host", "tiers", "stack", *of_kind)


def sent_study(form: Form, kind: str, errors: dict[str, list[str]]) -> AskForm:
    """The form as it was sent, to be corrected. An uploaded file stands in the text field: browsers don't keep files."""
    values = {name: form.text(name) for name in fields_of(kind)}
    values |= {f"{name}_text": form.text(f"{name}_file") or form.text(f"{name}_text") for name in ("model", "host", *MEASURED)}
    return AskForm(values, tuple(form.every("tiers")), tuple(form.every("hosts")), errors)


def study_body(form: Form, kind: str) -> dict[str, Any]:
    """The body of POST /v1/studies. Raises InvalidDocument, with pointers into the body."""
    body: dict[str, Any] = {"kind": kind, "model": chosen(form, "model"), "hosts": _hosts(form)}
    body |= {name: _lines(form.text(name)) for name in LINES_OF[kind] if form.text(name)}
    body |= {name: form.text(name) for name in TEXTS_OF[kind] if form.text(name)}
    body |= {name: _number(form, name, "") for name in NUMBERS_OF[kind] if form.text(name)}
    if kind == "batch":
        with pointing_into_study(kind):
            body["batches"] = batches_of(form.text("batches"))
        body |= {name: document for name in MEASURED if (document := chosen(form, name)) is not None}
    options: dict[str, Any] = {name: _number(form, name, "/options") for name in OPTIONS_OF[kind] if form.text(name)}
    if form.every("tiers"):
        options["tiers"] = form.every("tiers")
    return body | {"options": options} | ({"stack": form.text("stack")} if form.text("stack") else {})


def _hosts(form: Form) -> list[Any]:
    """Ticked ones, and one that is written out."""
    own = chosen(form, "host")
    hosts = [*form.every("hosts"), *([own] if own else [])]
    if not hosts:
        raise InvalidDocument("body", [BrokenRule("/hosts", "", "tick at least one, or give a document")])
    return hosts


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _number(form: Form, name: str, where: str) -> int | float:
    return number_in(form.text(name), f"{where}/{name}", whole=name in _WHOLE)
