"""Requests that nobody wrote, against a running service: schemathesis makes them from /openapi.json and holds every answer against it.

    python -m benchmarks.generated_requests [--requests 20000] [--seed 0] [--database-url URL] [--out FILE]

Each operation gets as many: sound ones by its schema, ones that break it, and its examples with other values in them. Where a path names
a resource, it is mostly one that an earlier answer told. All checks of schemathesis look at every answer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, openapi
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from benchmarks.json_lines import emit
from benchmarks.service_process import ServedService

AnyOperation: TypeAlias = APIOperation[Any, Any, Any, Any]
AnyCase: TypeAlias = Case[Any]

_ANSWERED_S = 60
_KNOWN = 20
"""Resources of a kind that later requests may name."""
_REJECTED_BY_RULES = 422
"""A schema says nothing of rules between fields, so a body by the schema alone may be refused with this; an example may not."""
_WELL, _FULL, _LARGE = 300, 429, 500
_MOSTLY = 0.9
_PER_ROUND = 8
_NAME, _NAMED = "name", ("models", "hosts")
_KINDS = {
    "plans": "plan",
    "runs": "run",
    "profiles": "profile",
    "pipelines": "pipeline",
    "studies": "study",
    "models": "models",
    "hosts": "hosts",
}
"""What resources of each kind are known under: the name of their parameter without `_id`, or the kind for what has a name."""


@dataclass
class Told:
    """What came of the requests, and which resources there are: the paths of answers name them."""

    requests: int = 0
    accepted: int = 0
    of_500_and_over: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    """By operation and check, the first of each with a command that repeats it."""
    ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def figures(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "accepted": self.accepted,
            "accepted_share": self.accepted / max(1, self.requests),
            "of_500_and_over": self.of_500_and_over,
            "failures": len(self.failures),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
        }


class Generated:
    """The requests for one service at `url`."""

    def __init__(self, url: str, seed: int) -> None:
        self._schema = openapi.from_url(f"{url}/openapi.json")
        self._url, self._seed, self._random = url, seed, Random(seed)
        self.told = Told()

    def run(self, requests: int) -> Told:
        """Every operation in turn, a few requests at a time: so those that make resources come before those that end them."""
        operations = [each.ok() for each in self._schema.get_all_operations() if isinstance(each, Ok)]
        operations.sort(key=lambda each: (each.method != "post", each.path.count("{"), each.method == "delete", each.path))
        rounds, each = max(1, requests // (len(operations) * _PER_ROUND)), _PER_ROUND
        for number in range(rounds):
            for operation in operations:
                self._ask(operation, each, self._seed + number)
        return self.told

    def _ask(self, operation: AnyOperation, count: int, seed: int) -> None:
        kinds = [operation.as_strategy(generation_mode=GenerationMode.POSITIVE)] * 5
        if operation.body or operation.query or operation.headers:
            kinds.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))

        @seeded(seed)
        @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=st.one_of(kinds))
        def ask(case: AnyCase) -> None:
            self._one(case)

        ask()

    def _one(self, case: AnyCase) -> None:
        is_sound = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
        is_example = is_sound and self._make_accepted(case)
        if case.operation.path.endswith("/events"):  # a stream ends with its job
            httpx.post(f"{self._url}{case.formatted_path.removesuffix('events')}cancel", verify=False)
        response = case.call(timeout=_ANSWERED_S, headers={"Prefer": "wait=0"} if case.operation.path == "/v1/plans" else None)
        told = self.told
        told.requests += 1
        told.accepted += response.status_code < _WELL
        told.of_500_and_over += response.status_code >= _LARGE
        told.statuses[response.status_code] += 1
        self._learn(case, response)
        try:
            case.validate_response(response)
        except FailureGroup as group:
            for failure in group.exceptions:
                if not self._is_rule(failure, response.status_code, is_example=is_example):
                    where = f"{case.operation.method.upper()} {case.operation.path}: {failure.title}"
                    told.failures.setdefault(where, f"{failure.message}\n{case.as_curl_command()}\n{response.text[:500]}")

    def _make_accepted(self, case: AnyCase) -> bool:
        """Put what is there into the path, and mostly an example with other values into the body. Says whether it is an example."""
        for name in case.path_parameters or {}:
            known = self.told.ids.get(_kind_of(case.operation.path) if name == _NAME else name.removesuffix("_id"))
            if known and self._random.random() < _MOSTLY:
                case.path_parameters = {**case.path_parameters, name: self._random.choice(known)}
        bodies = self._examples(case.operation)
        if not bodies or self._random.random() >= _MOSTLY:
            return False
        case.body, case.media_type = _varied(self._random.choice(bodies), self._random), "application/json"
        case.headers.pop("idempotency-key", None)
        return True

    def _examples(self, operation: AnyOperation) -> list[Any]:
        content = operation.definition.raw.get("requestBody", {}).get("content", {}).get("application/json", {})
        return [each["value"] for each in content.get("examples", {}).values()]

    def _learn(self, case: AnyCase, response: Any) -> None:
        """Which resources there are: of lists and of what was made; one that is deleted is known no more."""
        if response.status_code >= _WELL or not response.content or "json" not in "".join(response.headers.get("content-type", [])):
            return
        told = response.json()
        listed = told.get("items", [told]) if isinstance(told, dict) else []
        kind = _kind_of(case.operation.path)
        if kind in _KINDS:
            key = _NAME if kind in _NAMED else "id"
            self._know(kind, [str(each[key]) for each in listed if key in each])
        for location in [stage["location"] for each in listed for stage in each.get("stages", ()) if stage["location"]]:
            self._know(_kind_of(location), [location.rpartition("/")[2]])

    def _know(self, kind: str, found: list[str]) -> None:
        known = self.told.ids[_KINDS[kind]]
        known[:] = list(dict.fromkeys([*found, *known]))[:_KNOWN]

    def _is_rule(self, failure: Failure, status: int, *, is_example: bool) -> bool:
        """Whether the refusal of a sound request is one that no schema can say: for lack of room, or for rules between fields."""
        is_refusal = type(failure).__name__ == "RejectedPositiveData"
        return is_refusal and (status == _FULL or (status == _REJECTED_BY_RULES and not is_example))


def _kind_of(path: str) -> str:
    """What a path leads to: plans, for /v1/plans and what is below a plan, but for its runs."""
    names = path.strip("/").split("/")
    return "runs" if names[-1] == "runs" else names[min(1, len(names) - 1)]


def _varied(example: Any, random: Random) -> Any:
    """The example with other values where any will do: each makes another resource, and none is long at work."""
    body = json.loads(json.dumps(example))
    if "seed" in body or "steps" in body:
        body |= {"seed": random.randrange(1000), "steps": random.randrange(1, 20)}
    elif "model" in body and body.get("kind") != "size":
        limit = {"work_limit": 0.1} if "kind" in body else {"time_limit": 0.1}
        body["options"] = {key: value for key, value in body.get("options", {}).items() if not key.endswith("_limit")}
        body["options"] |= limit | {"seed": random.randrange(1000)}
    return body


@contextmanager
def service(database_url: str | None) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, ServedService(Path(folder), database_url) as served:
        yield served.url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database-url")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with service(arguments.database_url) as url:
        told = Generated(url, arguments.seed).run(arguments.requests)
    for where, what in told.failures.items():
        emit({"failure": where, "what": what}, arguments.out)
    emit(told.figures(), arguments.out)


if __name__ == "__main__":
    main()
