"""Routines of the vendor's libraries do what their contracts say, on a stand-in for CuPy that
computes as the libraries document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import on
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.shape import Shape
from xla_backend.program.ir import Library, Slice, Space
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.commands import CopyCommand, LibraryCommand, Run
from xla_backend.targets.gpu.cuda.graphs import Stretch, in_stretches
from xla_backend.targets.gpu.cuda.layout import Place
from xla_backend.targets.gpu.cuda.library_calls import library_command
from xla_backend.targets.gpu.routines import ROUTINES
from xla_backend.targets.gpu.routines.cublas import TYPES


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake_cupy.install(monkeypatch, [FakeGpu(0)])
    return CudaClient().devices()[0]


def run_on(device: Any, routine: str, operands: list[Any]) -> list[np.ndarray]:
    """What the arrays among the operands hold afterwards."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    buffers = on(device, *arrays)
    numbers = iter(range(len(arrays)))
    step = Library(
        "r",
        0.0,
        routine,
        tuple(
            Slice(Space.ARGUMENT, next(numbers), 0, Shape.of(o)) if isinstance(o, np.ndarray) else o
            for o in operands
        ),
    )
    command = library_command(step, lambda s: Place(s.number, s.offset), device)
    with device.active():
        bases = [buffer.address for buffer in buffers]
        command.run(Run(device, bases, ExecutionContext(device), device.stream))
    return [buffer.kind.to_host(buffer) for buffer in buffers]


def check(device: Any, routine: str, operands: list[Any], tolerance: float) -> None:
    """The routine does what the reference of its contract does."""
    want = [o.copy() if isinstance(o, np.ndarray) else o for o in operands]
    ROUTINES[routine].reference(*want)
    arrays = [o for o in want if isinstance(o, np.ndarray)]
    for got, expected in zip(run_on(device, routine, operands), arrays, strict=True):
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), tolerance, tolerance
        )


def check_gemm(device: Any, name: str, batches: int, lhs_inner: bool, rhs_inner: bool) -> None:
    """A small product; `lhs_inner`, `rhs_inner`: neighbours in the sum are neighbours in memory."""
    m, n, k = 5, 7, 4
    generator = np.random.default_rng(0)
    operands: list[Any] = [batches, m, n, k]
    for extent, inner in ((m, lhs_inner), (n, rhs_inner)):
        flat = generator.standard_normal(batches * extent * k)
        operands.append(flat.astype(TYPES[name].source.numpy_dtype))
        operands += [extent * k, *((k, 1) if inner else (1, extent))]
    operands.append(np.zeros(batches * m * n, TYPES[name].target.numpy_dtype))
    check(device, f"cublas_gemm_{name}", operands, 1e-2 if name != "f64" else 1e-12)


@pytest.mark.parametrize("rhs_inner", [True, False])
@pytest.mark.parametrize("lhs_inner", [True, False])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("name", TYPES)
def test_products(name: str, batches: int, lhs_inner: bool, rhs_inner: bool, device: Any) -> None:
    check_gemm(device, name, batches, lhs_inner, rhs_inner)


def test_a_routine_that_is_none_is_an_error(device: Any) -> None:
    step = Library("r", 0.0, "cublas_gemm_i8", ())
    with pytest.raises(UnimplementedError, match="%r calls 'cublas_gemm_i8', which nothing runs"):
        library_command(step, lambda s: Place(0, 0), device)


def test_every_contract_has_a_routine_that_graphs_leave_out(device: Any) -> None:
    for routine in ROUTINES:
        command = library_command(Library("r", 0.0, routine, ()), lambda s: Place(0, 0), device)
        assert command.nodes is None


def test_graphs_are_made_around_them(device: Any) -> None:
    """CuPy refuses cuBLAS while a stream captures."""
    library = library_command(
        Library("r", 0.0, "cublas_gemm_f32", ()), lambda s: Place(0, 0), device
    )
    copies = [CopyCommand(Place(0, 0), Place(1, 0), 4) for _ in range(5)]
    kinds = [type(c) for c in in_stretches([*copies, library, *copies, library, *copies[:2]])]
    alone = [CopyCommand] * 2
    assert kinds == [Stretch, LibraryCommand, Stretch, LibraryCommand, *alone]
