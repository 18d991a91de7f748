"""Many updates of a small array: blocks of them first, the same on any number of threads."""

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.types import PrimitiveType
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module

SCATTER = """x = {type}[{sizes}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {type}[{updates}] parameter(2)
  ROOT r = {type}[{sizes}] scatter(x, i, u), update_window_dims={{{window}}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=op
"""
OP = """
op {{
  x = {type}[] parameter(0)
  y = {type}[] parameter(1)
  ROOT r = {type}[] {opcode}(x, y)
}}
"""
AT = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}


def scatter(type, opcode, sizes, count):
    """A compiled scatter of `count` rows into an array, and arguments with places outside it."""
    row = sizes[1:]
    text = SCATTER.format(
        type=type,
        sizes=",".join(map(str, sizes)),
        count=count,
        updates=",".join(map(str, (count, *row))),
        window="1" if row else "",
    )
    module = module_of(text, OP.format(type=type, opcode=opcode))
    rng = np.random.default_rng(count)
    dtype = PrimitiveType(type).numpy_dtype
    if dtype.kind == "f":
        x, u = rng.normal(size=sizes), rng.normal(size=(count, *row))
        if opcode == "multiply":
            u = 1 + u / 1000
    else:
        x, u = rng.integers(0, 100, sizes), rng.integers(0, 100, (count, *row))
    i = rng.integers(-1, sizes[0] + 1, (count, 1)).astype(np.int32)
    return compile_module(module, CompileOptions()), [x.astype(dtype), i, u.astype(dtype)]


def expected(opcode, x, i, u):
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x.copy()
    inside = (i[:, 0] >= 0) & (i[:, 0] < len(x))
    with np.errstate(over="ignore"):
        AT[opcode].at(wide, i[inside, 0], u[inside])
    return wide


@pytest.mark.parametrize(
    "type, opcode",
    [
        ("f32", "add"),
        ("f64", "add"),
        ("f32", "multiply"),
        ("f32", "maximum"),
        ("f64", "minimum"),
        ("s32", "add"),
        ("u8", "add"),
        ("s64", "maximum"),
        ("u32", "xor"),
        ("s16", "and"),
    ],
)
@pytest.mark.parametrize("sizes, count", [((50,), 131_101), ((5000,), 131_101), ((7, 33), 4099)])
def test_values(type, opcode, sizes, count):
    executable, arguments = scatter(type, opcode, sizes, count)
    want = expected(opcode, *arguments)
    before = num_threads()
    results = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            results.append(executable.run_arrays(arguments)[0])
    finally:
        set_num_threads(before)
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    if want.dtype.kind == "f":
        tolerance = 1e-12 if type == "f64" else 2e-5
        np.testing.assert_allclose(results[0], want, rtol=tolerance, atol=tolerance * 100)
    else:
        np.testing.assert_array_equal(results[0], want)


def test_nan_and_infinity():
    executable, (x, i, u) = scatter("f32", "maximum", (50,), 131_101)
    u[::1000] = np.nan
    u[5::1001] = np.inf
    x[3] = np.nan
    with np.errstate(invalid="ignore"):
        want = expected("maximum", x, i, u)
    np.testing.assert_array_equal(executable.run_arrays([x, i, u])[0], want.astype(np.float32))


@pytest.mark.parametrize(
    "type, sizes, count, cut",
    [
        ("f32", (50,), 131_101, True),
        ("f32", (50,), 100_000, False),  # not many
        ("f32", (5000,), 131_101, True),  # in fewer blocks
        ("f32", (17_000,), 131_101, False),  # few for each element
        ("bf16", (50,), 131_101, False),  # would be rounded in other places
    ],
)
def test_which_are_cut(type, sizes, count, cut):
    executable, _ = scatter(type, "add", sizes, count)
    assert any("partial0" in kernel.loop_ir for kernel in executable.kernels()) == cut
