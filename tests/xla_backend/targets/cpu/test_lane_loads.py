"""Lanes that read places of their own, one by one in place of a gather, on machines that gather
slowly."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.kernels.index import Index
from xla_backend.llvm.target import host_target, make_target
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.lane_loads import loads_are_quicker

ONE_BY_ONE = host_target().gathers_slowly


def picked(type: str, size: int, count: int) -> HloModule:
    """Elements of a row at `count` places."""
    return module_of(f"""x = {type}[{size}] parameter(0)
      at = s32[{count},1] parameter(1)
      ROOT r = {type}[{count}] gather(x, at), offset_dims={{}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}""")


def along_rows(type: str, rows: int, columns: int) -> HloModule:
    """Elements of each row, at places of its own."""
    shape = f"[{rows},{columns}]"
    return module_of(f"""x = {type}{shape} parameter(0)
      at = s32[{rows},{columns},1] parameter(1)
      ROOT r = {type}{shape} gather(x, at), offset_dims={{}}, collapsed_slice_dims={{1}},
        start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}},
        index_vector_dim=2, slice_sizes={{1,1}}""")


def places(shape: tuple[int, ...], size: int) -> np.ndarray:
    """Inside of a row, and now and then beyond its ends."""
    rng = np.random.default_rng(1)
    return rng.integers(-3, size + 3, (*shape, 1)).astype(np.int32)


@pytest.mark.parametrize("type", ["f32", "f64", "s32", "s64", "u8", "bf16", "f16", "pred", "c64"])
@pytest.mark.parametrize(("size", "count"), [(700, 1000), (5000, 333), (40_000, 2049)])
def test_picked(type: str, size: int, count: int) -> None:
    made = picked(type, size, count)
    check_native(made, [arguments_of(made)[0], places((count,), size)])


@pytest.mark.parametrize("type", ["f32", "f64", "s32", "c64"])
@pytest.mark.parametrize("columns", [130, 1000])
def test_along_rows(type: str, columns: int) -> None:
    made = along_rows(type, 9, columns)
    check_native(made, [arguments_of(made)[0], places((9, columns), columns)])


def test_bits_stay() -> None:
    """NaN with any payload, too: nothing is computed."""
    made = picked("f32", 3000, 1000)
    x = np.random.default_rng(0).integers(0, 1 << 32, 3000, np.uint32).view(np.float32)
    at = places((1000,), 3000)
    (got,) = compile_module(made, CompileOptions()).run_arrays([x, at])
    assert np.asarray(got).tobytes() == x[np.clip(at[:, 0], 0, 2999)].tobytes()


@pytest.mark.skipif(not ONE_BY_ONE, reason="the machine gathers quickly")
def test_near_places_are_loaded_one_by_one() -> None:
    near = compile_module(along_rows("f32", 9, 992), CompileOptions()).llvm_ir
    assert "masked.gather" not in near
    assert " load float" in near
    far = compile_module(picked("f32", 100_000, 1024), CompileOptions()).llvm_ir
    assert "masked.gather.v64" in far  # of several registers, which hide what they wait for
    assert "load <16 x i32>" in near


def test_where_loads_are_quicker() -> None:
    slow = make_target(
        "x86_64-unknown-linux-gnu", "znver4", "+avx512f,+avx512bw,+avx512dq,+avx512vl"
    )
    other = make_target("x86_64-unknown-linux-gnu", "x86-64-v4", "")
    ints, floats, far = "<16 x i32>", "<16 x float>", Index({}, 0)
    assert loads_are_quicker(slow, floats, ints, far, False)
    assert not loads_are_quicker(other, floats, ints, far, False)
    assert not loads_are_quicker(slow, floats, "<16 x i64>", far, False)
    assert not loads_are_quicker(slow, "<16 x i16>", ints, far, False)
