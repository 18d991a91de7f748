"""Fusions that work row by row: one launch each, by teams of threads."""

from __future__ import annotations

import numpy as np
import pytest
from code_checks import check_assembles
from emulated_checks import barriers, check_emulated
from native_checks import arguments_of, check_text

import xla_backend
from tests.needs_ptxas import NEEDS_PTXAS
from tests.xla_backend.passes.row_programs import Rows, layer_norm, random_rows, softmax
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.index import constant
from xla_backend.kernels.interpreter import Interpreter, run_kernel
from xla_backend.kernels.ir import BufferRole, Kernel, Loop, Value
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import RaceError
from xla_backend.passes.base import Pipeline
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.row_fusion import RowFusion
from xla_backend.passes.row_plan_annotator import RowPlanAnnotator
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.schedules import Schedules

F32 = PrimitiveType.F32


def check(text: str, checks: str = "", scale: float = 20.0) -> Kernel:
    """Run a program of one kernel, and match the text of that."""
    module = parse_module(text)
    (kernel,) = check_emulated(module, arguments_of(module), scale=scale).values()
    if checks:
        check_text(kernel_to_text(kernel), checks)
    return kernel


def scheduled(text: str, checks: str = "") -> Kernel:
    """Schedule the one fusion of a program that is too large to run, and match its text."""
    module = parse_module(text)
    Pipeline("fusions", [LoopFusion(), RowFusion(), RowPlanAnnotator()]).run(module)
    assert module.entry is not None
    (fusion,) = module.entry.post_order(Opcode.FUSION)
    kernel = lower(fusion, "k", in_parts=Schedules.reduces_in_parts)
    Schedules(ARCHITECTURES["sm_90"], verify=True).kernel(kernel)
    if checks:
        check_text(kernel_to_text(kernel), checks)
    return kernel


def launches(kernel: Kernel) -> int:
    return sum(isinstance(stage, Loop) for stage in kernel.stages)


