"""The function writer: value numbering, code motion, loops, branches, constants, memory."""

import ctypes

import numpy as np
import pytest

from xla_backend.llvm import jit
from xla_backend.llvm.math_trig import cos, sin
from xla_backend.llvm.target import host_target
from xla_backend.llvm.types import (
    const,
    element,
    float_bits,
    int_of,
    lanes,
    mask_of,
    suffix,
    vector,
    vector_const,
)
from xla_backend.llvm.writer import ModuleWriter

I64, PTR, F64 = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double


def module():
    return ModuleWriter(host_target())


def link(m, name, restype, *argtypes):
    return jit.compile_library(m.to_text()).function(name, restype, *argtypes)


def test_equal_operations_get_one_name():
    w = module().function("f", [("i64", "a"), ("i64", "b")], "i64")
    first = w.op("add", "i64", "%a", "%b")
    assert w.op("add", "i64", "%b", "%a") == first
    assert w.op("sub", "i64", "%a", "%b") != w.op("sub", "i64", "%b", "%a")


def test_values_of_a_branch_are_forgotten():
    w = module().function("f", [("i1", "c"), ("i64", "a")])
    with w.if_("%c"):
        inside = w.op("mul", "i64", "%a", "%a")
    assert w.op("mul", "i64", "%a", "%a") != inside


def test_what_is_more_than_an_instruction_is_written_once():
    m = module()
    w = m.function("f", [("i1", "c"), ("float", "x")], "float")
    written = []

    def angle(x: str) -> list[str]:
        written.append(x)
        return w.if_else("%c", ["float", "float"], lambda: [x, x], lambda: [w.fneg("float", x), x])

    with w.if_("%c"):
        inside = w.once("angle %x", lambda: angle("%x"))
        assert w.once("angle %x", lambda: angle("%x")) == inside
    # What is written in a branch is not known behind it.
    assert w.once("angle %x", lambda: angle("%x")) != inside
    assert len(written) == 2


def test_sines_and_cosines_of_one_angle_are_reduced_once():
    texts = []
    for functions in ([sin], [cos], [sin, cos]):
        m = module()
        w = m.function("f", [("float", "x")], "float")
        for f in functions:
            f(w, "float", "%x")
        texts.append(m.to_text())
    one, other, both = (text.count("br i1") for text in texts)
    assert one == other == both


def test_invariants_leave_all_loops_that_do_not_define_them():
    m = module()
    w = m.function("f", [("i64", "n")], "i64")
    with w.loop("0", "%n", 1, [("i64", "0")]) as outer:
        with w.loop("0", "%n", 1, [("i64", outer.carried[0])]) as inner:
            square = w.op("mul", "i64", "%n", "%n")  # leaves both
            row = w.op("mul", "i64", outer.index, square)  # leaves the inner one
            w.op("sdiv", "i64", "%n", "%n")  # may trap: stays
            inner.next = [w.iadd(inner.carried[0], w.iadd(row, inner.index))]
        outer.next = inner.results
    w.ret("i64", outer.results[0])
    text = m.to_text()
    assert text.index("mul i64 %n, %n") < text.index("loop")
    body = text.split("loop1:")[1]
    assert body.index(f"{row} = ") < body.index("phi i64", body.index(f"{row} = "))
    assert text.index("sdiv") > text.index(f"{inner.index} = phi")
    n = 7
    expected = sum(i * n * n + j for i in range(n) for j in range(n))
    assert link(m, "f", I64, I64)(n) == expected
    assert link(m, "f", I64, I64)(0) == 0


def test_the_start_of_a_row_is_computed_outside_of_the_loop_along_it():
    m = module()
    w = m.function("f", [("ptr", "x"), ("ptr", "y"), ("i64", "rows")])
    with w.loop("0", "%rows") as row:
        start = w.isub(w.imul(row.index, 10), 40)  # in front of the array at first
        with w.loop(40, 48) as column:
            number = w.iadd(w.iadd(column.index, start), 1)
            value = w.load("double", w.gep("double", "%x", number))
            w.store("double", value, w.gep("double", "%y", w.iadd(start, column.index)))
    w.ret()
    text = m.to_text()
    loops = [at for at in range(len(text)) if text.startswith("\nloop", at)]
    steps = [line for line in text[loops[0] : loops[1]].splitlines() if "getelementptr" in line]
    assert len(steps) == 2 and not any("inbounds" in step for step in steps)
    f = link(m, "f", None, PTR, PTR, I64)
    x, y = np.arange(100.0), np.zeros(99)
    f(x.ctypes.data, y.ctypes.data, 9)
    want = np.zeros(99)
    for r in range(9):
        want[10 * r : 10 * r + 8] = x[10 * r + 1 : 10 * r + 9]
    np.testing.assert_array_equal(y, want)


def test_branches_do_not_let_code_out():
    m = module()
    w = m.function("f", [("i64", "n"), ("i1", "c")])
    with w.loop("0", "%n"):
        with w.if_("%c"):
            w.op("mul", "i64", "%n", "%n")
    w.ret()
    text = m.to_text()
    assert text.index("mul i64") > text.index("then")


@pytest.mark.parametrize("lo, hi, step", [(0, 10, 1), (3, 3, 1), (5, 2, 1), (0, 10, 4), (-3, 4, 2)])
def test_constant_bounds(lo, hi, step):
    m = module()
    w = m.function("f", [], "i64")
    with w.loop(lo, hi, step, [("i64", "100")]) as loop:
        loop.next = [w.iadd(loop.carried[0], loop.index)]
    w.ret("i64", loop.results[0])
    assert link(m, "f", I64)() == 100 + sum(range(lo, hi, step))


