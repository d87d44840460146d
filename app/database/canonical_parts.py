"""The canonical JSON of a question, part by part. Hosts and their prices are large, and most questions are about the same few."""

from __future__ import annotations

from functools import lru_cache

from emplace.placement.document import Document, canonical
from emplace.placement.plan import Question

_KEPT = 32


class _Itself:
    """A document that equals itself only: to compare two takes longer than to write one."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.document is self.document

    def __hash__(self) -> int:
        return id(self.document)


def canonical_parts(question: Question) -> dict[str, str]:
    """What is under each key. Of a host or prices that were there a moment ago it is not written anew."""
    kept = {"host": _kept_json(_Itself(question.host)), "cost_model": _kept_json(_Itself(question.cost_model))}
    others = question.model_dump(mode="json", exclude_none=True, exclude=set(kept))
    return kept | {name: canonical(part) for name, part in others.items()}


@lru_cache(maxsize=_KEPT)
def _kept_json(part: _Itself) -> str:
    return part.document.canonical_json()
