"""Narrow elements that are only moved keep their bits, in optimised and first code."""

import numpy as np
import pytest
from native_checks import check_text, module_of

from tests.xla_backend.targets.cpu.kernel_codes import check_same
from xla_backend import compile
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.targets.cpu.planned import plan_program

TYPES = {"f16": P.F16, "bf16": P.BF16, "f8e4m3fn": P.F8E4M3FN, "pred": P.PRED}


def taken(t: str, other: str, rows: int = 40, columns: int = 101) -> str:
    """Rows of a matrix; the other value where there is none."""
    return f"""a = {t}[{rows},{columns}] parameter(0)
      i = s32[57,1] parameter(1)
      g = {t}[57,{columns}] gather(a, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}
      z = s32[] constant(0)
      n = s32[] constant({rows})
      zs = s32[57,1] broadcast(z), dimensions={{}}
      ns = s32[57,1] broadcast(n), dimensions={{}}
      above = pred[57,1] compare(i, zs), direction=GE
      below = pred[57,1] compare(i, ns), direction=LT
      both = pred[57,1] and(above, below)
      flat = pred[57] reshape(both)
      inside = pred[57,{columns}] broadcast(flat), dimensions={{0}}
      o = {t}[] constant({other})
      os = {t}[57,{columns}] broadcast(o), dimensions={{}}
      ROOT r = {t}[57,{columns}] select(inside, g, os)"""


@pytest.mark.parametrize(
    ("t", "other"), [("f16", "nan"), ("bf16", "nan"), ("f8e4m3fn", "1"), ("pred", "true")]
)
def test_rows_at_places(t: str, other: str) -> None:
    """Numbers that signal are NaN of their own, too."""
    dtype, rng = TYPES[t].numpy_dtype, np.random.default_rng(0)
    most = 2 if t == "pred" else 1 << TYPES[t].bits
    bits = rng.integers(0, most, (40, 101)).astype(f"u{dtype.itemsize}")
    places = rng.integers(-3, 44, (57, 1), np.int32)
    one = np.asarray(np.nan if other == "nan" else 1).astype(dtype).view(bits.dtype)
    inside = (places >= 0) & (places < 40)
    want = np.where(inside, bits[np.clip(places[:, 0], 0, 39)], one)
    module = module_of(taken(t, other), "")
    (found,) = compile(module).loaded.run_arrays([bits.view(dtype), places])
    np.testing.assert_array_equal(np.asarray(found).view(bits.dtype), want)
    program = plan_program(module_of(taken(t, other), ""), CompileOptions()).program
    for kernel in program.kernels.values():
        arrays = [places if b.element_type is P.S32 else bits for b in kernel.buffers[:2]]
        out = check_same(kernel, arrays)[-1]
        np.testing.assert_array_equal(out.view(bits.dtype).reshape(want.shape), want)


def test_rows_are_not_converted() -> None:
    loops = compile(module_of(taken("bf16", "nan"), "")).texts()["loops"]
    check_text(loops, "// CHECK: u16[4040]")


@pytest.mark.parametrize("opcode", ["or", "and", "maximum", "minimum"])
@pytest.mark.parametrize("dimension, bytes_", [(0, True), (1, False)])
def test_truth_values_of_columns_are_combined_as_bytes(opcode, dimension, bytes_):
    """Those of rows as masks, whose lanes are put together sooner."""
    start = "false" if opcode in ("or", "maximum") else "true"
    called = f"""f {{
      a = pred[] parameter(0)
      b = pred[] parameter(1)
      ROOT c = pred[] {opcode}(a, b)
    }}"""
    body = f"""x = pred[1100,1300] parameter(0)
      s = pred[] constant({start})
      ROOT r = pred[{1300 if dimension == 0 else 1100}] reduce(x, s), dimensions={{{dimension}}},
        to_apply=f"""
    rng = np.random.default_rng(0)
    executable = compile(module_of(body, called))
    for share in (0.001, 0.5, 0.999):
        x = rng.random((1100, 1300)) < share
        (found,) = executable.loaded.run_arrays([x])
        wanted = x.any(dimension) if start == "false" else x.all(dimension)
        np.testing.assert_array_equal(found, wanted)
    assert ("u8[1430000]" in executable.texts()["loops"]) == bytes_
