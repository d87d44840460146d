"""Python scripts that build a model by calls: what is called with which values, as far as that can be told without running them.

Literals, arithmetic on them, comprehensions, loops over known lists, branches, the script's own functions and the defaults of
its command line are followed. Nothing of the script is executed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

from emplace.app.converting.script_values import (
    BINARY,
    BUILTINS,
    COMPARISONS,
    METHODS,
    MOST_ITEMS,
    UNARY,
    UNKNOWN,
    Call,
    Function,
    Made,
    Symbol,
    computed,
    few,
    formatted,
    is_known,
    weight,
)
from emplace.placement.errors import BrokenRule, InvalidDocument

_MOST_CHARACTERS, _DEEPEST = 2**18, 20
_MOST_WORK, _STEP = 500_000, 10
"""Work counts what values weigh, and each step."""


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class Script:
    """`made` is what calls of things that the script does not define returned, in order; `notes` what could not be followed, and
    `defaults` the options of its command line that were taken to be at their defaults."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self.made: list[Made] = []
        self.notes: list[str] = []
        self.defaults: dict[str, None] = {}
        self._work = self._depth = 0
        self._names: dict[str, Any] = {"__name__": "__main__"}
        if len(text) > _MOST_CHARACTERS:
            raise self._broken(f"is no script of at most {_MOST_CHARACTERS:,} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
            self._run(tree.body)
        except SyntaxError as error:
            raise self._broken(f"is no Python: {error.msg}", error.lineno) from None
        except (ValueError, MemoryError, RecursionError):
            raise self._broken("is no Python that can be read: it is nested too deep, or no text") from None
        except _Returned:
            pass

    def _broken(self, rule: str, line: int | None = None) -> InvalidDocument:
        return InvalidDocument(self._source, [BrokenRule("", "", rule, line)])

    def _charge(self, work: int, node: ast.stmt | ast.expr) -> None:
        self._work += work
        if self._work > _MOST_WORK:
            raise self._broken("does more than can be followed without running it", node.lineno)

    def _computed(self, node: ast.stmt | ast.expr, apply: Callable[..., Any], *given: Any) -> Any:
        self._charge(sum(map(weight, given)), node)
        found = computed(apply, *given)
        self._charge(weight(found), node)
        return found

    def _run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        self._charge(_STEP, node)
        match node:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node)
            case ast.Expr(value=value):
                self.value(value)
            case ast.FunctionDef(name=name):
                self._names[name] = Function(node)
            case ast.Return(value=value):
                raise _Returned(None if value is None else self.value(value))
            case ast.If(test=test):
                self._branch(node, self.value(test))
            case ast.For(target=target, iter=iterated):
                self._loop(node, target, self.value(iterated))
            case ast.With(body=body) | ast.Try(body=body):
                self._run(body)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case _:
                self._passed_over(node)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if node.value is None:
            return
        found = self.value(node.value)
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    self._bind(target, found)
            case ast.AnnAssign(target=target):
                self._bind(target, found)
            case ast.AugAssign(target=ast.Name(id=name), op=op):
                self._names[name] = self._binary(node, op, self._names.get(name, UNKNOWN), found)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        of = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
        for each in node.names:
            name = each.asname or each.name.partition(".")[0]
            self._names[name] = Symbol(of + (each.name if each.asname or of else name))

    def _branch(self, node: ast.If, test: Any) -> None:
        if is_known(test):
            self._run(node.body if test else node.orelse)
            return
        if _calls_something(node):
            self.notes.append(f"line {node.lineno}: which way it goes is not known; as if it held")
        self._run(node.body)

    def _loop(self, node: ast.For, target: ast.expr, items: Any) -> None:
        if not isinstance(items, (list, tuple)):
            self._passed_over(node)
            return
        for item in items:
            self._bind(target, item)
            self._run(node.body)

    def _passed_over(self, node: ast.stmt) -> None:
        if _calls_something(node):
            self.notes.append(f"line {node.lineno}: is not followed")

    def _bind(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                known = isinstance(value, (list, tuple)) and len(value) == len(parts)
                for number, part in enumerate(parts):
                    self._bind(part, value[number] if known else UNKNOWN)
            case ast.Subscript(value=holder, slice=key):
                held, at = self.value(holder), self.value(key)
                if isinstance(held, dict) and isinstance(at, (str, int)):
                    held[at] = value

    def value(self, node: ast.expr) -> Any:
        """What an expression is. Raises InvalidDocument for a script without end."""
        self._charge(_STEP, node)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._names.get(name, Symbol(name))
            case ast.Attribute(value=holder, attr=name):
                return self._attribute(self.value(holder), name)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=holder, slice=key):
                return self._item(self.value(holder), key)
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp():
                return self._operation(node)
        return self._collected(node)

    def _operation(self, node: ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp) -> Any:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in UNARY:
                return self._computed(node, UNARY[type(op)], self.value(operand))
            case ast.BoolOp(op=op, values=values):
                return self._either([self.value(each) for each in values], is_or=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._computed(node, COMPARISONS[type(op)], self.value(left), self.value(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                held = self.value(test)
                return self.value(body if held else orelse) if is_known(held) else UNKNOWN
        return UNKNOWN

    def _collected(self, node: ast.expr) -> Any:
        match node:
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return self._parts(parts)
            case ast.Tuple(elts=parts):
                return tuple(self._parts(parts))
            case ast.Dict(keys=keys, values=values):
                pairs = [(self.value(key), self.value(value)) for key, value in zip(keys, values, strict=True) if key is not None]
                return {key: value for key, value in pairs if isinstance(key, (str, int))}
            case ast.JoinedStr(values=values):
                return self._computed(node, lambda parts: "".join(map(str, parts)), [self.value(each) for each in values])
            case ast.FormattedValue(value=value, format_spec=None):
                return self.value(value)
            case ast.ListComp(elt=part, generators=generators) | ast.GeneratorExp(elt=part, generators=generators):
                found: list[Any] = []
                return found if self._comprehended(part, generators, found) else UNKNOWN
        return UNKNOWN

    def _parts(self, parts: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for part in parts:
            value = self.value(part.value if isinstance(part, ast.Starred) else part)
            self._charge(len(value) if isinstance(value, (list, tuple)) else 0, part)
            found.extend(value if isinstance(part, ast.Starred) and isinstance(value, (list, tuple)) else [value])
        return found

    def _attribute(self, holder: Any, name: str) -> Any:
        if isinstance(holder, Symbol):
            return Symbol(f"{holder.path}.{name}")
        if isinstance(holder, Made) and holder.call.name == "parse_args":
            self.defaults[name] = None
            return holder.call.keywords.get(name, UNKNOWN)
        return UNKNOWN

    def _item(self, holder: Any, key: ast.expr) -> Any:
        self._charge(len(holder) // _STEP if isinstance(holder, (list, tuple, str)) else 0, key)
        if isinstance(key, ast.Slice):
            ends = [None if end is None else self.value(end) for end in (key.lower, key.upper, key.step)]
            return (
                holder[slice(*ends)] if isinstance(holder, (list, tuple, str)) and all(isinstance(e, int | None) for e in ends) else UNKNOWN
            )
        at = self.value(key)
        if isinstance(holder, (list, tuple, str, dict)) and isinstance(at, (int, str)):
            try:
                return holder[at]  # type: ignore[index]
            except (LookupError, TypeError):
                return UNKNOWN
        return UNKNOWN

    def _binary(self, node: ast.stmt | ast.expr, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            self._charge(len(left) + len(right), node)
            return few([*left, *right])
        return self._computed(node, BINARY[type(op)], left, right) if type(op) in BINARY else UNKNOWN

    @staticmethod
    def _either(values: list[Any], *, is_or: bool) -> Any:
        for value in values[:-1]:
            if not is_known(value):
                return UNKNOWN
            if bool(value) is is_or:
                return value
        return values[-1]

    def _comprehended(self, part: ast.expr, generators: list[ast.comprehension], found: list[Any]) -> bool:
        """Whether all of it could be followed."""
        if not generators:
            found.append(self.value(part))
            return True
        (generator, *rest), items = generators, self.value(generators[0].iter)
        if not isinstance(items, (list, tuple)):
            return False
        for item in items:
            self._bind(generator.target, item)
            tests = [self.value(test) for test in generator.ifs]
            if not all(map(is_known, tests)) or (all(tests) and not self._comprehended(part, rest, found)):
                return False
        return True

    def _call(self, node: ast.Call) -> Any:
        holder = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else None
        arguments = tuple(self._parts(node.args))
        keywords = {each.arg: self.value(each.value) for each in node.keywords if each.arg}
        if isinstance(node.func, ast.Attribute) and not isinstance(holder, Symbol):
            return self._method(node, holder, Call(node.func.attr, arguments, keywords, node.lineno))
        called = self.value(node.func)
        if isinstance(called, Function):
            return self._own(called.node, arguments, keywords)
        if not isinstance(called, Symbol):
            return UNKNOWN
        if called.path in BUILTINS:
            return self._computed(node, BUILTINS[called.path], *arguments)
        return self._returned(Call(called.word, arguments, keywords, node.lineno))

    def _returned(self, call: Call) -> Made:
        self.made.append(Made(call))
        return self.made[-1]

    def _method(self, node: ast.Call, holder: Any, call: Call) -> Any:
        if isinstance(holder, Made):
            holder.calls.append(call)
            return self._returned(_parsed(holder) if call.name == "parse_args" else call)
        if isinstance(holder, list) and call.name in ("append", "extend"):
            self._lengthen(holder, call)
            return None
        if isinstance(holder, str) and call.name == "format":
            return self._computed(node, formatted, holder, *call.arguments)
        if call.name not in METHODS.get(type(holder), ()):
            return UNKNOWN
        found = self._computed(node, getattr(holder, call.name), *call.arguments)
        return few(found) if isinstance(holder, dict) and call.name != "get" and found is not UNKNOWN else found

    @staticmethod
    def _lengthen(holder: list[Any], call: Call) -> None:
        (given,) = call.arguments if len(call.arguments) == 1 else (UNKNOWN,)
        more = given if call.name == "extend" and isinstance(given, (list, tuple)) else [given]
        if len(holder) + len(more) <= MOST_ITEMS:
            holder.extend(more)

    def _own(self, node: ast.FunctionDef, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What one of the script's functions returns; it sees, and leaves, the names of the script."""
        if self._depth >= _DEEPEST:
            return UNKNOWN
        given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        defaults = dict(zip(given[len(given) - len(node.args.defaults) :], map(self.value, node.args.defaults), strict=True))
        self._charge(len(self._names), node)
        outside, self._depth = self._names, self._depth + 1
        self._names = outside | defaults | dict(zip(given, arguments, strict=False)) | keywords
        try:
            self._run(node.body)
        except _Returned as returned:
            return returned.value
        finally:
            self._names, self._depth = outside, self._depth - 1
        return None


def _calls_something(node: ast.stmt) -> bool:
    """Whether something may be added to a model in it."""
    return any(isinstance(each, ast.Attribute) and each.attr in ("add", "embedding_lookup") for each in ast.walk(node))


def _parsed(parser: Made) -> Call:
    """The options of a command line without any: their defaults."""
    options: dict[str, Any] = {}
    for call in parser.calls:
        names = [each for each in call.arguments if isinstance(each, str)]
        if call.name == "add_argument" and names:
            long = next((each for each in names if each.startswith("--")), names[-1])
            action = call.keywords.get("action")
            default = {"store_true": False, "store_false": True}.get(action) if isinstance(action, str) else None
            name = call.keywords.get("dest", long.lstrip("-").replace("-", "_"))
            options[str(name)] = call.keywords.get("default", default)
    return Call("parse_args", (), options, parser.call.line)
