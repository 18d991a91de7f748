"""What is not implemented says why, and what to do instead.

Walks every place in the library that raises NotImplementedError, or spells out that a primitive has
no rule. `WITHOUT` lists those that lack a reason or a way round; it only ever becomes shorter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjax.interpreters import rules

ROOT = Path(__file__).resolve().parents[3]
# What a way round begins with, where reason and way are one text.
WAYS = re.compile(
    r"\b(add|ask|average|build|call|check|convert|count|differentiate|factor|find|give|instead|leave"
    r"|lower|make|map|multiply|pad|pass|read|return|run|scatter|slice|solve|sort|split|sum|take|tell"
    r"|transpose|try|use|write)\b",
    re.IGNORECASE,
)
# Places without: file, and how the text begins.
WITHOUT: set[tuple[str, str]] = set()


def text_of(node: ast.AST | None) -> str:
    """The words of a message; values that are put into it, or come from elsewhere, are one each."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return str(node.value) if node.value is not None else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "{}"


def words(text: str) -> int:
    return len(re.findall(r"[\w'.*/{}]+", text))


def from_elsewhere(node: ast.AST | None) -> bool:
    """A constant with a name, or a reason that somebody else has given: a text, but not here."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.IfExp))


def lacks(call: ast.Call) -> str | None:
    """What is wrong with `NotImplementedError(text)`, `Unsupported(reason)`, or
    `fail(NotImplementedError, what, why, fix)`; None for another call or a good one.
    """
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = {k.arg: k.value for k in call.keywords}
    args = list(call.args)
    if name == "Unsupported":  # the table of rules says what to do instead
        reason = args[0]
        return None if from_elsewhere(reason) or words(text_of(reason)) >= 3 else "a reason"
    if name in ("fail", "new_error"):
        if not args or getattr(args[0], "id", "") != "NotImplementedError":
            return None
        args = args[1:]
    elif name != "NotImplementedError":
        return None
    parts: dict[str, ast.AST] = dict(zip(("what", "why", "fix"), args), **given)
    why, fix, what = parts.get("why"), parts.get("fix"), text_of(parts.get("what"))
    clauses = [c for c in re.split(r"[:;,.]\s|\n|\bbecause\b", what) if words(c) >= 2 or c == "{}"]
    if not (from_elsewhere(why) or words(text_of(why)) >= 3 or len(clauses) >= 2):
        return "a reason"
    if not (from_elsewhere(fix) or words(text_of(fix)) >= 2 or WAYS.search(what)):
        return "a way round"
    return None


def abstract(function: ast.AST) -> bool:
    """A method that does nothing but raise: the classes that are made of it have one."""
    body = getattr(function, "body", [])
    return isinstance(body, list) and all(
        isinstance(s, ast.Raise) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )


def places(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, beginning of the text, what it lacks) of each place without."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = {
        id(c) for f in ast.walk(tree) if isinstance(f, kinds) and abstract(f) for c in ast.walk(f)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and getattr(node.exc, "id", "") == "NotImplementedError":
            if id(node) not in inside:
                yield node.lineno, "", "a text"
        elif isinstance(node, ast.Call):
            wrong = lacks(node)
            bare = getattr(node.func, "id", "") == "NotImplementedError" and id(node) in inside
            if wrong and not bare:
                at = (
                    0
                    if getattr(node.func, "id", "") in ("NotImplementedError", "Unsupported")
                    else 1
                )
                yield node.lineno, text_of(node.args[at])[:40], wrong


def found() -> dict[tuple[str, str], str]:
    result = {}
    for path in sorted((ROOT / "pyjax").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        for line, begins, wrong in places(ast.parse(path.read_text(encoding="utf-8"))):
            result[file, begins] = f"{file}:{line}: {begins!r} lacks {wrong}"
    return result


def test_what_is_not_implemented_says_why_and_what_instead() -> None:
    now = found()
    new = [text for key, text in now.items() if key not in WITHOUT]
    assert not new, "\n".join(new)
    assert not WITHOUT - set(now), "these say it now: take them off the list"


@pytest.mark.parametrize(
    "source, wrong",
    [
        ("raise NotImplementedError", "a text"),
        ("fail(NotImplementedError, 'vmap of f is not supported.')", "a reason"),
        ("fail(NotImplementedError, 'no f', 'one list of offsets')", "a way round"),
        ("fail(NotImplementedError, 'no f', 'one list of offsets', 'Use map.')", None),
        ("raise NotImplementedError('f of g is not there: use lax.map.')", None),
        ("raise NotImplementedError('f of g is not there.')", "a reason"),
        ("rule = Unsupported('unsupported')", "a reason"),
        ("rule = Unsupported('f is not linear')", None),
        ("fail(ValueError, 'no')", None),
    ],
)
def test_the_walk(source: str, wrong: str | None) -> None:
    """It sees what it is to see."""
    assert [lack for *_, lack in places(ast.parse(source))] == ([wrong] if wrong else [])


@pytest.mark.parametrize(
    "table",
    [rules.jvp_rules, rules.transpose_rules, rules.batching_rules, rules.lowering_rules],
    ids=lambda table: table.name,
)
def test_rules_that_do_not_exist_name_a_way_round(table: rules.RuleTable) -> None:
    """The message that users read has the reason, and what to do."""
    for primitive in rules.all_primitives.values():
        rule = table.get(primitive)
        if isinstance(rule, rules.Unsupported):
            with pytest.raises(NotImplementedError) as error:
                table[primitive]
            what, *rest = str(error.value).split("\n")
            assert rule.reason in what
            assert WAYS.search(rest[-1])
