"""Runs tests that are marked `gpu` where pytest is not installed.

    python -m benchmarks.plain_tests FILE ...

A module stands in for pytest while the files are imported: marks, `parametrize`, `raises`,
`approx`, `skip`, `importorskip`, fixtures of the file, and `tmp_path` and `monkeypatch`. A test
that needs more is counted as not run, and named with the reason. Exit status 1 if a test failed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import math
import os
import re
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np


class Skipped(Exception):
    """A test does not run; the reason."""


@dataclass
class Marks:
    """What the decorators said about a function."""

    names: set[str] = field(default_factory=set)
    tables: list[tuple[list[str], list[Any]]] = field(default_factory=list)
    skipped: str = ""


def _marks(function: Any) -> Marks:
    if not hasattr(function, "_plain_marks"):
        function._plain_marks = Marks()
    return function._plain_marks


class _Mark:
    """`pytest.mark`, and what its attributes are: decorators, with or without arguments; or what
    a file says of all its tests."""

    def __init__(self, name: str = "", args: tuple[Any, ...] = (), reason: str = "") -> None:
        self.name = name
        self.args = args
        self.reason = reason

    def __getattr__(self, name: str) -> _Mark:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Mark(name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and not options and inspect.isfunction(args[0]):
            return self._put_on(args[0])
        return _Mark(self.name, args, options.get("reason", ""))

    @property
    def skips(self) -> bool:
        """Whether tests that have it do not run."""
        return self.name == "skip" or (self.name == "skipif" and bool(self.args[0]))

    def _put_on(self, function: Any) -> Any:
        marks = _marks(function)
        marks.names.add(self.name)
        if self.name == "parametrize":
            names, values = self.args
            names = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
            marks.tables.append((names, list(values)))
        elif self.skips:
            marks.skipped = self.reason or "it says so"
        return function


class _Raises(contextlib.AbstractContextManager["_Raises"]):
    def __init__(self, expected: Any, match: str | None = None) -> None:
        self._expected = expected
        self._match = match
        self.value: BaseException | None = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is None:
            raise AssertionError(f"{self._expected} was not raised")
        if not isinstance(error, self._expected):
            return False
        self.value = error
        if self._match is not None and re.search(self._match, str(error)) is None:
            raise AssertionError(f"{self._match!r} is not in {str(error)!r}")
        return True


class _Approx:
    def __init__(self, value: Any, rel: float = 1e-6, abs: float = 1e-12) -> None:
        self._value, self._rel, self._abs = value, rel, abs

    def __eq__(self, other: object) -> bool:
        if isinstance(self._value, int | float) and isinstance(other, int | float):
            return math.isclose(other, self._value, rel_tol=self._rel, abs_tol=self._abs)
        return bool(np.allclose(np.asarray(other), self._value, rtol=self._rel, atol=self._abs))

    def __repr__(self) -> str:
        return f"about {self._value}"


class MonkeyPatch:
    """Changes that are taken back at the end of a test."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def setattr(self, target: Any, name: str, value: Any) -> None:
        before = getattr(target, name)
        self._undo.append(lambda: setattr(target, name, before))
        setattr(target, name, value)

    def setenv(self, name: str, value: str) -> None:
        self._restore(name)
        os.environ[name] = value

    def delenv(self, name: str, raising: bool = True) -> None:
        if raising and name not in os.environ:
            raise KeyError(name)
        self._restore(name)
        os.environ.pop(name, None)

    def _restore(self, name: str) -> None:
        before = os.environ.get(name)
        put_back = lambda: (
            os.environ.pop(name, None) if before is None else os.environ.update({name: before})
        )
        self._undo.append(put_back)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _fixture(*args: Any, scope: str = "function", **_: Any) -> Any:
    """`pytest.fixture`, with or without arguments."""

    def mark(function: Any) -> Any:
        function._plain_scope = scope
        return function

    return mark(args[0]) if args and inspect.isfunction(args[0]) else mark


