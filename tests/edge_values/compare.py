"""Says how an outcome differs from the recorded one; None if it does not.

The one general difference is built in: pyjax keeps subnormals where the reference flushes some of
them to zero (docs/differences_to_jax.md). So an element is left out where an operand is
subnormal, and a subnormal may stand where zero is recorded.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.edge_values.execute import Outcome, built_in
from tests.edge_values.operands import DTYPES, FIXED, is_float, operand
from tests.edge_values.rows import Case

FLUSHED = ("float32", "float64", "bfloat16", "complex64", "complex128")


def _array(leaf: list) -> np.ndarray:
    name, _, shape, text = leaf
    dtype = DTYPES["uint32"] if name.startswith("key") else np.dtype(getattr(ml_dtypes, name, name))
    return np.frombuffer(bytes.fromhex(text), dtype).reshape(shape)


def _real(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs along a new last axis; the rest as it is."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def subnormal(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return subnormal(array.real) | subnormal(array.imag)
    if not is_float(array.dtype):
        return np.zeros(array.shape, bool)
    wide = np.abs(array.astype(np.float64))
    return (wide > 0) & (wide < float(ml_dtypes.finfo(array.dtype).tiny))


def _extreme_complex(array: np.ndarray) -> np.ndarray:
    """Complex numbers with a part that is infinite, NaN, -0.0 or large (known_differences.py)."""
    if array.dtype.kind != "c":
        return np.zeros(array.shape, bool)
    parts = _real(array)
    large = ~(np.abs(parts) < np.sqrt(np.finfo(parts.dtype).max))
    return (large | ((parts == 0) & np.signbit(parts))).any(-1)


def _spoiled(case: Case, shape: tuple[int, ...], rounds: bool) -> np.ndarray:
    """Elements of the result that come from an operand for which the results are not compared."""
    mask = np.zeros(shape, bool)
    if not case.row.elementwise or case.dtype not in FLUSHED:
        return mask
    for name in case.operands:
        array = operand(name, case.dtype)
        if name not in FIXED and array.shape == shape:
            mask |= subnormal(array)
            if rounds:
                mask |= _extreme_complex(array)
    return mask


def _units(array: np.ndarray) -> np.ndarray:
    """The unit in the last place of each number, in float64."""
    info = ml_dtypes.finfo(array.dtype)
    wide = np.maximum(np.abs(array.astype(np.float64)), float(info.tiny))
    exponent = np.frexp(wide)[1] - 1
    return np.ldexp(float(info.eps), exponent)


def differing_elements(
    case: Case, got: np.ndarray, want: np.ndarray, ulp: float, norm: float
) -> np.ndarray:
    """A mask of the elements that are too far apart."""
    spoiled = _spoiled(case, got.shape, rounds=bool(ulp))
    if not (is_float(want.dtype) or want.dtype.kind == "c"):
        return (got != want) & ~spoiled
    complex_numbers = want.dtype.kind == "c"
    g, w = _real(got), _real(want)
    if want.dtype.name in ("float16", "bfloat16"):
        ulp, norm = min(ulp, 2), min(norm, 4)
    g64, w64 = g.astype(np.float64), w.astype(np.float64)
    same = (np.isnan(g) & np.isnan(w)) | (g64 == w64)
    finite = np.isfinite(g64) & np.isfinite(w64)
    unit = _units(np.where(finite, w, np.zeros_like(w)))
    if complex_numbers and ulp:  # relative to the modulus
        unit = np.broadcast_to(unit.max(-1, keepdims=True), unit.shape)
    allowed = ulp * unit
    if norm:
        largest = np.max(np.abs(np.where(finite, w64, 0.0)), initial=0.0)
        eps = float(ml_dtypes.finfo(want.dtype).eps)
        allowed = np.maximum(allowed, norm * eps * max(largest, 1e-30))
    with np.errstate(all="ignore"):
        close = finite & (np.abs(g64 - w64) <= allowed)
    if not norm and not (complex_numbers and ulp):  # the sign of a zero counts
        close &= ~((g64 == 0) & (w64 == 0) & (np.signbit(g64) != np.signbit(w64)))
        same &= (np.signbit(g64) == np.signbit(w64)) | (w64 != 0) | np.isnan(w64)
    tiny = float(ml_dtypes.finfo(want.dtype).tiny)
    flushed = (w64 == 0) & (np.abs(g64) <= 2 * tiny) & (g64 != 0)
    bad = ~(same | close | (flushed & (want.dtype.name in FLUSHED)))
    return (bad.any(-1) if complex_numbers else bad) & ~spoiled


def _leaf_difference(case: Case, got: list, want: list, ulp: float, norm: float) -> str | None:
    if len(got) == 1 or len(want) == 1:
        return None if got == want else f"got {got[0]}, recorded {want[0]}"
    if got[:3] != want[:3]:
        return f"got {_kind(got)}, recorded {_kind(want)}"
    g, w = _array(got), _array(want)
    bad = differing_elements(case, g, w, ulp, norm)
    if not bad.any():
        return None
    places = np.argwhere(bad)
    shown = []
    for place in map(tuple, places[:4]):
        inputs = [
            f"{n}={operand(n, case.dtype)[place]}"
            for n in case.operands
            if operand(n, case.dtype).shape == g.shape
        ]
        at = ", ".join(inputs) or str([int(p) for p in place])
        shown.append(f"at {at}: got {g[place]}, recorded {w[place]}")
    return f"{len(places)} of {g.size} elements, {'; '.join(shown)}"


def _kind(leaf: list) -> str:
    return f"{'weak ' if leaf[1] else ''}{leaf[0]}{leaf[2]}"


def difference(
    case: Case,
    got: Outcome,
    want: Outcome,
    *,
    gradient: bool = False,
    structure: bool = True,
) -> str | None:
    """In words, how `got` differs from the recorded outcome; None if it does not.

    Errors agree if ours is of the built-in class of the recorded one. With `structure=False` the
    outcome is that of a traced function: only arrays, as a flat tuple.
    """
    if "error" in got or "error" in want:
        if "error" in got and "error" in want and built_in(want["error"]) in got["error"]:
            return None
        return f"got {_brief(got)}, recorded {_brief(want)}"
    wanted = want["leaves"]
    if structure and got["tree"] != want["tree"]:
        return f"got structure {got['tree']}, recorded {want['tree']}"
    if not structure:
        wanted = [leaf for leaf in wanted if len(leaf) > 1]
    if len(got["leaves"]) != len(wanted):
        return f"got {len(got['leaves'])} results, recorded {len(wanted)}"
    row = case.row
    ulp, norm = (row.grad_ulp, row.grad_norm) if gradient else (row.ulp, row.norm)
    for g, w in zip(got["leaves"], wanted, strict=True):
        text = _leaf_difference(case, g, w, ulp, norm)
        if text:
            return text
    return None


def _brief(outcome: Outcome) -> str:
    if "error" in outcome:
        return outcome["error"][0]
    return " ".join(_kind(leaf) if len(leaf) > 1 else leaf[0] for leaf in outcome["leaves"])
