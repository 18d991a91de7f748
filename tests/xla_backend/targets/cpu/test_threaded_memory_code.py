"""Kernels that load and store in all ways, as threaded and as optimised code: the same bits, and
nothing beside the arrays is touched."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_codes import check_same
from native_checks import module_of, random_argument

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.compiler import stages_of
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables

TYPES = [P.PRED, P.U4, P.S8, P.F8E4M3FN, P.BF16, P.F16, P.F32, P.F64, P.C64]
OTHERS = [t for t in P if t.is_array and t not in TYPES]


def arrays(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    """Values for the operands of a kernel."""
    rng = np.random.default_rng(seed)
    made = {
        b.number: random_argument(Shape(b.element_type, (b.size,)), rng)
        for b in kernel.buffers
        if b.role is BufferRole.OPERAND
    }
    return [made.get(i, np.zeros(1)) for i in range(max(made, default=-1) + 1)]


INTEGERS = (P.S32, P.S64)
# What is done with `t[37,50]`, at t[50,37] or so many elements.
PROGRAMS = {
    "neighbours": "ROOT r = {t}[37,50] select(c, x, y)",
    "reversed": """z = {t}[37,50] reverse(x), dimensions={{0,1}}
      ROOT r = {t}[37,50] select(c, z, y)""",
    "strided": """a = {t}[37,17] slice(x), slice={{[0:37],[1:50:3]}}
      b = {t}[37,17] slice(y), slice={{[0:37],[0:49:3]}}
      d = pred[37,17] slice(c), slice={{[0:37],[0:49:3]}}
      ROOT r = {t}[37,17] select(d, a, b)""",
    "turned": """z = {t}[50,37] transpose(x), dimensions={{1,0}}
      a = {t}[50,37] reshape(y)
      d = pred[50,37] reshape(c)
      ROOT r = {t}[50,37] select(d, z, a)""",
    "padded": """k = {t}[] constant({one})
      z = {t}[60,75] pad(x, k), padding=3_4_1x-5_30
      a = {t}[60,75] pad(y, k), padding=23_0x0_25
      d = pred[60,75] broadcast(e), dimensions={{0}}
      ROOT r = {t}[60,75] select(d, z, a)""",
    "joined": """z = {t}[74,50] concatenate(x, y), dimensions={{0}}
      ROOT r = {t}[50,74] transpose(z), dimensions={{1,0}}""",
    "spread": """z = {t}[37] slice(f), slice={{[2:39]}}
      a = {t}[37,50] broadcast(z), dimensions={{0}}
      ROOT r = {t}[37,50] select(c, a, y)""",
    "few": """a = {t}[3] slice(f), slice={{[0:3]}}
      b = {t}[3] slice(f), slice={{[4:7]}}
      d = pred[3] slice(e), slice={{[5:8]}}
      ROOT r = {t}[3] select(d, a, b)""",
    "one": """a = {t}[1] slice(f), slice={{[3:4]}}
      b = {t}[1] slice(f), slice={{[4:5]}}
      d = pred[1] slice(e), slice={{[5:6]}}
      ROOT r = {t}[1] select(d, a, b)""",
    "gathered": """z = {t}[20,50] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,50}}
      a = {t}[20,50] slice(y), slice={{[0:20],[0:50]}}
      d = pred[20,50] slice(c), slice={{[1:21],[0:50]}}
      ROOT r = {t}[20,50] select(d, z, a)""",
    "gathered one by one": """z = {t}[20] gather(f, i), offset_dims={{}},
        collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
      a = {t}[20] slice(f), slice={{[0:20]}}
      d = pred[20] slice(e), slice={{[1:21]}}
      ROOT r = {t}[20] select(d, z, a)""",
    "scattered": """ROOT r = {t}[75] scatter(f, i, g), update_window_dims={{}},
        inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
        to_apply=second""",
}  # fmt: skip
SECOND = """second {{
  p = {t}[] parameter(0)
  ROOT q = {t}[] parameter(1)
}}"""
PARAMETERS = """x = {t}[37,50] parameter(0)
  y = {t}[37,50] parameter(1)
  c = pred[37,50] parameter(2)
  e = pred[60] parameter(3)
  f = {t}[75] parameter(4)
  g = {t}[20] parameter(5)
  i = s32[20,1] parameter(6)
  """


def check(what: str, t: P) -> None:
    one = "(1, 0)" if t.is_complex else "true" if t is P.PRED else "0" if t is P.S1 else "1"
    words = {"t": t.value, "one": one}
    body = (PARAMETERS + PROGRAMS[what]).format(**words)
    called = SECOND.format(**words) if what == "scattered" else ""
    kernels = stages_of(module_of(body, called), CompileOptions()).program.kernels
    assert kernels
    for kernel in kernels.values():
        check_same(kernel, arrays(kernel))


@pytest.mark.parametrize("what", PROGRAMS)
def test_types(what: str) -> None:
    # A tile is code for each row: of each width, and of one that is converted.
    few = (P.U4, P.F16, P.F32, P.C64) if what in ("turned", "joined") else TYPES
    for t in few:
        check(what, t)


@pytest.mark.slow
@pytest.mark.parametrize("what", PROGRAMS)
def test_other_types(what: str) -> None:
    for t in OTHERS:
        check(what, t)


def test_signalling_nans_are_moved_as_they_are() -> None:
    """Of f16, which is computed with in f32: only what is computed makes them quiet ones."""
    b = LoopBuilder("k")
    x = b.buffer("x", P.F16, 33, BufferRole.OPERAND)
    y = b.buffer("y", P.F16, 33, BufferRole.OUTPUT)
    with b.loop(2) as i, b.loop(16, LoopKind.LANES) as lane:
        b.store(y, i * 16 + lane, [b.load(x, i * 16 + lane)])
    b.store(y, constant(32), [b.load(x, constant(32))])
    bits = np.arange(0x7BF0, 0x7BF0 + 33, dtype=np.uint16)  # infinity is 0x7C00
    (_, got) = check_same(b.kernel, [bits.view(np.float16)])
    if host_target().has_half:
        np.testing.assert_array_equal(got.view(np.uint16), bits)


# What neighbouring lanes access.
WAYS = {
    "neighbours": lambda i, lane, lanes, known: i * 2 + lane + 1,
    "the other way round": lambda i, lane, lanes, known: i - lane + lanes,
    "apart": lambda i, lane, lanes, known: i + lane * 3,
    "every second": lambda i, lane, lanes, known: i + lane * 2,
    "the same": lambda i, lane, lanes, known: i + 3,
    "a pattern": lambda i, lane, lanes, known: (lane + 3) % lanes + i,
    "anywhere": lambda i, lane, lanes, known: Index.of(known[0]),
    "anywhere in 64 bits": lambda i, lane, lanes, known: Index.of(known[1]),
}
LANES_OF_TYPES = [
    *[(t, 16) for t in (P.PRED, P.U4, P.S8, P.BF16, P.F16, P.F32, P.F64)],
    *[(P.F32, lanes) for lanes in (4, 8, 64)],
    (P.PRED, 4),
    (P.S64, 8),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("t", "lanes"), LANES_OF_TYPES, ids=str)
def test_lanes_of_masks_and_guards(t: P, lanes: int, way: str) -> None:
    """What is beyond the arrays is not read nor written where a condition keeps it out."""
    b = LoopBuilder("k")
    size = 3 * lanes + 4
    x = b.buffer("x", t, size, BufferRole.OPERAND)
    holds = b.buffer("holds", P.PRED, size, BufferRole.OPERAND, 1)
    indices = [
        b.buffer(f"at{n}", w, lanes, BufferRole.OPERAND, 2 + n) for n, w in enumerate(INTEGERS)
    ]
    outputs: list[Buffer] = []

    def output() -> Buffer:
        number = len(outputs)
        outputs.append(b.buffer(f"y{number}", t, size, BufferRole.OUTPUT, number))
        return outputs[-1]

    with b.loop(2) as i:
        same = b.load(holds, i + 3)
        with b.loop(lanes, LoopKind.LANES) as lane:
            some = b.load(holds, i + lane)
            known = [b.load(buffer, lane) for buffer in indices]
            for value in known:
                value.bounds = 0, size - 1
            at = WAYS[way](i, lane, lanes, known)
            for masked in (False, True):
                if masked:
                    b.open_if(i + lane, 1, lanes - 1)
                for guard in (None, same, some):
                    value = b.load(x, at, guard)
                    b.store(output(), at, [value], guard)
                    b.store(output(), lane, [value])
                if masked:
                    b.close_if()
    for seed in range(3):
        rng = np.random.default_rng([lanes, seed])
        given = [
            random_argument(Shape(t, (size,)), rng),
            rng.random(size) < (0.5, 0.0, 1.0)[seed],
            *[rng.integers(0, size, lanes).astype(w.numpy_dtype) for w in INTEGERS],
        ]
        check_same(b.kernel, given)


@pytest.mark.parametrize("lanes", [2, 8, 16, 32])
@pytest.mark.parametrize("t", [P.PRED, P.BF16, P.F32, P.F64], ids=str)
def test_nothing_beyond_arrays_is_touched(t: P, lanes: int) -> None:
    """The first half of the lanes is all there is: the page behind it is none of the process."""
    half = lanes // 2
    b = LoopBuilder("k")
    x = b.buffer("x", t, half, BufferRole.OPERAND)
    y = [b.buffer(f"y{n}", t, half, BufferRole.OUTPUT, n) for n in range(5)]
    with b.loop(lanes, LoopKind.LANES) as lane:
        inside = b.in_range(lane, 0, half)
        assert not isinstance(inside, bool)
        b.store(y[0], lane, [b.load(x, lane, inside)], inside)
        b.store(y[1], lane * -1 + (half - 1), [b.load(x, lane * -1 + (half - 1), inside)], inside)
        b.open_if(lane, 0, half)
        b.store(y[2], lane, [b.load(x, lane)])
        b.store(y[3], lane * -1 + (half - 1), [b.load(x, lane * -1 + (half - 1))])
        b.close_if()
        b.open_if(lane, 0, (half + 1) // 2)
        b.store(y[4], lane * 2, [b.load(x, lane * 2)])
        b.close_if()
    check_same(b.kernel, [random_argument(Shape(t, (half,)), np.random.default_rng(lanes))])


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("t", [P.C64, P.C128], ids=str)
def test_pairs_to_the_end_of_arrays(t: P, lanes: int) -> None:
    """Real and imaginary parts, of which nothing beyond the last is read."""
    b = LoopBuilder("k")
    real = P.F32 if t is P.C64 else P.F64
    x = b.buffer("x", t, lanes, BufferRole.OPERAND)
    y = [b.buffer(f"y{n}", t, lanes, BufferRole.OUTPUT, n) for n in range(3)]
    back = 2 * (lanes - 1)
    with b.loop(lanes, LoopKind.LANES) as lane:
        parts = [b.load(x, lane * 2 + i) for i in range(2)]
        b.store(y[0], lane * 2, parts)
        b.store(y[1], lane * 2, parts[::-1])
        b.store(y[2], lane * -2 + back, [b.load(x, lane * -2 + back + i) for i in range(2)])
    values = random_argument(Shape(t, (lanes,)), np.random.default_rng(lanes))
    got = [
        array.view(values.dtype) for array in check_same(b.kernel, [values.view(real.numpy_dtype)])
    ]
    np.testing.assert_array_equal(got[1], values)
    np.testing.assert_array_equal(got[2], values.imag + 1j * values.real)
    np.testing.assert_array_equal(got[3], values)


def test_places_that_are_further_apart_than_tables_hold() -> None:
    """Only the code is made: the array has 24 GiB."""
    b = LoopBuilder("k")
    far = 3 << 30
    x = b.buffer("x", P.BF16, far + 8, BufferRole.OPERAND)
    y = b.buffer("y", P.BF16, 16, BufferRole.OUTPUT)
    with b.loop(16, LoopKind.LANES) as lane:
        b.store(y, lane, [b.load(x, lane // 8 * far + lane % 8)])
    asm = Assembler()
    KernelTables(asm, host_target()).stages(b.kernel)
    assert "pyjax_threaded_gather.2.i64" in asm.symbols
    assert not any(name.startswith("pyjax_threaded_gather.2.table") for name in asm.symbols)
