"""Loops inside `try` and `with` are guarded on every Python.

On 3.12 and 3.13 a loop `while condition:` ends each turn with a jump that the compiler leaves out
of the surrounding `try` or `with`: what a signal handler raises there (Ctrl-C does) passes
`finally`, `except` and `__exit__` by, and locks stay taken. That of `while True:` is guarded, and
so is that of a `for` whose turn ends in a call; one that ends in an `if` has such a jump, too,
which is not looked for here.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    p for room in ("pyjax", "config", "xla_backend") for p in sorted((ROOT / room).rglob("*.py"))
]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def unguarded(node: ast.AST, guarded: bool = False) -> Iterator[int]:
    """The lines of loops with a condition that stand, in the same function, where an interrupt is
    to be noticed."""
    if isinstance(node, _FUNCTIONS):
        guarded = False
    elif isinstance(node, ast.While) and guarded and not isinstance(node.test, ast.Constant):
        yield node.lineno
    inside = guarded or isinstance(node, (ast.With, ast.AsyncWith))
    if isinstance(node, ast.Try) and (node.finalbody or any(map(_catches_all, node.handlers))):
        for child in node.body:
            yield from unguarded(child, True)
        for child in (*node.handlers, *node.orelse):
            yield from unguarded(child, guarded or bool(node.finalbody))
        for child in node.finalbody:
            yield from unguarded(child, guarded)
        return
    for child in ast.iter_child_nodes(node):
        yield from unguarded(child, inside)


def _catches_all(handler: ast.ExceptHandler) -> bool:
    names = (
        {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else set()
    )
    return handler.type is None or bool(names & {"BaseException", "KeyboardInterrupt"})


def test_the_library_has_none() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: write `while True:` and `if not ...: break`"
        for path in FILES
        for line in unguarded(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(found)


GUARDED = {
    "while True": "while True:\n   if not more(): break\n   work()",
    "for": "for x in more():\n   work()",
    "in a function": "def f():\n   while more(): work()\n  f()",
}


def _enclosed(body: str) -> list[str]:
    return [
        f"def f():\n try:\n  {body}\n finally:\n  end()",
        f"def f():\n try:\n  {body}\n except BaseException:\n  end()",
        f"def f():\n with end:\n  {body}",
    ]


@pytest.mark.parametrize("loop", GUARDED)
def test_what_is_written_in_their_place(loop: str) -> None:
    for text in _enclosed(GUARDED[loop]):
        assert not list(unguarded(ast.parse(text)))
        assert not list(_jumps_past_handlers(text))


def test_such_loops_are_found() -> None:
    for text in _enclosed("while more():\n   work()"):
        assert list(unguarded(ast.parse(text))) == [3]
    assert not list(
        unguarded(ast.parse("def f():\n while more():\n  try: work()\n  finally: end()"))
    )


def _jumps_past_handlers(text: str) -> Iterator[dis.Instruction]:
    """Jumps back into what a handler guards that no handler guards."""
    names: dict[str, object] = {}
    exec(compile(text, "loops", "exec"), names)
    for code in _functions(names["f"].__code__):  # type: ignore[attr-defined]
        table = list(dis.Bytecode(code).exception_entries)  # type: ignore[attr-defined]
        for each in dis.get_instructions(code):
            if each.opname.startswith("JUMP_BACKWARD"):
                there, here = (
                    any(e.start <= at < e.end for e in table) for at in (each.argval, each.offset)
                )
                if there and not here:
                    yield each


def _functions(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _functions(each)
