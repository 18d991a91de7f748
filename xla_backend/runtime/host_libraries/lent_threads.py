"""How many threads OpenBLAS has while calls of ours are inside it: what is remembered of that is
native memory, since native code calls LAPACK without Python.

  void pyjax_blas_enter(i32 wanted)   a call of native code begins, which wants so many threads
  void pyjax_blas_leave(void)         and ends
  void pyjax_blas_choose(i32 wanted, i32 calls)   the same for Python, which counts its own calls:
  void pyjax_blas_put_back(i32 calls)             it tells how many there are, so that one that an
                                                  exception cut short is never counted twice
  void pyjax_blas_after_fork(void)    in a forked child: the calls of other threads have ended

The number that the process had is put back when the last call ends, unless the process has set
another one meanwhile. Several calls at once share the processors: one thread each. With a library
that has no such threads, all of these do nothing.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import import_alone

_PREFIXES = ("scipy_", "")
_SUFFIXES = ("", "64_", "_64")
_FIELDS = ("lock", "native", "python", "changed", "found", "used")
_STATE = f"@pyjax.lent = internal global [{len(_FIELDS)} x i32] zeroinitializer, align 64"
_SET, _GET = "pyjax_openblas_set", "pyjax_openblas_get"


class Blas:
    """The thread count of SciPy's OpenBLAS; `set` is None with another library, which has no such
    threads (or, as Accelerate, none that can be set)."""

    def __init__(self) -> None:
        # A handle of a module finds the symbols of what it links, too.
        handle = ctypes.PyDLL(import_alone("scipy.linalg.cython_lapack").__file__)
        self.get = self.set = None
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                name = f"{prefix}openblas_{{}}_num_threads{suffix}"
                if self.set is None and hasattr(handle, name.format("set")):
                    self.get = handle[name.format("get")]
                    self.set = handle[name.format("set")]
                    self.set.argtypes, self.set.restype = (ctypes.c_int,), None


@once
def blas() -> Blas:
    return Blas()


class LentThreads:
    """The functions, for Python; `library`: where native code finds them."""

    def __init__(self) -> None:
        functions = {_GET: blas().get, _SET: blas().set}
        symbols = {
            name: address
            for name, function in functions.items()
            if function is not None
            and (address := ctypes.cast(function, ctypes.c_void_p).value) is not None
        }
        self.library: Library = compile_library(
            lent_threads_text(host_target(), bool(symbols)), symbols, cache=True
        )
        number = ctypes.c_int32

        # Python's count cannot change while one of these runs: they keep its lock.
        def function(name: str, *types: object) -> Any:
            return self.library.function(f"pyjax_blas_{name}", None, *types, keeps_gil=True)

        self.choose = function("choose", number, number)
        self.put_back = function("put_back", number)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=function("after_fork"))


@once
def lent_threads() -> LentThreads:
    return LentThreads()


def lent_threads_text(target: TargetInfo, has_threads: bool) -> str:
    """The LLVM text of the functions; without threads they do nothing."""
    module = ModuleWriter(target)
    if has_threads:
        module.add(_STATE)
        _choose_under_lock(module)
        _put_back_under_lock(module)
    for name, parameters in _FUNCTIONS.items():
        w = module.function(f"pyjax_blas_{name}", [("i32", p) for p in parameters])
        if has_threads:
            _BODIES[name](w)
        w.ret()
    return module.to_text()


def _field(w: FunctionWriter, name: str) -> str:
    return w.gep("i32", "@pyjax.lent", _FIELDS.index(name))


def _read(w: FunctionWriter, name: str) -> str:
    return w.load("i32", _field(w, name))


def _write(w: FunctionWriter, name: str, value: str) -> None:
    w.store("i32", value, _field(w, name))


def _lock(w: FunctionWriter) -> None:
    """Nobody has it for longer than some loads and stores."""

    def taken(_: list[str]) -> str:
        before = w.value(f"atomicrmw xchg ptr {_field(w, 'lock')}, i32 1 acquire")
        return w.cmp("ne", "i32", before, "0")

    def pause(_: list[str]) -> list[str]:
        if w.target.spin_hint is not None:
            name, arguments = w.target.spin_hint
            w.call(name, "void", arguments)
        return []

    w.while_([], taken, pause)


def _unlock(w: FunctionWriter) -> None:
    w.line(f"store atomic i32 0, ptr {_field(w, 'lock')} release, align 4")


def _calls(w: FunctionWriter) -> str:
    return w.op("add", "i32", _read(w, "native"), _read(w, "python"))


def _choose_under_lock(module: ModuleWriter) -> None:
    w = module.function("pyjax.choose", [("i32", "wanted")], internal=True)
    now = w.call(_GET, "i32")
    fresh = w.op(
        "or", "i1",
        w.cmp("eq", "i32", _read(w, "changed"), "0"), w.cmp("ne", "i32", now, _read(w, "used")),
    )  # fmt: skip
    found = w.select(fresh, "i32", now, _read(w, "found"))
    alone = w.cmp("eq", "i32", _calls(w), "1")
    fewer = w.select(w.cmp("slt", "i32", "%wanted", found), "i32", "%wanted", found)
    used = w.select(alone, "i32", fewer, "1")
    for name, value in (("found", found), ("changed", "1"), ("used", used)):
        _write(w, name, value)
    with w.if_(w.cmp("ne", "i32", used, now)):
        w.call(_SET, "void", [("i32", used)])
    w.ret()


def _put_back_under_lock(module: ModuleWriter) -> None:
    w = module.function("pyjax.put_back", [], internal=True)
    last = w.op(
        "and", "i1",
        w.cmp("eq", "i32", _calls(w), "0"), w.cmp("ne", "i32", _read(w, "changed"), "0"),
    )  # fmt: skip
    with w.if_(last):
        _write(w, "changed", "0")
        found, used = _read(w, "found"), _read(w, "used")
        # A number that the process has set meanwhile is what it wants.
        ours = w.cmp("eq", "i32", w.call(_GET, "i32"), used)
        with w.if_(w.op("and", "i1", ours, w.cmp("ne", "i32", found, used))):
            w.call(_SET, "void", [("i32", found)])
    w.ret()


def _enter(w: FunctionWriter) -> None:
    _lock(w)
    _write(w, "native", w.op("add", "i32", _read(w, "native"), "1"))
    w.call("pyjax.choose", "void", [("i32", "%wanted")])
    _unlock(w)


def _leave(w: FunctionWriter) -> None:
    _lock(w)
    _write(w, "native", w.op("sub", "i32", _read(w, "native"), "1"))
    w.call("pyjax.put_back", "void")
    _unlock(w)


def _choose(w: FunctionWriter) -> None:
    _lock(w)
    _write(w, "python", "%calls")
    w.call("pyjax.choose", "void", [("i32", "%wanted")])
    _unlock(w)


def _put_back(w: FunctionWriter) -> None:
    _lock(w)
    _write(w, "python", "%calls")
    w.call("pyjax.put_back", "void")
    _unlock(w)


def _after_fork(w: FunctionWriter) -> None:
    for name in ("native", "python"):
        _write(w, name, "0")
    w.call("pyjax.put_back", "void")
    _unlock(w)


_FUNCTIONS = {
    "enter": ("wanted",),
    "leave": (),
    "choose": ("wanted", "calls"),
    "put_back": ("calls",),
    "after_fork": (),
}
_BODIES = {
    "enter": _enter,
    "leave": _leave,
    "choose": _choose,
    "put_back": _put_back,
    "after_fork": _after_fork,
}
