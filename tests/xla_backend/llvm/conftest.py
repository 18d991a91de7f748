"""Runs one elementwise operation over NumPy arrays through generated code (used by the tests
here).
"""

import ctypes

import numpy as np
import pytest

from xla_backend.hlo.types import from_numpy_dtype
from xla_backend.llvm import elemental, jit
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target
from xla_backend.llvm.types import bits_of, register_type
from xla_backend.llvm.writer import ModuleWriter

_libraries = {}


def build(key, types, out_type, body, lanes=None, target=None):
    """A function(arrays..., out, n) applying `body(w, lanes, values) -> value`, masked at the
    end.
    """
    host = host_target()
    target = target or host
    widest = max(bits_of(register_type(t)) for t in (*types, out_type))
    n = lanes or min(16, target.lanes(widest))
    module = ModuleWriter(target)
    params = [("ptr", f"x{i}") for i in range(len(types))] + [("ptr", "out"), ("i64", "n")]
    w = module.function("run", params)
    with w.loop("0", "%n", n) as loop:
        mask = w.active_mask(n, loop.index, "%n")
        values = [elemental.load(w, t, n, f"%x{i}", loop.index, mask) for i, t in enumerate(types)]
        result = body(w, n, values)
        elemental.store(w, out_type, n, result, "%out", loop.index, mask)
    w.ret()
    if target is host:
        return jit.compile_library(module.to_text())
    return jit.Library(compile_object(module.to_text(), target))


def apply(key, arrays, out_dtype, body, lanes=None, target=None):
    """Runs `body` over the arrays (equal sizes); `key` names it for the cache of compiled code."""
    arrays = [np.ascontiguousarray(a) for a in arrays]
    types = tuple(from_numpy_dtype(a.dtype) for a in arrays)
    out_type = from_numpy_dtype(np.dtype(out_dtype))
    full_key = (key, types, out_type, lanes, target)
    if full_key not in _libraries:
        _libraries[full_key] = build(key, types, out_type, body, lanes, target)
    out = np.empty(arrays[0].shape, out_dtype)
    fn = _libraries[full_key].function(
        "run", None, *[ctypes.c_void_p] * (len(arrays) + 1), ctypes.c_int64
    )
    fn(*[a.ctypes.data for a in arrays], out.ctypes.data, out.size)
    return out


def emit(name, *arrays, out_dtype=None, lanes=None, target=None):
    """One HLO operation by its opcode text, as code for this machine or one that it can be."""
    t = from_numpy_dtype(np.asarray(arrays[0]).dtype)
    return apply(
        name,
        arrays,
        out_dtype or arrays[0].dtype,
        lambda w, n, v: elemental.emit(w, name, t, n, *v),
        lanes,
        target,
    )


def convert(a, dtype, lanes=None):
    source, target = from_numpy_dtype(a.dtype), from_numpy_dtype(np.dtype(dtype))
    return apply(
        f"convert-{target}",
        [a],
        dtype,
        lambda w, n, v: elemental.emit_convert(w, source, target, n, v[0]),
        lanes,
    )


class Lanes:
    """The functions above, handed to tests as a fixture."""

    apply = staticmethod(apply)
    emit = staticmethod(emit)
    convert = staticmethod(convert)


@pytest.fixture(scope="session")
def lanes():
    return Lanes
