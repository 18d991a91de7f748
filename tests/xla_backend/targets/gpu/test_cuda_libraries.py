"""Routines of the vendor's libraries do what their contracts say, on a stand-in for CuPy that
computes as the libraries document."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import compiled, on, started
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from tests.xla_backend.targets.gpu.library_checks import check
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.program.ir import Library
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.gpu.cuda import cublas_library
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.commands import Command, CopyCommand, LibraryCommand, Run
from xla_backend.targets.gpu.cuda.cublas_library import cublas_on
from xla_backend.targets.gpu.cuda.graphs import Stretch, in_stretches
from xla_backend.targets.gpu.cuda.layout import Place
from xla_backend.targets.gpu.cuda.library_calls import library_command
from xla_backend.targets.gpu.product_candidates import Cublas
from xla_backend.targets.gpu.routines import ROUTINES
from xla_backend.targets.gpu.routines.cublas import TYPES


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake_cupy.install(monkeypatch, [FakeGpu(0)])
    return CudaClient().devices()[0]


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


def test_every_contract_has_a_routine(device: Any) -> None:
    """Products are part of graphs; solvers take memory as they run, and are not."""
    for routine in ROUTINES:
        command = library_command(Library("r", 0.0, routine, ()), lambda s: Place(0, 0), device)
        assert command.nodes == (1 if routine.startswith("cublas_gemm") else None)


def test_graphs_are_made_around_solvers(device: Any) -> None:
    solver, product = (
        library_command(Library("r", 0.0, routine, ()), lambda s: Place(0, 0), device)
        for routine in ("cusolver_potrf_f32", "cublas_gemm_f32")
    )
    copies = [CopyCommand(Place(0, 0), Place(1, 0), 4) for _ in range(5)]
    kinds = [type(c) for c in in_stretches([*copies, solver, *copies, product, *copies[:2]])]
    assert kinds == [Stretch, LibraryCommand, Stretch]


CHAIN = """ENTRY main { x = f32[256,256] parameter(0)
  a = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[256,256] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[256,256] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[256,256] dot(c, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[256,256] dot(d, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def test_a_graph_has_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five calls of cuBLAS are launched as one, on memory that others did not get meanwhile."""
    (gpu,) = fake_cupy.install(monkeypatch, [FakeGpu(0)])
    executable = compiled(CHAIN, choose=lambda node, found: Cublas("f32"))
    device: Any = executable.device
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16
    (buffer,) = on(device, x)
    for _ in range(4):
        (output,), job = started(executable, [buffer])
        job.wait()
        result = output.kind.to_host(output)
        np.testing.assert_allclose(result, np.linalg.matrix_power(x, 6), rtol=1e-4, atol=1e-5)
        del output
    assert gpu.counts["products"] == 2 * 5  # once as they are, once into the graph
    assert (gpu.counts["captures"], gpu.counts["graph launches"]) == (1, 3)


def test_products_of_threads_keep_their_streams(device: Any) -> None:
    """Another thread captures while this one multiplies: neither gets the other's stream."""
    cublas = cublas_on(device)
    assert cublas is cublas_on(device) and cublas.CUBLAS_OP_T == 1
    used = []
    functions = cublas._functions
    for name in ("cublasSetStream_v2", "cublasGemmStridedBatchedEx"):
        inner = functions[name]

        def slowly(*arguments: Any, name: str = name, inner: Any = inner) -> int:
            used.append((threading.get_ident(), name))
            time.sleep(0.01)
            return inner(*arguments) if name == "cublasSetStream_v2" else 0

        functions[name] = slowly
    threads = [
        threading.Thread(target=lambda: [cublas.gemm(device.stream.ptr) for _ in range(3)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = list(zip(used[::2], used[1::2]))
    assert len(pairs) == 9 and all(a[0] == b[0] and a[1] != b[1] for a, b in pairs)


def test_a_library_that_does_not_start_is_an_error(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cublas_library, "_load", lambda name: Refusing())
    with pytest.raises(RuntimeFailure, match="on cuda:0 cuBLAS cannot start, mostly for want of"):
        cublas_on(device)
    monkeypatch.undo()
    with pytest.raises(RuntimeFailure, match=r"but there is no libcublas_none.so .*reinstall"):
        cublas_library._load("libcublas_none.so")


class Failing(Command):
    """It fails where it would become part of a graph."""

    nodes = 5

    def run(self, run: Run) -> None:
        if run.capturing:
            raise ZeroDivisionError("on purpose")


def test_what_fails_in_a_capture_is_what_is_raised(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ending the capture fails then, too, and says nothing of what came first."""
    stretch = Stretch([Failing()])
    run = Run(device, [], ExecutionContext(device), device.stream)

    def refuse(stream: Any) -> Any:
        stream.capture = None
        raise fake_cupy.CUDARuntimeError(fake_cupy.CAPTURING)

    monkeypatch.setattr(fake_cupy.Stream, "end_capture", refuse)
    with device.active():
        stretch.run(run)  # addresses that came once are no graph
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            stretch.run(run)


class Refusing:
    """A library whose calls all fail."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: 1
