"""What the LLVM text of kernels computes: run by threads of this process, it gives what the kernel
interpreter gives."""

import numpy as np
import pytest
from code_checks import Threads
from native_checks import arguments_of, assert_close, module_of, random_argument
from opcode_programs import ALL, PROGRAMS
from scheduled_checks import TINY, scheduled
from thread_runs import TILES, Runner

from tests.sampling import sampled
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import Interpreter, run_kernel
from xla_backend.kernels.ir import BufferRole, Kernel, LoopKind, ShuffleMode
from xla_backend.kernels.matrix_tiles import LAYOUTS
from xla_backend.targets.gpu.compiler import plan_program

ADD = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
MAX = """c { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2)
  j = s32[] parameter(3) p = pred[] compare(a, b), direction=GE
  v = f32[] select(p, a, b) k = s32[] select(p, i, j) ROOT r = (f32[], s32[]) tuple(v, k) }"""

# HLO, called computations.
SCHEDULED = {
    "map": ("x = f32[7,50] parameter(0)\n ROOT r = f32[7,50] tanh(x)", ""),
    "vectors": ("x = f32[4,64] parameter(0)\n ROOT r = f32[4,64] exponential(x)", ""),
    "bytes": ("x = s8[5,33] parameter(0)\n ROOT r = s8[5,33] multiply(x, x)", ""),
    "halves": ("x = f16[5,40] parameter(0)\n ROOT r = f16[5,40] sine(x)", ""),
    "doubles": ("x = f64[100] parameter(0)\n ROOT r = f64[100] logistic(x)", ""),
    "complex": ("x = c64[9,10] parameter(0)\n ROOT r = c64[9,10] multiply(x, x)", ""),
    "predicates": (
        "x = f32[70] parameter(0)\n y = f32[70] parameter(1)\n"
        "ROOT r = pred[70] compare(x, y), direction=LT",
        "",
    ),
    "remainder": (
        "x = f32[70] parameter(0)\n y = f32[70] parameter(1)\n ROOT r = f32[70] remainder(x, y)",
        "",
    ),
    "transpose": ("x = f32[40,50] parameter(0)\n ROOT r = f32[50,40] transpose(x), "
                  "dimensions={1,0}", ""),
    "pad": ("x = f32[6,7] parameter(0)\n z = f32[] parameter(1)\n"
            "ROOT r = f32[9,12] pad(x, z), padding=2_1x1_4", ""),
    "rows": ("x = f32[3,300] parameter(0)\n z = f32[] parameter(1)\n"
             "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=c", ADD),
    "columns": ("x = f32[60,40] parameter(0)\n z = f32[] parameter(1)\n"
                "ROOT r = f32[40] reduce(x, z), dimensions={0}, to_apply=c", ADD),
    "largest": ("x = f32[5,70] parameter(0)\n i = s32[5,70] parameter(1)\n z = f32[] parameter(2)\n"
                "k = s32[] parameter(3)\n"
                "ROOT r = (f32[5], s32[5]) reduce(x, i, z, k), dimensions={1}, to_apply=c", MAX),
    "gather": ("x = f32[40,20] parameter(0)\n i = s32[25] parameter(1)\n"
               "ROOT r = f32[25,20] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},"
               "start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}", ""),
    "scatter": ("x = f32[9,17] parameter(0)\n i = s32[6,1] parameter(1)\n"
                "u = f32[6,17] parameter(2)\n ROOT r = f32[9,17] scatter(x, i, u),"
                "update_window_dims={1}, inserted_window_dims={0},"
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c", ADD),
    "window": ("x = f32[4,90] parameter(0)\n z = f32[] parameter(1)\n"
               "ROOT r = f32[4,88] reduce-window(x, z), window={size=1x3}, to_apply=c", ADD),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULED)
def test_scheduled_kernels(name) -> None:
    body, called = SCHEDULED[name]
    module = module_of(body, called)
    kernel = scheduled(body, called, TINY)
    arguments = arguments_of(module)
    check(kernel, arguments, module.entry.root.shape.flatten())


def check(kernel: Kernel, arguments, shapes) -> None:
    want = run_kernel(kernel, arguments, shapes)
    got = Runner(kernel)(arguments)
    for g, w, shape in zip(got, want, shapes, strict=True):
        typed = g.view(shape.element_type.numpy_dtype).reshape(shape.dimensions)
        assert_close(typed, w, shape.element_type)


def check_built(kernel: Kernel, operands) -> None:
    """Kernels that move or add whole numbers: equal bits."""
    interpreter = Interpreter(kernel, operands)
    for got, want in zip(Runner(kernel)(operands), interpreter.run(), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("type", [P.F32, P.S8, P.S64, P.PRED], ids=str)
@pytest.mark.parametrize("width", [4, 32])
@pytest.mark.parametrize("mode", ShuffleMode)
def test_shuffles(mode, width, type) -> None:
    with Threads(blocks=1, threads=64) as t:
        value = t.b.load(t.operand(type, 64), t.here)
        t.b.store(t.output(type, 64), t.here, [t.b.shuffle(value, mode, 3, width)])
    x = np.random.default_rng(0).integers(0, 100, 64) % (2 if type is P.PRED else 100)
    check_built(t.kernel, [x.astype(type.numpy_dtype)])


def test_shuffles_of_lanes() -> None:
    with Threads(blocks=1, threads=2) as t:
        source, target = t.operand(P.S32, 16), t.output(P.S32, 16)

        def body(lane: Index) -> None:
            value = t.b.load(source, t.thread * 8 + lane)
            value = t.b.shuffle(value, ShuffleMode.XOR, 1, 4)
            t.b.store(target, t.thread * 8 + lane, [t.b.shuffle(value, ShuffleMode.UP, 1, 4)])

        t.lanes(8, body)
    check_built(t.kernel, [np.arange(16, dtype=np.int32)])


def test_blocks_exchange_elements() -> None:
    with Threads(blocks=3, threads=64) as t:
        source, target = t.operand(P.S32, 192), t.output(P.S32, 192)
        shared, other = t.shared(P.S8, 3), t.shared(P.S32, 64)
        t.b.store(shared, t.thread % 3, [t.b.constant(P.S8, 7)], t.b.in_range(t.thread, 0, 3))
        t.b.store(other, t.thread, [t.b.load(source, t.here)])
        t.b.barrier()
        value = t.b.load(other, t.thread * -1 + 63, mutable=True)
        seven = t.b.load(shared, t.thread % 3, mutable=True)
        seven = t.b.compute(Opcode.CONVERT, P.S32, [seven])
        t.b.store(target, t.here, [t.b.compute(Opcode.ADD, P.S32, [value, seven])])
    check_built(t.kernel, [np.arange(192, dtype=np.int32)])


ATOMICS = [
    (P.S32, Opcode.ADD), (P.U32, Opcode.MAXIMUM), (P.S64, Opcode.MINIMUM), (P.S8, Opcode.ADD),
    (P.U8, Opcode.MAXIMUM), (P.S16, Opcode.MINIMUM), (P.PRED, Opcode.OR), (P.F32, Opcode.ADD),
    (P.F32, Opcode.MAXIMUM), (P.F64, Opcode.MINIMUM), (P.F16, Opcode.MAXIMUM),
]  # fmt: skip


@pytest.mark.parametrize(("type", "opcode"), ATOMICS, ids=str)
def test_atomics(type, opcode) -> None:
    """Threads of two blocks update few elements, some of them under a guard."""
    with Threads(blocks=2, threads=64) as t:
        value = t.b.load(t.operand(type, 128), t.here)
        target = t.output(type, 5)
        first = t.operand(type, 5)
        t.kernel.in_place[0] = 1
        assert first.number == 1
        t.b.atomic(target, t.here % 5, opcode, value, t.b.in_range(t.thread, 0, 50))
    rng = np.random.default_rng(0)
    limit = 2 if type is P.PRED else 9
    x, y = (rng.integers(0, limit, n).astype(type.numpy_dtype) for n in (128, 5))
    if type.is_floating and opcode is not Opcode.ADD:
        x[7] = np.nan
    check_built(t.kernel, [x, y])


def test_lanes_under_conditions() -> None:
    """Some lanes of a loop, sums that they carry, and what they add up to."""
    with Threads(blocks=1, threads=8) as t:
        source, target = t.operand(P.S32, 200), t.output(P.S32, 8 * 4)
        local = t.buffer(BufferRole.LOCAL, P.S32, 4)

        def body(lane: Index) -> None:
            zero = t.b.constant(P.S32, 0)
            t.b.store(local, lane, [zero])
            i, (phi,) = t.b.open_loop(6, inits=[zero])
            at = t.thread * 24 + i * 4 + lane
            t.b.open_if(at, 3, 150, [phi])
            value = t.b.load(source, at)
            (inside,) = t.b.close_if([t.b.compute(Opcode.ADD, P.S32, [phi, value])])
            (total,) = t.b.close_loop([inside])
            t.b.store(local, lane, [total])

        t.lanes(4, body)
        with t.b.loop(4, LoopKind.UNROLLED) as j:
            t.b.store(target, t.thread * 4 + j, [t.b.load(local, j, mutable=True)])
    check_built(t.kernel, [np.arange(200, dtype=np.int32)])


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_matrix_tiles(tile) -> None:
    """Two warps multiply factors as they lie in memory, whole numbers whose sums are exact."""
    registers = LAYOUTS[tile.shape].registers
    counts = registers["lhs"], registers["rhs"], registers["sum"]
    with Threads(blocks=1, threads=64) as t:
        parts = []
        for count, type in zip(counts, (tile.factors, tile.factors, tile.sums)):
            source = t.operand(type, 64 * count)
            parts.append([t.b.load(source, t.thread * count + i) for i in range(count)])
        results = t.b.matrix_tile(tile.shape, *parts)
        target = t.output(tile.sums, 256)
        for i, result in enumerate(results):
            t.b.store(target, t.thread * 4 + i, [result])
    rng = np.random.default_rng(0)
    types = (tile.factors, tile.factors, tile.sums)
    operands = [
        rng.integers(-4, 5, 64 * count).astype(type.numpy_dtype)
        for count, type in zip(counts, types)
    ]
    check_built(t.kernel, operands)


# -- all operations --------------------------------------------------------------------------------


DOT = """x = {t}[{m},{k}] parameter(0)
  y = {t}[{k},{n}] parameter(1)
  ROOT r = {r}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
PLANNED = {
    "f16-product": DOT.format(t="f16", r="f16", m=64, k=32, n=64),
    "bf16-product": DOT.format(t="bf16", r="f32", m=40, k=48, n=24),
    "f32-product": DOT.format(t="f32", r="f32", m=64, k=64, n=32),
    "s8-product": DOT.format(t="s8", r="s32", m=32, k=64, n=40),
    "f64-product": DOT.format(t="f64", r="f64", m=20, k=30, n=20),
    "matrix-vector": DOT.format(t="f32", r="f32", m=4, k=200, n=1),
    "convolution": """x = f32[1,8,8,16] parameter(0)
      w = f32[3,3,16,8] parameter(1)
      ROOT c = f32[1,8,8,8] convolution(x, w), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f""",
    "softmax": """x = f32[6,200] parameter(0)
      z = f32[] constant(0)
      e = f32[6,200] exponential(x)
      s = f32[6] reduce(e, z), dimensions={1}, to_apply=c
      b = f32[6,200] broadcast(s), dimensions={0}
      ROOT r = f32[6,200] divide(e, b)""",
    "sort": "x = f32[3,100] parameter(0)\n ROOT r = f32[3,100] sort(x), dimensions={1}, "
    "to_apply=less",
    "sums": """x = f32[2,300] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[2,300] reduce-window(x, z), window={size=1x300 pad=0_0x299_0}, to_apply=c""",
}
LESS = """less { a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }"""


SLOW = {"convolution": pytest.mark.slow}  # many blocks


@sampled("name", [pytest.param(n, marks=SLOW.get(n, ())) for n in PLANNED], every=2)
def test_planned_programs(name) -> None:
    check_program(module_of(PLANNED[name], ADD + LESS), -3.0, 3.0, 10.0)  # sums of 64 products


@pytest.mark.slow
@pytest.mark.parametrize("type", ALL, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_opcode(name, type) -> None:
    program = PROGRAMS[name]
    if type not in program.types:
        return
    # There is no negative number in this type.
    low = max(program.low, 0.3) if type is P.F8E8M0FNU else program.low
    check_program(parse_module(program.text(type)), low, program.high, 4 * program.scale)


def check_program(module: HloModule, low: float, high: float, scale: float) -> None:
    """The kernels of a program, one by one, on arrays of their own."""
    kernels = plan_program(module, CompileOptions()).program.kernels
    for kernel in kernels.values():
        rng = np.random.default_rng(0)
        operands = {
            b.number: random_argument(Shape.array(b.element_type, (b.size,)), rng, low, high)
            for b in kernel.buffers
            if b.role is BufferRole.OPERAND
        }
        given = [operands.get(n, np.zeros(1)) for n in range(max(operands, default=-1) + 1)]
        outputs = [b for b in kernel.buffers if b.role is BufferRole.OUTPUT]
        want = Interpreter(kernel, [x.copy() for x in given]).run()
        got = Runner(kernel)(given)
        for g, w, b in zip(got, want, sorted(outputs, key=lambda b: b.number), strict=True):
            assert_close(g, w, b.element_type, scale)
