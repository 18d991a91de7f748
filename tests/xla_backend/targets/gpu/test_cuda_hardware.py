"""The platform `cuda` on real GPUs: `pytest -m gpu`."""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from product_checks import random_arrays

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax
from tests.xla_backend.targets.gpu.test_cuda_libraries import check_gemm
from tests.xla_backend.targets.gpu.test_cuda_programs import BODIES, DONATING, RANDOM, X, text_of
from tests.xla_backend.targets.gpu.test_cuda_solvers import (
    SIZES,
    check_solver,
    choices,
    operands,
    tolerance_of,
)
from tests.xla_backend.targets.gpu.test_group_product_programs import PRODUCTS
from xla_backend.compile_options import CompileOptions
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.library import compile as compile_hlo
from xla_backend.runtime.buffer import OutOfMemory
from xla_backend.targets.gpu import product_candidates, product_rules
from xla_backend.targets.gpu.cuda import availability
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.routines.cublas import TYPES
from xla_backend.targets.gpu.routines.solvers import REALS, SOLVERS, routine_name

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not availability.is_usable(), reason="no GPU, driver or CuPy"),
]


@pytest.fixture(scope="module")
def device() -> Any:
    return CudaClient().devices()[0]


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_programs(name: str, graphs: bool) -> None:
    _, arguments = BODIES[name]
    options = CompileOptions(verify=True, gpu=GpuOptions(graphs=graphs))
    executable = compile_hlo(parse_module(text_of(name)), "cuda", options)
    want = evaluate(parse_module(text_of(name)), arguments)
    for _ in range(4):
        for got, expected in zip(executable.execute(arguments), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_donation_and_state() -> None:
    executable = compile_hlo(parse_module(DONATING), "cuda")
    for got, want in zip(executable.execute([X, X + 1]), (X + (X + 1), X * (X + 1))):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    random = compile_hlo(parse_module(RANDOM), "cuda")
    first, second = (int(random.execute([])[0][0]) for _ in range(2))
    assert second - first == 5


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float64, ml_dtypes.bfloat16])
def test_arrays_there_and_back(dtype: Any, device: Any) -> None:
    for count in (0, 1, 1000, 3_000_001):
        array = (np.arange(count) % 100).astype(dtype)
        kind = device.client.buffer_kind(device, array.shape, array.dtype)
        np.testing.assert_array_equal(kind.to_host(kind.from_host(array)), array)


@pytest.mark.parametrize("name", TYPES)
def test_products_of_the_library(name: str, device: Any) -> None:
    for lhs_inner_first in (True, False):
        for rhs_inner_first in (True, False):
            check_gemm(device, name, 3, lhs_inner_first, rhs_inner_first)


@pytest.mark.parametrize("tiling", product_candidates.GROUP_TILES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_groups(
    name: str, tiling: GroupTiling, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all forms, whatever the model says of them."""
    if device.capability != (9, 0):
        pytest.skip("only GPUs of compute capability 9.0 have the instructions")
    monkeypatch.setattr(product_candidates, "WORTH_GROUPS", 0)
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    text, error = PRODUCTS[name]
    arrays = random_arrays(parse_module(text))
    options = CompileOptions(gpu=GpuOptions(autotune_level=0))
    (want,) = evaluate(parse_module(text), arrays)
    largest = float(np.abs(want.astype(np.float64)).max())
    (got,) = compile_hlo(parse_module(text), "cuda", options).execute(arrays)
    # Products of f8 are added up with fewer bits than f32 has.
    allowed = max(error, 1e-3 if name == "f8" else 1e-5) * largest
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), 0, allowed)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("type", REALS)
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_of_the_libraries(name: str, type: Any, batches: int, device: Any) -> None:
    for sizes in SIZES[name]:
        for options in choices(name, sizes):
            given = operands(name, type, batches, sizes, options)
            routine = routine_name(name, type)
            check_solver(device, name, routine, given, 10 * tolerance_of(type), unique=True)


def test_more_memory_than_there_is(device: Any) -> None:
    total = device.memory_stats()["bytes_limit"]
    kind = device.client.buffer_kind(device, (total + 1,), np.dtype(np.uint8))
    with pytest.raises(OutOfMemory, match="jax_cuda_memory_fraction"):
        device.buffer(kind)
    assert device.memory_stats()["bytes_in_use"] < total


def on_gpu(x: Any) -> Any:
    return pyjax.device_put(x, pyjax.devices("gpu")[0])


def test_functions_and_gradients() -> None:
    def f(x: Any) -> Any:
        carry, ys = lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), jnp.zeros(64), x)
        return (carry @ carry + jnp.sin(ys).sum()) / 64

    x = np.linspace(-1, 1, 32 * 64, dtype=np.float32).reshape(32, 64)
    cpu = pyjax.device_put(x, pyjax.devices("cpu")[0])
    np.testing.assert_allclose(jit(f)(on_gpu(x)), jit(f)(cpu), rtol=1e-4)
    np.testing.assert_allclose(jit(grad(f))(on_gpu(x)), jit(grad(f))(cpu), rtol=1e-3, atol=1e-5)


def test_calls_come_back_at_once() -> None:
    """Ten products of large matrices take longer than handing them over."""
    x = on_gpu(np.eye(4096, dtype=np.float32))
    f = jit(lambda x: x @ x)
    f(x).block_until_ready()
    start = time.perf_counter()
    y = x
    for _ in range(10):
        y = f(y)
    handed_over = time.perf_counter() - start
    y.block_until_ready()
    assert handed_over < time.perf_counter() - start
    np.testing.assert_array_equal(y[:3, :3], np.eye(3))


def test_memory_is_shared_with_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    x = on_gpu(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    for theirs in (cupy.from_dlpack(x), cupy.asarray(x)):
        assert theirs.data.ptr == x.unsafe_buffer_pointer()
        np.testing.assert_array_equal(theirs.get(), x)
    back = jnp.from_dlpack(cupy.arange(1000, dtype=cupy.float32) * 2)
    np.testing.assert_array_equal(back, np.arange(1000) * 2)


def test_memory_is_shared_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = on_gpu(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    theirs = torch.from_dlpack(x)
    assert theirs.data_ptr() == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(theirs.cpu().numpy(), x)
    tensor = torch.arange(12, device="cuda", dtype=torch.float32)
    assert jnp.from_dlpack(tensor).unsafe_buffer_pointer() == tensor.data_ptr()
    np.testing.assert_array_equal(jnp.from_dlpack(tensor[1:]), np.arange(1, 12))
    np.testing.assert_array_equal(jnp.from_dlpack(tensor.view(3, 4).T), x.T)
