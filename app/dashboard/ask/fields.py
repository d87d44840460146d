"""The form of a new plan: its fields, what they hold, and from them the body that the API takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from emplace.app.dashboard.forms import Form
from emplace.placement.catalog import builtin_host, builtin_model, host_names, model_names
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import DEFAULT_LIMIT_S, PlanOptions, Question
from emplace.placement.pointer import parts_of
from emplace.placement.reading import parse_json, parse_yaml

DOCUMENTS = ("model", "host")
NUMBERS = ("nodes", "ranks", "seed", "time_limit", "work_limit", "gap")
TEXTS = ("hbm_reserve", "ddr_reserve", "objective")
FIELDS = (*DOCUMENTS, *NUMBERS, *TEXTS, "tiers", "stack", "start", "cost_model")
_FORM = "form"
"""Where errors go that no field is to blame for."""


@dataclass(frozen=True)
class AskForm:
    """What the fields hold, by name, and what is wrong with them."""

    values: dict[str, str] = field(default_factory=dict)
    tiers: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """Those that are ticked, where several may be."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    """What is ticked of the plan that the form began with (ask/kept.py)."""


def sent_form(form: Form, errors: dict[str, list[str]]) -> AskForm:
    """The form as it was sent, to be corrected. An uploaded file stands in the text field: browsers don't keep files."""
    names = [*DOCUMENTS, *(f"{name}_text" for name in DOCUMENTS), *NUMBERS, *TEXTS, "stack"]
    values = {name: form.text(name) for name in names}
    values |= {f"{name}_text": form.text(f"{name}_file") for name in DOCUMENTS if form.text(f"{name}_file")}
    return AskForm(values, tuple(form.every("tiers")), kept=tuple(form.every("keep")), errors=errors)


def form_of(question: Question, stack: str | None, kept: Iterable[str]) -> AskForm:
    """The form that asks a question again, with a built-in stack that is named, and what is `kept` beside the fields."""
    options = question.options.to_data()
    values = {name: str(options[name]) for name in (*NUMBERS, *TEXTS) if name in options}
    values |= _document("model", question.model, model_names(), builtin_model) | _document(
        "host", question.host, host_names(), builtin_host
    )
    values |= {"stack": stack} if stack else {}
    return AskForm(values, tuple(options.get("tiers", ())), kept=tuple(kept))


def body_of(form: Form) -> dict[str, Any]:
    """The body of POST /v1/plans. Raises InvalidDocument, with pointers into the body."""
    body: dict[str, Any] = {name: chosen(form, name) for name in DOCUMENTS}
    options: dict[str, Any] = {
        name: number_in(form.text(name), f"/options/{name}", whole=name in ("nodes", "ranks", "seed"))
        for name in NUMBERS
        if form.text(name)
    }
    options |= {name: form.text(name) for name in TEXTS if form.text(name)}
    if form.every("tiers"):
        options["tiers"] = form.every("tiers")
    body |= {"options": options} | ({"stack": form.text("stack")} if form.text("stack") else {})
    return body


def errors_by_field(error: InvalidDocument, fields: Collection[str] = FIELDS) -> dict[str, list[str]]:
    """Each broken rule at the field that its pointer leads to."""
    found: dict[str, list[str]] = {}
    for broken in error.broken_rules:
        parts = parts_of(broken.pointer)
        named = parts[1] if parts[:1] == ["options"] and len(parts) > 1 else (parts[0] if parts else _FORM)
        below = "/" + "/".join(parts[1:]) if [named] == parts[:1] and len(parts) > 1 else ""
        line = "" if broken.line is None else f"line {broken.line}, "
        words = broken.rule + (f" (got {broken.value})" if broken.value else "") + (f", in {broken.named}" if broken.named else "")
        found.setdefault(named if named in fields else _FORM, []).append(f"{line}{below}: {words}" if below else f"{line}{words}")
    return found


def fresh_form(model: str, host: str) -> AskForm:
    return AskForm({"model": model, "host": host, "work_limit": f"{DEFAULT_LIMIT_S:g}", "gap": str(PlanOptions().gap)})


def _document(name: str, document: Document, names: list[str], find: Any) -> dict[str, str]:
    """Picked by name where it is the built-in one, else written out."""
    own = getattr(document, "name", "")
    if own in names and find(own) == document:
        return {name: own}
    return {f"{name}_text": yaml.safe_dump(document.to_data(), sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)}


def chosen(form: Form, name: str) -> Any:
    """A file goes before a text, and either before a name. Raises InvalidDocument."""
    if f"{name}_file" in form.unreadable:
        raise InvalidDocument("body", [BrokenRule(f"/{name}", "", "the file must be YAML or JSON in UTF-8")])
    text = form.text(f"{name}_file") or form.text(f"{name}_text")
    if not text:
        return form.text(name) or None
    try:
        parsed = parse_json(text, name) if text.startswith("{") else parse_yaml(text, name)
    except InvalidDocument as error:
        broken = [BrokenRule(f"/{name}{each.pointer}", each.value, each.rule, each.line) for each in error.broken_rules]
        raise InvalidDocument("body", broken) from None
    if isinstance(parsed, str):
        raise InvalidDocument("body", [BrokenRule(f"/{name}", repr(parsed[:40]), f"must be a {name} document, a mapping in YAML or JSON")])
    return parsed


def number_in(text: str, pointer: str, *, whole: bool) -> int | float:
    """The number that a field holds. Raises InvalidDocument with a pointer into the body."""
    try:
        return int(text) if whole else float(text)
    except ValueError:
        rule = f"must be a {'whole ' if whole else ''}number"
        raise InvalidDocument("body", [BrokenRule(pointer, repr(text[:40]), rule)]) from None
