"""Digests of the results of public functions, called with many elements in every way that must not
change a bit: on 1, 2 and 7 threads, eagerly and under `jit`.

    python -m tests.edge_values.bits TABLE [--first-code]

prints as JSON {case: [error or digest for each of WAYS]}, and the cases whose eager call is one
program. With `--first-code` programs stay on the code that is made without LLVM. Of a NaN only that
it is one counts: where two meet, or where LLVM folds a sign, which one comes out is nobody's
promise.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import pyjax
from tests.edge_values import execute
from tests.edge_values.operands import is_float, is_inexact, operand
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES
from tests.first_code import stay_on_first_code

WAYS = tuple(itertools.product(("eager", "jit"), (7, 1, 2)))
_FACTOR = 40  # of sizes of matrices and larger arrays
_VECTOR = 2003  # at least half as many elements
_CALLS = 2  # of each function
_MOST = 1 << 22  # elements of results
_AS_THEY_ARE = ("s", "one", "e", "e2", "eq", "key", "i", "j")
_SQUARE = {"h": (120, 120), "g": (120, 120), "q": (120, 120), "z": (120, 120), "qq": (14, 45, 45)}


@cache
def many(name: str, dtype: str) -> np.ndarray:
    """The operand of this name with its elements many times, in some order and, if they are no
    integers, each times another number: sums of what is exact would not tell orders apart."""
    few = operand(name, dtype)
    if name in _AS_THEY_ARE:
        return few
    random = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode()))
    if name in _SQUARE:
        return _matrices(name, random, few.dtype)
    shape = tuple(_FACTOR * n for n in few.shape) if few.ndim > 1 else (_repeated(few.size),)
    if name == "x":
        return np.sort(np.resize(few, shape)) if is_float(few.dtype) else np.resize(few, shape)
    found = random.permutation(np.resize(few, math.prod(shape))).reshape(shape)
    if is_inexact(few.dtype):
        with np.errstate(all="ignore"):
            found = (found * random.uniform(0.5, 1, shape)).astype(few.dtype)
    return found


def _repeated(size: int) -> int:
    return size * max(1, _VECTOR // size)


def _matrices(name: str, random: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    shape = _SQUARE[name]
    n = shape[-1]
    x = random.normal(size=shape)
    x = {
        "h": lambda: x @ x.T / n + np.eye(n),
        "g": lambda: x[:, :7] @ x[:7],
        "z": lambda: 0 * x,
    }.get(name, lambda: x / 4 + math.sqrt(n) * np.eye(n))()
    return (x if is_inexact(dtype) else abs(np.round(4 * x))).astype(dtype)


def _call(case: Case) -> tuple[Callable[[dict[str, Any]], tuple[Any, ...]], dict[str, Any]]:
    function = execute.function_of(pyjax, case)

    def leaves(operands: dict[str, Any]) -> tuple[Any, ...]:
        return execute._arrays_only(pyjax, function(**operands))

    return leaves, execute.arguments(pyjax, case, many)


def _called(case: Case, way: str) -> tuple[Any, ...]:
    leaves, operands = _call(case)
    return (pyjax.jit(leaves) if way == "jit" else leaves)(operands)


def is_one_program(case: Case) -> bool:
    """Whether eager calls run what `jit` compiles: one equation, all of whose results are used.
    Others are fused under `jit`, and what they do not need is left out.
    """
    leaves, operands = _call(case)
    try:
        traced = pyjax.make_jaxpr(leaves)(operands).jaxpr
    except Exception:
        return False  # a matter of values
    return len(traced.eqns) == 1 and {*traced.eqns[0].outvars} <= {*traced.outvars}


def _digest(array: Any) -> str:
    if str(array.dtype).startswith("key"):
        array = pyjax.random.key_data(array)
    found = np.ascontiguousarray(array)
    parts = found.view(found.real.dtype) if found.dtype.kind == "c" else found
    if is_float(parts.dtype):
        parts = np.where(np.isnan(parts), np.array(np.nan, parts.dtype), parts)
    return f"{found.dtype}{list(found.shape)} {hashlib.sha256(parts.tobytes()).hexdigest()[:16]}"


def digest(case: Case, way: str, threads: int) -> str:
    try:
        with pyjax.num_threads(threads):
            return " ".join(map(_digest, _called(case, way)))
    except Exception as error:
        return type(error).__name__


def _is_small(case: Case) -> bool:
    """Whether the result is; what cannot be traced is a matter of values, and small or an error."""
    try:
        shapes = pyjax.eval_shape(lambda: _called(case, "eager"))
    except Exception:
        return ".outer" not in case.call
    return sum(math.prod(leaf.shape) for leaf in pyjax.tree.leaves(shapes)) < _MOST


def called(table: str) -> Iterator[Case]:
    """Some calls of each function, those of many elements."""
    found: dict[str, int] = {}
    for case in cases(TABLES[table]):
        if case.dtype != "float32" or set(case.operands) <= set(_AS_THEY_ARE):
            continue
        found[case.row.name] = found.get(case.row.name, 0) + 1
        if found[case.row.name] <= _CALLS and _is_small(case):
            yield case


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--first-code", action="store_true")
    given = parser.parse_args()
    if given.first_code:
        stay_on_first_code()
    found = [*called(given.table)]
    digests = {case.key: [digest(case, *way) for way in WAYS] for case in found}
    print(json.dumps([digests, [case.key for case in found if is_one_program(case)]]))


if __name__ == "__main__":
    main()
