"""A module cut into parts, compiled on several threads and linked, is the same program."""

import ctypes

import pytest

from xla_backend.llvm import jit, objects
from xla_backend.llvm.partition import split
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter


def _module(count: int) -> ModuleWriter:
    """entry(x) = sum of table_i[x] + i over `count` internal functions, two of which read a global
    of hand-written text."""
    module = ModuleWriter(host_target())
    entry = module.function("entry", [("i64", "x")], result="i64")
    total = "%x"
    for i in range(count):
        total = entry.iadd(total, entry.call(f"part.{i}", "i64", [("i64", "%x")]))
    entry.ret("i64", total)
    squares = ", ".join(f"i64 {x * x}" for x in range(8))
    module.add(f"@squares = internal constant [8 x i64] [{squares}]")
    for i in range(count):
        w = module.function(f"part.{i}", [("i64", "x")], result="i64", internal=True)
        table = module.constant_bytes(bytes(range(10 * (i % 3), 10 * (i % 3) + 8)))
        value = w.cast("zext", "i8", w.load("i8", w.gep("i8", table, "%x")), "i64")
        if i < 2:
            value = w.iadd(value, w.load("i64", w.gep("i64", "@squares", "%x")))
        w.ret("i64", w.iadd(value, i))
    return module


@pytest.mark.parametrize("parts", [1, 2, 3, 20])
def test_parts_are_one_program(parts):
    module = _module(7)
    texts = split(module, parts)
    assert len(texts) <= parts and (len(texts) > 1) == (parts > 1)
    library = jit.Library(objects.compile_objects(texts, host_target()))
    entry = library.function("entry", ctypes.c_int64, ctypes.c_int64)
    want = [x + 2 * x * x + sum(10 * (i % 3) + x + i for i in range(7)) for x in range(8)]
    assert [entry(x) for x in range(8)] == want


def test_cut_is_even_and_repeatable():
    texts = split(_module(40), 3)
    assert texts == split(_module(40), 3)
    assert sum(text.count("define ") for text in texts) == 41
    sizes = [len(text) for text in texts]
    assert max(sizes) <= 2 * min(sizes)


def test_error_in_one_part_is_raised():
    good = "define void @a() {\n  ret void\n}\n"
    with pytest.raises(objects.IrError, match="nonsense"):
        objects.compile_objects([good, good.replace("ret void", "nonsense")], host_target())


def test_parts_are_cached_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    texts = split(_module(7), 2)
    first = objects.compile_objects(texts, host_target(), cache=True)
    monkeypatch.setattr(objects, "_emit", lambda *_: pytest.fail("compiled again"))
    assert objects.compile_objects(texts, host_target(), cache=True) == first
