"""Rows that are gathered: their places are computed in lanes, a block of rows ahead."""

import numpy as np
import pytest
from native_checks import check_native, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.types import PrimitiveType
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module


def rows_at(type: str, rows: int, columns: int, filler: str = "1", table: int = 50) -> HloModule:
    """Rows of an array at places from its end where they are negative, and others outside."""
    return module_of(f"""
    x = {type}[{table},{columns}] parameter(0)
    i = s64[{rows}] parameter(1)
    z = s64[] constant(0)
    zeros = s64[{rows}] broadcast(z), dimensions={{}}
    n = s64[] constant({table})
    all = s64[{rows}] broadcast(n), dimensions={{}}
    below = pred[{rows}] compare(i, zeros), direction=LT
    moved = s64[{rows}] add(i, all)
    place = s64[{rows}] select(below, moved, i)
    places = s64[{rows},1] reshape(place)
    g = {type}[{rows},{columns}] gather(x, places), offset_dims={{1}}, collapsed_slice_dims={{0}},
      start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}
    none = s64[{rows},1] broadcast(z), dimensions={{}}
    last = s64[] constant({table - 1})
    most = s64[{rows},1] broadcast(last), dimensions={{}}
    low = pred[{rows},1] compare(places, none), direction=GE
    high = pred[{rows},1] compare(places, most), direction=LE
    both = pred[{rows},1] and(low, high)
    inside = pred[{rows}] reshape(both)
    wide = pred[{rows},{columns}] broadcast(inside), dimensions={{0}}
    q = {type}[] constant({filler})
    others = {type}[{rows},{columns}] broadcast(q), dimensions={{}}
    ROOT r = {type}[{rows},{columns}] select(wide, g, others)
    """)


def arguments(module: HloModule, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    assert module.entry is not None
    x, i = (p.shape for p in module.entry.parameters)
    table = (rng.standard_normal(x.dimensions) * 50).astype(x.element_type.numpy_dtype)
    if x.element_type is not PrimitiveType.PRED and table.dtype.kind in "fc":
        table[0, 0], table[-1, -1], table[1, 0] = np.nan, -0.0, np.inf
    size = x.dimensions[0]
    places = rng.integers(-size - 3, size + 3, i.dimensions, np.int64)
    return [table, places.astype(i.element_type.numpy_dtype)]


@pytest.mark.parametrize("rows", [63, 64, 65, 200, 1003])
@pytest.mark.parametrize(
    ("type", "filler"),
    [("pred", "true"), ("u8", "1"), ("s16", "1"), ("f16", "nan"), ("f32", "nan"), ("s64", "7")]
    + [("f64", "nan"), ("c64", "(nan, 1)"), ("c128", "(nan, 1)")],
)
def test_rows(type: str, filler: str, rows: int) -> None:
    for columns in (2, 4, 7, 33):
        module = rows_at(type, rows, columns, filler)
        check_native(module, arguments(module))


def test_places_are_computed_in_lanes() -> None:
    executable = compile_module(rows_at("f32", 640, 4), CompileOptions())
    (text,) = executable.loop_ir.values()
    check_text(
        text,
        """
        // CHECK: for part in range(10):
        // CHECK-NEXT: for i in range(4):
        // CHECK-NEXT: for lane in lanes(16):
        // CHECK: kept0[16*i + lane] =
        // CHECK: for i in range(64):
        // CHECK: = kept0[i]
        // CHECK: for lane in lanes(4):
        """
        if "lanes(16)" in text
        else "// CHECK: kept0[",
    )


def test_long_rows_compute_their_places_themselves() -> None:
    executable = compile_module(rows_at("f32", 640, 4000), CompileOptions())
    assert all("kept" not in text for text in executable.loop_ir.values())


def test_windows_of_several_axes_compute_their_places_themselves() -> None:
    """What a place is computed for is all that is read there, not its last axis alone."""
    module = module_of("""
    x = f32[64,40,96] parameter(0)
    i = s32[64] parameter(1)
    z = s32[] constant(0)
    zeros = s32[64] broadcast(z), dimensions={}
    n = s32[] constant(40)
    all = s32[64] broadcast(n), dimensions={}
    below = pred[64] compare(i, zeros), direction=LT
    moved = s32[64] add(i, all)
    place = s32[64] select(below, moved, i)
    places = s32[64,1] reshape(place)
    ROOT g = f32[64,32,96] gather(x, places), offset_dims={1,2}, collapsed_slice_dims={},
      operand_batching_dims={0}, start_indices_batching_dims={0}, start_index_map={1},
      index_vector_dim=1, slice_sizes={1,32,96}
    """)
    executable = check_native(module, arguments(module))
    assert all("kept" not in text for text in executable.loop_ir.values())


def test_same_bits_on_any_number_of_threads() -> None:
    module = rows_at("f32", 40_001, 5, "nan", table=3000)
    operands = arguments(module)
    executable = check_native(module, operands)
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append([np.asarray(r).tobytes() for r in executable.run_arrays(operands)])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]
