"""`emplace keys`: made, listed, revoked, on the database of the service."""

from __future__ import annotations

import json

from tests.app.cli.command import Emplace


def test_a_key_is_made_listed_and_revoked(emplace_here: Emplace) -> None:
    def keys(*arguments: str) -> tuple[int, str, str]:
        ended = emplace_here("keys", *arguments)
        return ended.returncode, ended.stdout, ended.stderr

    code, key, said = keys("make", "ci", "--scope", "plan")
    assert (code, key.startswith("emplace_"), "of scope plan" in said) == (0, True, True)
    listed = keys("list", "--format", "json")[1]
    [row] = json.loads(listed)
    assert (row["name"], row["scope"], row["revoked"]) == ("ci", "plan", None)
    assert key.strip() not in listed
    assert keys("revoke", "ci")[0] == 0
    assert keys("revoke", "ci")[0] == 2
    assert "ci" in keys("list")[1]
    assert keys("make")[0] == 2
