"""What the form of a new plan has no field for: it is carried on from the plan that the form began with, unless it is let go."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from emplace.app.reports.figures import count
from emplace.placement.catalog import builtin_stack, stack_names
from emplace.placement.cost_model import CostModel
from emplace.placement.datasheet import follows_datasheet
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Question
from emplace.placement.stack import Stack


@dataclass(frozen=True)
class KeptPart:
    """`body` is what it says in the body of POST /v1/plans, `words` for people."""

    key: str
    words: str
    body: dict[str, Any]


def kept_parts(question: Question, usual: CostModel) -> list[KeptPart]:
    """What of the question the form can't show. `usual` are the prices where nothing is said of them."""
    parts, options, prices = [], question.options.to_data(), question.cost_model
    if question.options.start is not None:
        tables = count(len(question.options.start), "table")
        words = f"where the job has {tables} now, and {question.options.move_price_us_per_gib:g} us of a step as the price of moving a GiB"
        parts.append(KeptPart("start", words, {"options": {key: options[key] for key in ("start", "move_price_us_per_gib")}}))
    if prices == usual or named_stack(question) is not None:
        return parts
    if follows_datasheet(prices, question.host):
        assert prices.stack is not None
        return [*parts, KeptPart("stack", f"a software stack of its own, {prices.stack.name}", {"stack": prices.stack.to_data()})]
    return [*parts, KeptPart("cost_model", f"prices of its own ({prices.source})", {"cost_model": prices.to_data()})]


def named_stack(question: Question) -> str | None:
    """The built-in software stack that the question's prices follow from."""
    stack: Stack | None = question.cost_model.stack
    if stack is None or stack.name not in stack_names() or stack != builtin_stack(stack.name):
        return None
    return stack.name if follows_datasheet(question.cost_model, question.host) else None


def with_kept(body: dict[str, Any], parts: list[KeptPart], chosen: Collection[str]) -> dict[str, Any]:
    """The body of a form with the parts that are chosen. Raises InvalidDocument where the form says otherwise."""
    for part in parts:
        if part.key not in chosen:
            continue
        if part.key == "stack" and "stack" in body:
            raise InvalidDocument("body", [BrokenRule("/stack", "", f"choose none, or untick {part.words} below")])
        body = body | part.body | {"options": body["options"] | part.body.get("options", {})}
    return body
