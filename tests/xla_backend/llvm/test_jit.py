"""Compiling, linking, errors with the offending line, and the object cache on disk."""

import ctypes
import gc
import os
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from xla_backend.llvm import jit, objects
from xla_backend.llvm.target import host_target

GOOD = "define i64 @twice(i64 %x) {\n  %y = add i64 %x, %x\n  ret i64 %y\n}\n"


def test_runs():
    twice = jit.compile_library(GOOD).function("twice", ctypes.c_int64, ctypes.c_int64)
    assert twice(21) == 42


def test_syntax_error_shows_the_line():
    with pytest.raises(objects.IrError, match="twice") as error:
        objects.compile_object(GOOD.replace("%x, %x", "%x, %z"), host_target())
    assert "%y = add i64 %x, %z" in str(error.value)


def test_invalid_module_is_reported():
    with pytest.raises(objects.IrError):
        objects.compile_object("define i64 @f() {\n  ret float 0.0\n}\n", host_target())


def test_level_zero_is_refused():
    with pytest.raises(ValueError, match="abort"):
        objects.compile_object(GOOD, host_target(), opt=0)


def test_unresolved_symbols_are_named():
    text = "declare i64 @nobody_has_this(i64)\n" + GOOD.replace(
        "add i64 %x, %x", "call i64 @nobody_has_this(i64 %x)"
    )
    with pytest.raises(jit.UnresolvedSymbolError, match="nobody_has_this"):
        jit.compile_library(text)


def test_symbols_bind_by_address():
    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x + 5)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    text = "declare i64 @other(i64)\n" + GOOD.replace("add i64 %x, %x", "call i64 @other(i64 %x)")
    library = jit.compile_library(text, {"other": address}, keep=[callback])
    assert library.function("twice", ctypes.c_int64, ctypes.c_int64)(1) == 6


def test_unknown_function_of_a_library():
    with pytest.raises(KeyError, match="twice"):
        jit.compile_library(GOOD).address("thrice")


def test_many_libraries_may_define_one_name():
    libraries = [jit.compile_library(GOOD.replace("%x, %x", f"%x, {k}")) for k in range(3)]
    results = [lib.function("twice", ctypes.c_int64, ctypes.c_int64)(10) for lib in libraries]
    assert results == [10, 11, 12]


def test_threads_compile_as_one_would():
    """Each with a context and a target machine of its own: LLVM runs without llvmlite's lock."""
    texts = [GOOD.replace("%x, %x", f"%x, {k}") for k in range(12)]
    compiled = partial(objects.compile_object, target=host_target())
    alone = [compiled(text) for text in texts]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(8):
            assert list(pool.map(compiled, texts)) == alone


def test_an_error_in_one_thread_leaves_the_others_alone():
    bad = GOOD.replace("%x, %x", "%x, %z")

    def attempt(k):
        if k % 2:
            with pytest.raises(objects.IrError, match="twice"):
                objects.compile_object(bad, host_target())
        else:
            assert jit.compile_library(GOOD).function("twice", ctypes.c_int64, ctypes.c_int64)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(attempt, range(40)))


def test_whoever_has_an_address_or_a_function_has_the_library():
    library = jit.compile_library(GOOD)
    alive = weakref.ref(library)
    address = library.address("twice")
    function = library.function("twice", ctypes.c_int64, ctypes.c_int64)
    del library
    assert alive() is not None
    del function
    assert alive() is address.owner
    text = "declare i64 @twice(i64)\n" + GOOD.replace("@twice", "@again").replace(
        "add i64 %x, %x", "call i64 @twice(i64 %x)"
    )
    caller = jit.compile_library(text, {"twice": address})
    del address
    assert caller.function("again", ctypes.c_int64, ctypes.c_int64)(21) == 42
    del caller
    # One library after the other is given back on a thread of its own.
    deadline = time.monotonic() + 30
    while alive() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert alive() is None


def test_dropped_libraries_give_their_memory_back():
    code = objects.compile_object(GOOD, host_target())

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def link(n):
        for _ in range(n):
            jit.Library(code)

    link(100)
    before = resident()
    link(500)
    assert resident() - before < 2 << 20
