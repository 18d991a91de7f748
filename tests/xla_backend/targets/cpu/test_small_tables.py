"""Lanes that read in few elements: registers that are permuted."""

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.target import host_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module

SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 32, 33, 64, 65, 100, 128, 129, 256, 257)


def elements(type: str, places: str, size: int, count: int) -> HloModule:
    return module_of(f"""t = {type}[{size}] parameter(0)
      i = {places}[{count},1] parameter(1)
      ROOT g = {type}[{count}] gather(t, i), offset_dims={{}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}""")


def of_each_row(type: str, rows: int, size: int, count: int) -> HloModule:
    """Elements of the same row at places that are different ones in each."""
    return module_of(f"""t = {type}[{rows},{size}] parameter(0)
      i = s32[{rows},{count},1] parameter(1)
      ROOT g = {type}[{rows},{count}] gather(t, i), offset_dims={{}}, collapsed_slice_dims={{1}},
        start_index_map={{1}}, index_vector_dim=2, slice_sizes={{1,1}}, operand_batching_dims={{0}},
        start_indices_batching_dims={{0}}""")


def check(module: HloModule, table: np.ndarray, places: np.ndarray) -> str:
    """Bits are those of the evaluator; returns the code."""
    executable = compile_module(module, CompileOptions())
    (want,) = evaluate(module, [table, places])
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            (got,) = executable.run_arrays([table, places])
            assert np.asarray(got).tobytes() == want.tobytes()
    finally:
        set_num_threads(before)
    return executable.texts()["llvm"]


def table_of(type: str, *shape: int) -> np.ndarray:
    """Bits of all kinds, with NaNs of their own."""
    dtype = np.dtype(P(type).numpy_dtype)
    if type == "pred":
        return np.random.default_rng(1).integers(0, 2, shape).astype(bool)
    raw = np.random.default_rng(1).bytes(int(np.prod(shape)) * dtype.itemsize)
    table = np.frombuffer(raw, dtype).copy()
    if dtype.kind == "f":
        table[::3] = [np.nan, -0.0, np.inf, 1e-40][len(table) % 4]
    return table.reshape(shape)


@pytest.mark.parametrize("type", ["f32", "s32", "f64", "s64", "c64", "u8", "bf16", "s16", "pred"])
@pytest.mark.parametrize("places", ["u8", "s32", "s64"])
def test_values(type: str, places: str) -> None:
    rng = np.random.default_rng(0)
    for size in SIZES if places == "s32" else SIZES[2::4]:
        for count in (1000, 77):
            # Some places are outside: the first or the last element is read.
            i = rng.integers(0 if places == "u8" else -3, min(size + 4, 256), (count, 1))
            check(
                elements(type, places, size, count),
                table_of(type, size),
                i.astype(P(places).numpy_dtype),
            )


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("size, count", [(10, 10), (64, 64), (100, 33), (200, 64)])
def test_rows(type: str, size: int, count: int) -> None:
    i = np.random.default_rng(0).integers(-2, size + 2, (37, count, 1)).astype(np.int32)
    check(of_each_row(type, 37, size, count), table_of(type, 37, size), i)


@pytest.mark.skipif(not host_target().permutes_wide_bytes, reason="registers of other bits")
def test_code() -> None:
    found = {}
    for size in (16, 17, 256, 257):
        module = elements("f32", "u8", size, 6400)
        i = np.random.default_rng(0).integers(0, 255, (6400, 1)).astype(np.uint8)
        text = check(module, table_of("f32", size), i)
        one_by_one = "masked.gather" in text or " load float," in text
        found[size] = "permvar" in text, "vpermi2var" in text, one_by_one
    assert found == {
        16: (True, False, False),
        17: (False, True, False),
        256: (False, True, False),
        257: (False, False, True),
    }
