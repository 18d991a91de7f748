"""Operands, results and options of LAPACK's custom calls, checked before LAPACK sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from xla_backend.hlo.errors import RuntimeFailure

# Of LAPACK's routines, as native code names them.
PREFIX = "pyjax_lapack_"
# Dimensions behind those of the batch: m and n are any numbers, k the smaller one, j one less than
# n, _ anything. "()" is a scalar of the batch. Results that may be left out follow a bar.
_SIGNATURES = {
    "potrf": "n,n -> n,n ()",
    "getrf": "m,n -> m,n k ()",
    "geqrf": "m,n -> m,n k | ()",
    "geqp3": "m,n n -> m,n n k | ()",
    "orgqr": "m,n p -> m,n | ()",
    "ormqr": "_,p p m,n -> m,n | ()",
    "gesdd": "m,n -> m,n k m,_ _,n ()",
    "syevd": "n,n -> n,n n ()",
    "geev": "n,n -> n n,n n,n ()",
    "geev of reals": "n,n -> n n n,n n,n ()",
    "gees": "n,n -> n,n n,n n () ()",
    "gees of reals": "n,n -> n,n n,n n n () ()",
    "gehrd": "n,n -> n,n j ()",
    "sytrd": "n,n -> n,n n j j ()",
    "trsm": "p,p m,n -> m,n",
    "gtsv": "n n n n,m -> n n n n,m ()",
}
_LETTERS = {
    "uplo": "LU", "mode": "ASNV", "compute_left": "NV", "compute_right": "NV", "side": "LR",
    "trans_x": "NTC", "diag": "NU",
}  # fmt: skip

_TARGET = re.compile(r"lapack(?:\.(?P<own>\w+)|_[sdcz](?P<name>\w+)_ffi)")
COMPLEX_NAMES = {"syevd": "heevd", "orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd"}
_REAL_NAMES = {other: name for name, other in COMPLEX_NAMES.items()}
_FLAGS = {"true": 1, "false": 0}
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(true|false|-?\d+)")

Arrays = Sequence[np.ndarray]


def routine_of(target: str) -> str | None:
    """The routine that a custom call's target means, by its name for reals; None: no LAPACK.

    >>> routine_of("lapack.geqrf"), routine_of("lapack_cungqr_ffi"), routine_of("callback")
    ('geqrf', 'orgqr', None)
    """
    found = _TARGET.fullmatch(target)
    if found is None:
        return None
    return found["own"] or _REAL_NAMES.get(found["name"], found["name"])


def attributes_of(attributes: Any) -> dict[str, int]:
    """The numbers in a backend_config dictionary."""
    result = {}
    for key, value in _ATTRIBUTE.findall(attributes.backend_config or ""):
        # Digits beyond those of any option are not worth reading: the check refuses the rest.
        result[key] = int(value[:20]) if value not in _FLAGS else _FLAGS[value]
    return result


def patterns(routine: str) -> tuple[list[str], list[str]]:
    """Of each operand and each result, those that may be left out included: its dimensions behind
    those of the batch, as letters between commas; "()" for none."""
    taken, given = _SIGNATURES[routine].split(" -> ")
    return taken.split(), given.replace("|", "").split()


def check_arguments(
    routine: str, options: Mapping[str, int], operands: Arrays, results: Arrays
) -> tuple[int, ...]:
    """The sizes of the batch: what the first operand has before the dimensions of one problem.

    Raises:
      RuntimeFailure: number, shape or type of the arrays, or an option, is not the routine's.
    """
    real = f"{routine} of reals"
    name = real if real in _SIGNATURES and operands and operands[0].dtype.kind != "c" else routine
    taken, given = _SIGNATURES[name].split(" -> ")
    needed, _, optional = given.partition(" | ")
    inputs, outputs, extra = taken.split(), needed.split(), optional.split()
    usage = f"{routine} takes {taken} (behind the batch) and gives {given}"
    if len(operands) != len(inputs):
        _fail(routine, f"{len(operands)} operands, expected {len(inputs)}", usage)
    if not len(outputs) <= len(results) <= len(outputs) + len(extra):
        _fail(routine, f"{len(results)} results, expected {len(outputs)}", usage)
    first = operands[0]
    if first.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        _fail(routine, f"operand 0 is {first.dtype}, expected a float or complex of 32 bits", usage)
    core = inputs[0].count(",") + 1
    if first.ndim < core:
        _fail(routine, f"operand 0 has {first.ndim} dimensions, expected at least {core}", usage)
    batch = first.shape[: first.ndim - core]
    sizes: dict[str, int] = {}
    for what, arrays, patterns in (
        ("operand", operands, inputs),
        ("result", results, outputs + extra),
    ):
        for number, (array, pattern) in enumerate(zip(arrays, patterns)):
            if not _fits(array.shape, batch, pattern, sizes):
                shape = f"{what} {number} has shape {list(array.shape)}"
                _fail(routine, f"{shape}, expected {[*batch]} and {pattern}", usage)
    if routine == "trsm":
        side = 0 if chr(options.get("side", ord("L"))) == "L" else 1
        if operands[1].shape[-2 + side] != sizes["p"]:
            _fail(routine, "the triangle does not fit the other operand", usage)
    if routine == "ormqr":
        rows = sizes["m"] if options.get("left", 1) else sizes["n"]
        if operands[0].shape[-2] != rows or sizes["p"] > rows:
            _fail(routine, "the reflectors do not fit the other operand", usage)
    if routine == "orgqr" and not sizes["p"] <= sizes["n"] <= sizes["m"]:
        _fail(routine, "there are more reflectors than columns, or columns than rows", usage)
    return batch


def check_options(routine: str, options: Mapping[str, int]) -> None:
    """Options that are letters are among those the routines know.

    Raises:
      RuntimeFailure: one is not.
    """
    for key, value in options.items():
        letters = _LETTERS.get(key)
        if letters is not None and value not in map(ord, letters):
            known = ", ".join(f"{ord(c)} ({c})" for c in letters)
            _fail(routine, f"option {key} is {value}", f"it is one of {known}")
        if not -(1 << 31) <= value < 1 << 31:
            _fail(routine, f"option {key} is {value}", "options are numbers of 32 bits")


def _fits(
    shape: tuple[int, ...], batch: tuple[int, ...], pattern: str, sizes: dict[str, int]
) -> bool:
    """Whether a shape is the batch and the pattern; remembers what letters stand for."""
    letters = [] if pattern == "()" else pattern.split(",")
    if shape[: len(batch)] != batch or len(shape) != len(batch) + len(letters):
        return False
    for letter, size in zip(letters, shape[len(batch) :]):
        if letter == "k":
            sizes["k"] = min(sizes["m"], sizes["n"])
        elif letter == "j":
            sizes["j"] = max(sizes["n"] - 1, 0)
        if letter != "_" and sizes.setdefault(letter, size) != size:
            return False
    return True


def _fail(routine: str, what: str, usage: str) -> NoReturn:
    raise RuntimeFailure(f"custom call lapack.{routine}: {what}; {usage}")
