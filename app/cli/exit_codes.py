"""What a command's exit code says."""

from __future__ import annotations

YES = 0
PROVEN_NO = 1
BAD_INPUT = 2
"""Or a tool error."""
UNDECIDED = 3
INTERRUPTED = 130
TERMINATED = 143