class Fixtures:
    """What tests of a file ask for by name. Those of a wider scope than a test last until it is
    closed."""

    def __init__(self, contents: dict[str, Any]) -> None:
        self._functions = {n: f for n, f in contents.items() if hasattr(f, "_plain_scope")}
        self._kept: dict[str, Any] = {}
        self._until_the_end = contextlib.ExitStack()

    def close(self) -> None:
        self._until_the_end.close()

    def value(self, name: str, stack: contextlib.ExitStack) -> Any:
        """A fixture, which is taken back when its stack ends.

        Raises:
          Skipped: there is none of that name here.
        """
        if name in self._kept:
            return self._kept[name]
        if name == "tmp_path":
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if name == "monkeypatch":
            patch = MonkeyPatch()
            stack.callback(patch.undo)
            return patch
        function = self._functions.get(name)
        if function is None:
            raise Skipped(f"it needs the fixture {name!r}, and pytest is not installed")
        keeps = function._plain_scope != "function"
        if keeps:
            stack = self._until_the_end
        made = function(**{n: self.value(n, stack) for n in inspect.signature(function).parameters})
        if inspect.isgenerator(made):
            stack.callback(next, made, None)
            made = next(made)
        if keeps:
            self._kept[name] = made
        return made


def _skip(reason: str = "", **_: Any) -> None:
    raise Skipped(reason)


def _import_or_skip(name: str, **_: Any) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(str(error)) from None


def _param(*values: Any, **_: Any) -> Any:
    return values[0] if len(values) == 1 else values


def stand_in() -> types.ModuleType:
    """The module that tests import as pytest."""
    module = types.ModuleType("pytest")
    marking = _Mark()
    contents = {
        "mark": marking,
        "raises": _Raises,
        "approx": _Approx,
        "skip": _skip,
        "importorskip": _import_or_skip,
        "param": _param,
        "MonkeyPatch": MonkeyPatch,
        "fixture": _fixture,
    }
    module.__dict__.update(contents)
    return module


def cases(function: Any) -> Iterator[dict[str, Any]]:
    """Arguments of a test by its tables, all with all."""
    rows = []
    for names, values in _marks(function).tables:
        rows.append([dict(zip(names, v if len(names) > 1 else (v,))) for v in values])
    for chosen in product(*rows):
        yield {name: value for part in chosen for name, value in part.items()}


def run_test(function: Any, arguments: dict[str, Any], fixtures: Fixtures) -> tuple[str, str]:
    """What becomes of one case: "passed", "failed" or "not run", and why."""
    try:
        if _marks(function).skipped:
            raise Skipped(_marks(function).skipped)
        wanted = [n for n in inspect.signature(function).parameters if n not in arguments]
        with contextlib.ExitStack() as stack:
            function(**arguments, **{name: fixtures.value(name, stack) for name in wanted})
    except Skipped as reason:
        return "not run", str(reason)
    except Exception:
        return "failed", traceback.format_exc()
    return "passed", ""


def load(file: Path) -> dict[str, Any]:
    """What a file of tests defines."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return vars(module)


def tests_of(contents: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Functions of a file that are marked `gpu`, or all if the file is.

    Raises:
      Skipped: the file says that none of them runs here.
    """
    file_marks = contents.get("pytestmark", [])
    listed = file_marks if isinstance(file_marks, list) else [file_marks]
    for mark in listed:
        if mark.skips:
            raise Skipped(mark.reason)
    whole = any(mark.name == "gpu" for mark in listed)
    for name, function in contents.items():
        if name.startswith("test_") and inspect.isfunction(function):
            if whole or "gpu" in _marks(function).names:
                yield name, function


def run_file(file: Path) -> Iterator[tuple[str, str, str]]:
    """Name, state and reason of each case."""
    try:
        contents = load(file)
        found = list(tests_of(contents))
    except Skipped as reason:
        yield str(file), "not run", str(reason)
        return
    except Exception:
        yield str(file), "failed", traceback.format_exc()
        return
    fixtures = Fixtures(contents)
    for name, function in found:
        for number, arguments in enumerate(cases(function)):
            label = f"{file.name}::{name}[{number}]"
            yield label, *run_test(function, arguments, fixtures)
    fixtures.close()


def main(words: Sequence[str] | None = None) -> int:
    files = [Path(word) for word in (sys.argv[1:] if words is None else words)]
    sys.modules.setdefault("pytest", stand_in())
    counts = dict.fromkeys(("passed", "failed", "not run"), 0)
    for file in files:
        sys.path.insert(0, str(file.resolve().parent))
        for name, state, reason in run_file(file):
            counts[state] += 1
            if state != "passed":
                print(f"{state}: {name}: {reason}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
