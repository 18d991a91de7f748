"""Elementwise programs that take any number of elements: bit for bit the statically shaped ones."""

import ctypes

import numpy as np
import pytest
from native_checks import module_of, random_argument

from xla_backend.compile_options import CompileOptions
from xla_backend.llvm.target import host_target
from xla_backend.runtime.hlo_client import host_device
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.dynamic import NotElementwise, compile_elementwise

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("s8", "s32", "u16", "u64")
COMPLEX = ("c64", "c128")
LENGTHS = (0, 1, 2, 7, 16, 17, 63, 1000, 4097)

UNARY = {
    "abs": FLOATS + ("s8", "s32"), "negate": FLOATS + INTEGERS + COMPLEX, "sign": FLOATS,
    "round-nearest-even": FLOATS, "sqrt": FLOATS, "exponential": FLOATS + COMPLEX,
    "log": FLOATS, "logistic": FLOATS, "tanh": FLOATS, "sine": FLOATS, "erf": FLOATS,
    "not": INTEGERS + ("pred",), "popcnt": INTEGERS, "real": COMPLEX,
}  # fmt: skip
BINARY = {
    "add": FLOATS + INTEGERS + COMPLEX, "multiply": FLOATS + INTEGERS + COMPLEX,
    "divide": FLOATS + INTEGERS + COMPLEX, "remainder": FLOATS + INTEGERS,
    "maximum": FLOATS + INTEGERS + ("pred",), "xor": INTEGERS + ("pred",),
    "shift-left": INTEGERS, "power": FLOATS, "atan2": ("f32", "f64"),
}  # fmt: skip
PARTS = {"c64": "f32", "c128": "f64"}


def _program(type: str, n: int):
    """All operations of a type, on arrays and on an array with a spread scalar."""
    lines = [f"a = {type}[{n}] parameter(0)", f"b = {type}[{n}] parameter(1)"]
    lines += [f"s = {type}[] parameter(2)", f"bs = {type}[{n}] broadcast(s), dimensions={{}}"]
    roots, shapes = [], []

    def add(text: str, result: str) -> None:
        name = f"r{len(roots)}"
        lines.append(f"{name} = {result} {text}")
        roots.append(name)
        shapes.append(result)

    for op, types in UNARY.items():
        if type in types:
            add(f"{op}(a)", f"{PARTS[type] if op == 'real' else type}[{n}]")
    for op, types in BINARY.items():
        if type in types:
            add(f"{op}(a, b)", f"{type}[{n}]")
            add(f"{op}(a, bs)", f"{type}[{n}]")
    add("compare(a, bs), direction=EQ", f"pred[{n}]")
    if type not in COMPLEX:
        add("convert(a)", f"s8[{n}]")
        add("convert(b)", f"f32[{n}]")
        add("negate(s)" if type != "pred" else "not(s)", f"{type}[]")
    lines.append(f"ROOT t = ({', '.join(shapes)}) tuple({', '.join(roots)})")
    return module_of("\n".join(lines))


@pytest.mark.parametrize("type", FLOATS + INTEGERS + COMPLEX + ("pred",))
def test_same_bits_as_static_program(type):
    dynamic = compile_elementwise(_program(type, 4096))
    rng = np.random.default_rng(3)
    for n in LENGTHS:
        static = compile_module(_program(type, n))
        low = 0.1 if type in FLOATS else -3.0
        arguments = [random_argument(s, rng, low, 3.0) for s in static.parameter_shapes]
        got = dynamic.at(n, host_device()).run_arrays(arguments)
        want = static.run_arrays(arguments)
        assert len(got) == len(want) == len(static.output_shapes)
        for i, (g, w) in enumerate(zip(got, want)):
            assert g.shape == w.shape and g.tobytes() == w.tobytes(), (type, n, i)


@pytest.mark.skipif(not host_target().is_x86, reason="instruction sets of x86")
@pytest.mark.parametrize("type", ["f32", "bf16", "s8"])
def test_same_bits_without_masks(type):
    options = CompileOptions(max_isa="SSE4_2")
    dynamic = compile_elementwise(_program(type, 4096), options)
    rng = np.random.default_rng(3)
    for n in LENGTHS:
        static = compile_module(_program(type, n), options)
        low = 0.1 if type in FLOATS else -3.0
        arguments = [random_argument(s, rng, low, 3.0) for s in static.parameter_shapes]
        for g, w in zip(
            dynamic.at(n, host_device()).run_arrays(arguments), static.run_arrays(arguments)
        ):
            assert g.tobytes() == w.tobytes()


def test_writes_nothing_past_the_end():
    """Narrow results of every short length leave the bytes behind them alone."""
    program = "x = f32[4096] parameter(0)\nROOT y = s8[4096] convert(x)"
    dynamic = compile_elementwise(module_of(program))
    entry = dynamic.library.function(
        "entry_n", ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int64
    )
    x = np.arange(200, dtype=np.float32) % 100
    for n in range(140):
        out = np.full(200, 77, np.int8)
        arguments = (ctypes.c_void_p * 1)(x.ctypes.data)
        outputs = (ctypes.c_void_p * 1)(out.ctypes.data)
        assert entry(arguments, outputs, n) == 0
        np.testing.assert_array_equal(out[:n], x[:n].astype(np.int8))
        assert (out[n:] == 77).all()


def test_chain_needs_no_memory_between():
    """A loss-like chain with calls of several operations is one loop."""
    program = """x = f32[4096] parameter(0)
      c = f32[] constant(0.5)
      half = f32[4096] broadcast(c), dimensions={}
      a = f32[4096] multiply(x, half)
      t = f32[4096] tanh(a)
      e = f32[4096] exponential(t)
      ROOT r = f32[4096] subtract(e, x)"""
    dynamic = compile_elementwise(module_of(program))
    (text,) = dynamic.loop_ir.values()
    assert text.startswith("def entry_n(p0: f32[n], out0: f32[n], n: 0..")
    copies = 1 if host_target().has_masks else 2  # of which one is for the last vector
    assert text.count(" = p0[") == text.count("out0[") == copies
    x = np.linspace(-2, 2, 777, dtype=np.float32)
    (got,) = dynamic.at(777, host_device()).run_arrays([x])
    np.testing.assert_allclose(got, np.exp(np.tanh(x / 2)) - x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "program",
    [
        "x = f32[8] parameter(0)\nROOT r = f32[8] reverse(x), dimensions={0}",
        "x = f32[8] parameter(0)\nROOT r = f32[4] slice(x), slice={[0:4]}",
        "x = f32[4,4] parameter(0)\nROOT r = f32[4,4] negate(x)",
        "x = f32[1] parameter(0)\nROOT r = f32[1] negate(x)",
        "x = f32[3] parameter(0)\nc = f32[3] constant({1, 2, 3})\nROOT r = f32[3] add(x, c)",
        "x = f32[8] parameter(0)\ny = f32[9] parameter(1)\nn = f32[8] negate(x)\n"
        "m = f32[9] negate(y)\nROOT t = (f32[8], f32[9]) tuple(n, m)",
    ],
)
def test_other_programs_are_refused(program):
    with pytest.raises(NotElementwise):
        compile_elementwise(module_of(program))


def test_wrong_arguments_are_named():
    dynamic = compile_elementwise(module_of("x = f32[64] parameter(0)\nROOT r = f32[64] negate(x)"))
    with pytest.raises(ValueError, match=r"argument 0 .* f32\[3\], got float64"):
        dynamic.at(3, host_device()).run_arrays([np.zeros(3)])
    with pytest.raises(ValueError, match="takes 1 arrays"):
        dynamic.at(3, host_device()).run_arrays([])
