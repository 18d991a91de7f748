"""Compiling, linking, errors with the offending line, and the object cache on disk."""

import ctypes
import gc
import os
import stat
import subprocess
import sys
import weakref

import pytest

from xla_backend.llvm import jit, object_cache
from xla_backend.llvm.target import host_target, make_target

GOOD = "define i64 @twice(i64 %x) {\n  %y = add i64 %x, %x\n  ret i64 %y\n}\n"


def test_runs():
    twice = jit.compile_library(GOOD).function("twice", ctypes.c_int64, ctypes.c_int64)
    assert twice(21) == 42


def test_syntax_error_shows_the_line():
    with pytest.raises(jit.IrError, match="twice") as error:
        jit.compile_object(GOOD.replace("%x, %x", "%x, %z"))
    assert "%y = add i64 %x, %z" in str(error.value)


def test_invalid_module_is_reported():
    with pytest.raises(jit.IrError):
        jit.compile_object("define i64 @f() {\n  ret float 0.0\n}\n")


def test_level_zero_is_refused():
    with pytest.raises(ValueError, match="abort"):
        jit.compile_object(GOOD, opt=0)


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


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files(cache):
    return [p for p in cache.rglob("*") if p.is_file()]


def test_cache_hit_gives_the_same_object(cache):
    first = jit.compile_object(GOOD, cache=True)
    assert len(files(cache)) == 1
    assert jit.compile_object(GOOD, cache=True) == first
    key = object_cache.object_key(GOOD, host_target(), 11)
    assert object_cache.load(key) == first


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damaged_files_are_not_used(cache, damage):
    good = jit.compile_object(GOOD, cache=True)
    (path,) = files(cache)
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        data = data[:-7]
    elif damage == "flip":
        data[-5] ^= 1
    else:
        data = b""
    path.write_bytes(bytes(data))
    assert jit.compile_object(GOOD, cache=True) == good
    assert object_cache.load(path.stem) == good  # written anew


def test_key_depends_on_everything():
    target = host_target()
    other = make_target(target.triple, "x86-64-v3")
    keys = {
        object_cache.object_key(GOOD, target, 1),
        object_cache.object_key(GOOD + " ", target, 1),
        object_cache.object_key(GOOD, target, 2),
        object_cache.object_key(GOOD, other, 1),
    }
    assert len(keys) == 4


def test_unwritable_directory_means_no_cache(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(blocked))
    assert object_cache.store("ab" * 32, b"data") is False
    assert object_cache.load("ab" * 32) is None
    assert jit.compile_object(GOOD, cache=True)


def test_read_only_directory(tmp_path, monkeypatch):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    assert object_cache.store("ab" * 32, b"data") is False


def test_directory_choice(monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "/somewhere")
    assert str(object_cache.cache_directory()) == "/somewhere"
    monkeypatch.delenv("PYJAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(object_cache.cache_directory()) == "/xdg/pyjax"


def test_cache_keeps_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(object_cache, "_FOLDER_BYTES", 1100)
    keys = ["ab" + f"{i:062x}" for i in range(3)]
    for age, key in zip((300, 200, 100), keys):
        assert object_cache.store(key, b"x" * 300)
        path = object_cache._path(key)
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    assert object_cache.load(keys[0]) is not None  # used again: now the newest
    assert object_cache.store("ab" + "f" * 62, b"y" * 300)
    kept = [object_cache.load(key) is not None for key in keys]
    assert kept == [True, False, True]


def test_processes_share_a_cache(tmp_path):
    """Writers and readers of one key at once: every reader sees a whole object or none."""
    program = (
        "from xla_backend.llvm import object_cache as c\n"
        "key, data = 'cd' * 32, bytes(range(256)) * 400\n"
        "for _ in range(150):\n"
        "    assert c.store(key, data)\n"
        "    assert c.load(key) == data\n"
    )
    environment = {**os.environ, "PYJAX_CACHE_DIR": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(files(tmp_path)) == 1


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
    gc.collect()
    assert alive() is None


def test_dropped_libraries_give_their_memory_back():
    code = jit.compile_object(GOOD)

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