PROGRAMS = {
    "softmax": softmax((64, 515), (1,)),
    "softmax of whole vectors": softmax((20, 512), (1,)),
    "softmax of two vectors per element": softmax((20, 1026), (1,)),
    "softmax over the middle": softmax((16, 20, 130), (1,)),
    "softmax over the first axis": softmax((20, 300), (0,)),
    "softmax of a vector": softmax((1000,), (0,)),
    "softmax of long rows": softmax((17, 6000), (1,)),
    "softmax of tiny rows": softmax((100, 3), (1,)),
    "softmax of a matrix per row": softmax((5, 8, 16), (1, 2)),
    "layer norm": layer_norm((64, 512), (1,)),
    "layer norm over two axes": layer_norm((16, 8, 33), (1, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_launch_without_memory_of_its_own(name: str) -> None:
    kernel = check(PROGRAMS[name])
    assert launches(kernel) == 1
    assert all(b.role is not BufferRole.SCRATCH for b in kernel.buffers)
    text = kernel_to_text(kernel)
    assert "barrier" in text or "shuffle" in text


@pytest.mark.parametrize("type", ["bf16", "f16", "f64"])
def test_other_types(type: str) -> None:
    assert launches(check(softmax((32, 130), (1,)).replace("f32", type), scale=4)) == 1


def test_a_row_stays_in_registers() -> None:
    """Memory is read once: the second walk has what the first has read, the third what the second
    has computed."""
    kernel = check(
        softmax((20, 512), (1,)),
        """
        // CHECK: kept0: registers f32[4], kept1: registers f32[4]
        // CHECK: for block in grid(20):
        // CHECK-NEXT: for t in threads(128):
        // CHECK-NEXT: for lane in lanes(4):
        // CHECK: [[X:v[0-9]+]] = p0[512*block + 4*t + lane]
        // CHECK-NEXT: kept1[lane] = [[X]]
        // CHECK: maximum
        // CHECK: barrier()
        // CHECK: for lane in lanes(4):
        // CHECK: = kept1[lane]
        // CHECK-NOT: p0
        // CHECK: [[E:v[0-9]+]] = exp(
        // CHECK: kept0[lane] = [[E]]
        // CHECK: barrier()
        // CHECK: for lane in lanes(4):
        // CHECK: = kept0[lane]
        // CHECK: out0[512*block + 4*t + lane] =
        """,
    )
    assert all(b.role is not BufferRole.LOCAL for b in kernel.buffers)


def test_a_warp_for_a_row_needs_no_barrier() -> None:
    kernel = scheduled(
        softmax((8192, 128), (1,)),
        """
        // CHECK: grid(1024)
        // CHECK-NEXT: threads(256)
        // CHECK: shuffle_down({{.*}}, 1, 32)
        // CHECK: shuffle_from({{.*}}, 0, 32)
        // CHECK: exp(
        // CHECK: shuffle_from({{.*}}, 0, 32)
        // CHECK: out0[
        """,
    )
    assert "barrier" not in kernel_to_text(kernel)


def keeping(width: int) -> str:
    """Three values of each element that are worth keeping for what comes after the sum."""
    r = Rows((16, width), (1,))
    kept = [
        r.of_full(op, r.parameter(n)) for n, op in enumerate(("exponential", "tanh", "logistic"))
    ]
    total = r.spread(r.reduce(r.of_full("add", r.of_full("add", *kept[:2]), kept[2]), "add"))
    return r.text(*((r.full, r.of_full("multiply", value, total)) for value in kept))


@pytest.mark.parametrize(
    ("width", "role"),
    [(512, BufferRole.REGISTERS), (8192, BufferRole.REGISTERS), (12000, BufferRole.LOCAL)],
)
def test_where_a_row_is_kept(width: int, role: BufferRole) -> None:
    """In registers if there are enough, else in memory of the thread."""
    kernel = check(keeping(width), scale=100) if width < 1000 else scheduled(keeping(width))
    assert {role} == {b.role for b in kernel.buffers if b.name.startswith(("row", "kept"))}


def backwards(rows: int, n: int) -> Kernel:
    """out[i, j] = exp(x[i, n - 1 - j]) / sum(exp(x[i])), with the exponentials of a row kept."""
    b = LoopBuilder("k")
    x = b.buffer("p0", F32, rows * n, BufferRole.OPERAND)
    out = b.buffer("out0", F32, rows * n, BufferRole.OUTPUT)
    kept = b.buffer("kept", F32, n, BufferRole.LOCAL)
    i, _ = b.open_loop(rows, independent=True)
    j, (total,) = b.open_loop(n, inits=[b.constant(F32, 0)], may_vectorize=True)
    value = b.compute(Opcode.EXPONENTIAL, F32, (b.load(x, i * n + j),))
    b.store(kept, j, (value,))

    def add(x: list[Value], y: list[Value]) -> list[Value]:
        return [b.compute(Opcode.ADD, F32, (x[0], y[0]))]

    combiner = b.combiner([F32], add)
    (total,) = b.close_loop(add([total], [value]), combiner, [np.float32(-0.0)])
    j, _ = b.open_loop(n, independent=True)
    read = b.load(kept, constant(n - 1) - j, mutable=True)
    b.store(out, i * n + j, (b.compute(Opcode.DIVIDE, F32, (read, total)),))
    b.close_loop()
    b.close_loop()
    Schedules(ARCHITECTURES["sm_90"], verify=True).kernel(b.kernel)
    return b.kernel


@pytest.mark.parametrize(("rows", "n"), [(3, 20), (3, 300), (1, 64), (5, 2000)])
def test_elements_of_other_threads(rows: int, n: int) -> None:
    """They are in shared memory, behind a barrier: without it, that is a race."""
    kernel = backwards(rows, n)
    assert [b.size for b in kernel.buffers if b.name.startswith("row")] == [n]
    x = np.random.default_rng(0).uniform(-1, 1, (rows, n)).astype(np.float32)
    shape = Shape.array(F32, (rows, n))
    (got,) = run_kernel(kernel, [x], [shape])
    want = np.exp(x)[:, ::-1] / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for body, where in [*barriers(kernel.stages)]:
        del body[where]
    with pytest.raises(RaceError, match="nothing orders the two"):
        run_kernel(kernel, [x], [shape])


def test_a_row_that_shared_memory_does_not_hold() -> None:
    """One thread has a row then."""
    kernel = backwards(3, 20000)
    assert all(b.role is not BufferRole.SHARED for b in kernel.buffers)


def test_a_result_in_the_memory_of_an_operand() -> None:
    """What is read of it elsewhere in the row is read before a barrier."""
    r = Rows((40, 40), (0, 1))
    x = r.parameter(0)
    turned = r.line(r.full, f"transpose({x}), dimensions={{1,0}}")
    total = r.reduce(r.of_full("multiply", x, turned), "add")
    kernel = scheduled(r.text((r.full, r.of_full("subtract", x, r.spread(total)))))
    x = np.random.default_rng(0).uniform(-1, 1, 1600).astype(np.float32)
    want = x - (x.reshape(40, 40) * x.reshape(40, 40).T).sum()
    operand, output = (
        next(b for b in kernel.buffers if b.role is role)
        for role in (BufferRole.OPERAND, BufferRole.OUTPUT)
    )
    Interpreter(kernel, memory={operand: x, output: x}).run()
    np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-4)


@NEEDS_PTXAS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_suffice(architecture: str) -> None:
    """Nothing of what is kept in registers goes through memory of the thread."""
    texts = [softmax((4096, n), (1,)) for n in (128, 1000, 4096, 16384)]
    texts += [softmax((16, 64, 130), (1,)), layer_norm((4096, 1024), (1,)), keeping(512)]
    for found in check_assembles(map(scheduled, texts), architecture).values():
        assert found.spill_stores == found.spill_loads == found.stack == 0


def test_values_per_row_and_per_element() -> None:
    r = Rows((40, 260), (1,))
    x, y = r.parameter(0), r.parameter(1)
    scale = r.of_row("tanh", r.reduce(x, "max"))
    shifted = r.of_full("multiply", r.of_full("add", x, y), r.spread(scale))
    total = r.reduce(shifted, "add")
    kernel = check(r.text((r.full, shifted), (r.row, total), (r.row, scale)), scale=100)
    assert launches(kernel) == 1


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int) -> None:
    module = parse_module(random_rows(seed))
    check_emulated(module, arguments_of(module, seed), scale=200)


def test_output_takes_the_memory_of_a_donated_argument() -> None:
    """No thread writes what another one may still read."""
    donated = "HloModule rows, input_output_alias={ {0}: (0, {}, may-alias) }"
    for dims in ((64, 256), (64, 250), (61, 100), (61, 31)):
        check(softmax(dims, (1,)).replace("HloModule rows", donated))


def test_few_rows_of_a_vector() -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    module = parse_module(softmax((1, 1000), (1,)))
    check_emulated(module, [x.reshape(1, -1)])


@pytest.mark.parametrize("columns", [2, 10, 96, 1000])
def test_a_softmax_is_one_launch_whatever_its_rows(columns):
    """A launch saved is worth more than threads that rest."""
    n = f"f32[256,{columns}]"
    text = f"""HloModule softmax
max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{ x = {n} parameter(0)  low = f32[] constant(-inf)  zero = f32[] constant(0)
  m = f32[256] reduce(x, low), dimensions={{1}}, to_apply=max
  ms = {n} broadcast(m), dimensions={{0}}  d = {n} subtract(x, ms)  y = {n} exponential(d)
  s = f32[256] reduce(y, zero), dimensions={{1}}, to_apply=add
  ss = {n} broadcast(s), dimensions={{0}}  ROOT r = {n} divide(y, ss) }}"""
    module = xla_backend.parse_hlo(text)
    executable = xla_backend.compile(module, "gpu_emulator", CompileOptions(verify=True))
    assert len(executable.loaded.plan.program.steps) == 1
    x = np.random.default_rng(0).standard_normal((256, columns), np.float32)
    expected = xla_backend.evaluate(module, [x])[0]
    np.testing.assert_allclose(executable.execute([x])[0], expected, rtol=1e-5)