def test_carries_must_be_given():
    w = module().function("f", [])
    with pytest.raises(ValueError, match="carries 1"):
        with w.loop(0, 3, 1, [("i64", "0")]):
            pass


def test_while_and_if_else():
    """Collatz steps."""
    m = module()
    w = m.function("f", [("i64", "n")], "i64")

    def body(v):
        odd = w.cmp("ne", "i64", w.op("and", "i64", v[0], "1"), "0")
        triple = lambda: [w.iadd(w.imul(v[0], 3), 1)]
        half = lambda: [w.op("lshr", "i64", v[0], "1")]
        return [w.if_else(odd, ["i64"], triple, half)[0], w.iadd(v[1], 1)]

    out = w.while_([("i64", "%n"), ("i64", "0")], lambda v: w.cmp("ne", "i64", v[0], "1"), body)
    w.ret("i64", out[1])
    assert link(m, "f", I64, I64)(27) == 111


@pytest.mark.parametrize("ty", ["float", "double", "i8", "i16", "i32", "i64"])
def test_masked_memory(ty):
    m = module()
    w = m.function("f", [("ptr", "x"), ("ptr", "o"), ("i64", "n")])
    full = vector(ty, 8)
    with w.loop(0, "%n", 8) as loop:
        mask = w.active_mask(8, loop.index, "%n")
        v = w.masked_load(full, w.gep(ty, "%x", loop.index), mask)
        w.masked_store(full, v, w.gep(ty, "%o", loop.index), mask)
    w.ret()
    dtype = {"float": "f4", "double": "f8"}.get(
        ty, "i" + str(int(ty[1:]) // 8 if ty[1:].isdigit() else 0)
    )
    fn = link(m, "f", None, PTR, PTR, I64)
    for n in (0, 1, 7, 8, 9, 30):
        x, o = np.arange(40).astype(dtype), np.full(40, 99, dtype)
        fn(x.ctypes.data, o.ctypes.data, n)
        np.testing.assert_array_equal(o[:n], x[:n])
        assert (o[n:] == 99).all()


@pytest.mark.parametrize("ty", ["float", "double", "i8", "i32"])
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(ty, masked):
    m = module()
    w = m.function("f", [("ptr", "x"), ("ptr", "i"), ("ptr", "o")])
    indices = w.load("<8 x i64>", "%i")
    mask = vector_const("i1", [1, 0, 1, 1, 0, 1, 1, 1]) if masked else None
    v = w.gather(vector(ty, 8), "%x", "<8 x i64>", indices, mask)
    w.store(vector(ty, 8), v, "%o")
    w.scatter(vector(ty, 8), v, w.gep(ty, "%o", 8), "<8 x i64>", indices, mask)
    w.ret()
    dtype = {"float": "f4", "double": "f8", "i8": "i1", "i32": "i4"}[ty]
    x = np.arange(10, 30).astype(dtype)
    at = np.array([3, 1, 0, 7, 7, 2, 11, 3])
    o = np.zeros(40, dtype)
    link(m, "f", None, PTR, PTR, PTR)(x.ctypes.data, at.ctypes.data, o.ctypes.data)
    keep = np.array([1, 0, 1, 1, 0, 1, 1, 1], bool) if masked else np.ones(8, bool)
    np.testing.assert_array_equal(o[:8], np.where(keep, x[at], 0))
    expected = np.zeros(32, dtype)
    expected[at[keep]] = x[at[keep]]
    np.testing.assert_array_equal(o[8:], expected)


def test_reductions_and_shuffles():
    m = module()
    w = m.function("f", [("ptr", "x")], "double")
    ty = "<8 x double>"
    v = w.load(ty, "%x")
    turned = w.shuffle(ty, v, "poison", [1, 2, 3, 4, 5, 6, 7, 0])
    weighted = w.op("fmul", ty, turned, w.splat(ty, w.extract(ty, v, 3)))
    weighted = w.op("fadd", ty, weighted, w.iota(ty))
    w.ret("double", w.reduce("fadd", ty, weighted))
    x = np.random.default_rng(0).random(8)
    assert np.isclose(link(m, "f", F64, PTR)(x.ctypes.data), x.sum() * x[3] + 28)


def test_constants_are_exact():
    assert const("float", 0.1) == "0x3FB99999A0000000"
    assert const("double", -0.0) == "0x8000000000000000" != const("double", 0.0)
    assert const("<4 x i8>", 255) == "splat (i8 -1)"
    assert const("i1", 1) == "true"
    assert float_bits(1e39, "float") == "0x7FF0000000000000"
    assert float_bits(1.5, "half") == "0xH3E00" and float_bits(1.0, "bfloat") == "0xR3F80"
    assert const("<2 x float>", float("nan")).startswith("splat (float 0x7FF8")


def test_constant_data_is_stored_once():
    m = module()
    name = m.constant_bytes(np.arange(5.0).tobytes())
    assert m.constant_bytes(np.arange(5.0).tobytes()) == name
    w = m.function("f", [("i64", "i")], "double")
    w.ret("double", w.load("double", w.gep("double", name, "%i")))
    assert link(m, "f", F64, I64)(3) == 3.0


def test_type_helpers():
    assert vector("float", 1) == "float" and element("<4 x i1>") == "i1" and lanes("float") == 1
    assert int_of("<8 x double>") == "<8 x i64>" and mask_of("float") == "i1"
    assert suffix("<16 x float>") == "v16f32" and suffix("ptr") == "p0"


def test_one_name_one_function():
    m = module()
    m.function("f", [])
    with pytest.raises(ValueError, match="already defined"):
        m.function("f", [])
