"""Why a job failed, in one word of a few, for those who count: by the words in which this program tells it."""

from __future__ import annotations

_SAID = {
    "took longer than": "timeout",
    "was ended by": "killed",
    "workers in turn": "worker_lost",
    "internal error": "defect",
    "ended with status": "crash",
}
_REFUSED = "refused"

CAUSES = (*_SAID.values(), _REFUSED)


def cause_of(error: str) -> str:
    """`refused`, where the work itself said why it can't be done."""
    return next((cause for words, cause in _SAID.items() if words in error), _REFUSED)
