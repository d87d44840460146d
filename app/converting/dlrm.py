"""facebookresearch/dlrm's command lines, and the JSON files of DeepRecSys, which name the same options."""

from __future__ import annotations

import re
import shlex
from typing import Any

from emplace.app.converting.converted import MOST_IDS, Converted, padding_notes, table, up_to, whole_numbers
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.reading import parse_json

_OPTIMIZERS = {"sgd": "sgd", "adagrad": "adagrad", "rwsadagrad": "rowwise_adagrad"}
_CARRIED = {
    "arch-sparse-feature-size",
    "arch-embedding-size",
    "arch-mlp-bot",
    "arch-mlp-top",
    "arch-interaction-op",
    "num-indices-per-lookup",
    "num-indices-per-lookup-fixed",
    "mini-batch-size",
    "optimizer",
    "max-ind-range",
    "model-name",
}
_TRUE = {"true", "1", "yes"}


def from_command_line(text: str, source: str) -> Converted:
    """The first command in a script, or a command line alone, that says `--arch-`. Raises InvalidDocument."""
    joined = text.replace("\\\n", " ")
    line = next((line for line in joined.splitlines() if "--arch-" in line and not line.lstrip().startswith("#")), None)
    if line is None:
        raise InvalidDocument(source, [BrokenRule("", "", "has no command with --arch- options, as dlrm_s_pytorch.py takes them")])
    try:
        words = shlex.split(re.split(r"\s(?:\d?>|\||&&)", line)[0], comments=True)
    except ValueError as error:
        raise InvalidDocument(source, [BrokenRule("", "", f"is no command line: {error}")]) from None
    options: dict[str, Any] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            options[name] = value if given else True if after.startswith(("--", "$")) else after
    return _converted(options, source, name="dlrm")


def from_deeprecsys(text: str, source: str) -> Converted:
    """A file of models/configs. Raises InvalidDocument."""
    data = parse_json(text, source)
    if not isinstance(data, dict):
        raise InvalidDocument(source, [BrokenRule("", "", "must be a mapping")])
    options = {key.replace("_", "-"): value for key, value in data.items()}
    return _converted(options, source, name=str(options.get("model-name", "deeprecsys")), also_known=frozenset({"model-type"}))


def _converted(options: dict[str, Any], source: str, *, name: str, also_known: frozenset[str] = frozenset()) -> Converted:
    def numbers(option: str, default: str | None = None) -> list[int]:
        value = options.get(option, default)
        if value is None or value is True:
            why = "; with --data-generation=dataset the script reads it from the data: add it" if option == "arch-embedding-size" else ""
            raise InvalidDocument(source, [BrokenRule("", "", f"--{option} is required{why}")])
        return whole_numbers(value, source, f"/{option}")

    rows, (columns,) = numbers("arch-embedding-size"), numbers("arch-sparse-feature-size", "2")[:1]
    most = numbers("num-indices-per-lookup", "10")[0]
    is_fixed = str(options.get("num-indices-per-lookup-fixed", False)).lower() in _TRUE
    if not 0 < most <= MOST_IDS:
        rule = f"--num-indices-per-lookup must be from 1 to {MOST_IDS}"
        raise InvalidDocument(source, [BrokenRule("", str(most)[:80], rule)])
    length = {"fixed": most} if is_fixed else up_to(most)
    bottom, top = numbers("arch-mlp-bot", "4-3-2"), numbers("arch-mlp-top", "4-2-1")
    bounded = not str(options.get("max-ind-range", "-1")).startswith("-")
    limit = numbers("max-ind-range")[0] if bounded else max(rows)
    tables = [table(f"t{index}", min(size, limit), columns, {f"f{index}": length}) for index, size in enumerate(rows)]
    optimizer = str(options.get("optimizer", "sgd"))
    data = {
        "schema_version": 1,
        "name": re.sub(r"[^A-Za-z0-9_:-]", "-", name),
        "dense_features": bottom[0] if len(bottom) > 1 else 0,
        "bottom_mlp": bottom[1:] if len(bottom) > 1 else [],
        "top_mlp": top,
        "interaction": str(options.get("arch-interaction-op", "dot")),
        "optimizer": _OPTIMIZERS.get(optimizer, "adagrad"),
        "tables": tables,
    }
    if "mini-batch-size" in options:
        data["local_batch_size"] = numbers("mini-batch-size")[0]
    return Converted(data, tuple(_notes(options, columns, optimizer, also_known)))


def _notes(options: dict[str, Any], columns: int, optimizer: str, also_known: frozenset[str]) -> list[str]:
    notes = padding_notes({"all tables": columns})
    batch = options.get("mini-batch-size")
    if batch:
        notes.append(f"mini-batch-size {batch} is taken for each rank's")
    if optimizer not in _OPTIMIZERS:
        notes.append(f"optimizer {optimizer} is priced as adagrad")
    kind = options.get("model-type", "dlrm")
    if kind != "dlrm":
        notes.append(f"model-type {kind}: what it computes beside tables and both perceptrons is left out")
    left_out = sorted(set(options) - _CARRIED - also_known)
    if left_out:
        notes.append(f"not carried over: {', '.join(left_out)}")
    return notes
