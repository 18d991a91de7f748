"""Rounds of loops that threaded code runs some at a time: the bits of optimised code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_codes import check_same
from native_checks import module_of, random_argument

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import Buffer, BufferRole, Loop, LoopKind
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.compiler import stages_of
from xla_backend.targets.cpu.threaded import loop_code
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables
from xla_backend.targets.cpu.threaded.strips import (
    folds_of,
    interior_of,
    loads_of_operands,
    needs_of,
    rounds_at_once,
    update_of,
)

REDUCERS = "\n".join(
    f"{op}_{t} {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] {op}(a, b) }}"
    for op in ("add", "multiply", "maximum", "minimum")
    for t in ("f32", "f64", "s32", "u32", "s64", "bf16")
)
MAPS = {
    "f32": """x = f32[{n}] parameter(0)  y = f32[{n}] parameter(1)
      m = f32[{n}] multiply(x, y)  e = f32[{n}] exponential(m)  a = f32[{n}] add(e, x)
      c = pred[{n}] compare(a, y), direction=LT  ROOT s = f32[{n}] select(c, a, m)""",
    "f64": """x = f64[{n}] parameter(0)  y = f64[{n}] parameter(1)
      m = f64[{n}] multiply(x, y)  ROOT a = f64[{n}] add(m, x)""",
    "mixed": """x = bf16[{n}] parameter(0)  y = s32[{n}] parameter(1)  w = f32[{n}] convert(x)
      z = f32[{n}] convert(y)  m = f32[{n}] multiply(w, z)  d = f64[{n}] convert(m)
      r = f64[{n}] sqrt(d)  c = pred[{n}] compare(m, z), direction=GT
      b = bf16[{n}] convert(r)  ROOT t = (bf16[{n}], pred[{n}]) tuple(b, c)""",
    "shifted": """x = f32[{n}] parameter(0)  k = f32[] constant(2)
      p = f32[{n}] pad(x, k), padding=-3_3  q = f32[{n}] reverse(x), dimensions={{0}}
      s = f32[{n}] add(p, q)  ROOT d = f32[{n}] subtract(s, x)""",
    "numbered": """x = f32[{n}] parameter(0)  i = s32[{n}] iota(), iota_dimension=0
      f = f32[{n}] convert(i)  ROOT m = f32[{n}] multiply(f, x)""",
}
ROWS = {
    "sum": "ROOT r = {t}[{m}] reduce(x, z), dimensions={{1}}, to_apply=add_{t}",
    "columns": "ROOT r = {t}[{n}] reduce(x, z), dimensions={{0}}, to_apply=maximum_{t}",
    "centred": """k = {t}[{m}] reduce(x, z), dimensions={{1}}, to_apply=maximum_{t}
      b = {t}[{m},{n}] broadcast(k), dimensions={{0}}  d = {t}[{m},{n}] subtract(x, b)
      q = {t}[{m},{n}] multiply(d, d)
      ROOT r = {t}[{m}] reduce(q, z), dimensions={{1}}, to_apply=add_{t}""",
    "product": "ROOT r = {t}[{m}] reduce(x, z), dimensions={{1}}, to_apply=multiply_{t}",
}


@pytest.fixture
def strips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rounds are run at once, of each loop of which some are: of all that have a form for
    that."""
    monkeypatch.setattr(loop_code, "_MANY", 1)
    monkeypatch.setattr(loop_code, "_ALONE_AT_ONCE", 16)
    found: list[int] = []
    write: Callable = loop_code.LoopCode._rounds_at_once

    def recorded(self: loop_code.LoopCode, rounds: object, strip: loop_code._Strip) -> None:
        found.append(strip.rounds)
        write(self, rounds, strip)

    monkeypatch.setattr(loop_code.LoopCode, "_rounds_at_once", recorded)
    return found


def check(body: str, **sizes: object) -> None:
    """That all kernels of a program leave the same bits."""
    kernels = stages_of(module_of(body.format(**sizes), REDUCERS), CompileOptions()).program.kernels
    assert kernels
    rng = np.random.default_rng(0)
    for kernel in kernels.values():
        made = {
            b.number: random_argument(Shape(b.element_type, (b.size,)), rng)
            for b in kernel.buffers
            if b.role is BufferRole.OPERAND
        }
        check_same(kernel, [made.get(i, np.zeros(1)) for i in range(max(made, default=-1) + 1)])


@pytest.mark.parametrize("size", [511, 1_000, 4_096, 70_001])
@pytest.mark.parametrize("what", MAPS)
def test_elementwise(what: str, size: int, strips: list[int]) -> None:
    check(MAPS[what], n=size)
    assert strips, "nothing is run at once"


@pytest.mark.parametrize("t", ["f32", "f64", "s32", "bf16"])
@pytest.mark.parametrize("what", ROWS)
def test_what_rounds_carry(what: str, t: str, strips: list[int]) -> None:
    for m, n in ((7, 640), (3, 1_001), (64, 2_048)):
        begin = "x = {t}[{m},{n}] parameter(0)  z = {t}[] constant(1)  "
        check(begin + ROWS[what], t=t, m=m, n=n)
    assert strips or what == "columns"


@pytest.mark.parametrize("t", ["f32", "f64", "s32", "u32", "s64"])
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_updates(op: str, t: str, strips: list[int]) -> None:
    """Many of the same elements, and of none."""
    check(
        """x = {t}[19] parameter(0)  i = s32[1003] parameter(1)  u = {t}[1003] parameter(2)
        k = s32[] constant(23)  b = s32[1003] broadcast(k), dimensions={{}}
        j = s32[1003] remainder(i, b)  c = s32[1003,1] reshape(j)
        ROOT r = {t}[19] scatter(x, c, u), update_window_dims={{}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={op}_{t}""",
        t=t,
        op=op,
    )
    assert 16 in strips


def test_a_loop_that_ends_at_once(strips: list[int]) -> None:
    """Of the last block no rounds are left to be run at once, or none at all."""
    for size in (16_384 + 1, 16_384 + 33, 2 * 16_384 - 31):
        check(MAPS["f32"], n=size)
    assert strips


# -- what is no strip ------------------------------------------------------------------------------


def _in_place(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    """What the next round reads, this one writes."""
    b.store(y, 16 * i + lane + 16, [b.load(y, 16 * i + lane, mutable=True)])


def _by_round(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    """An element for each round."""
    b.store(y, 16 * i + lane, [b.load(x, i)])


def _further(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    """Rows with a gap between them."""
    b.store(y, 16 * i + lane, [b.load(x, 18 * i + lane)])


def _over(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    """The next round writes over what this one has written."""
    b.store(y, 16 * i + lane, [b.load(x, 16 * i + lane)])
    b.store(y, 16 * i + lane + 16, [b.load(x, 16 * i + lane + 1)])


def _by_quotient(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    b.store(y, 16 * i + lane, [b.load(x, (18 * i + lane) // 3)])


def _next_lanes(b: LoopBuilder, x: Buffer, y: Buffer, i: Index, lane: Index) -> None:
    """This is one: in place, by a quotient of neighbours, and numbers."""
    old = b.load(y, 16 * i + lane, mutable=True)
    third = b.load(x, (16 * i + lane) // 3)
    number = b.index_value(16 * i + lane, P.F32)
    total = b.compute(Opcode.ADD, P.F32, [b.compute(Opcode.ADD, P.F32, [old, third]), number])
    b.store(y, 16 * i + lane, [total])


@pytest.mark.parametrize(
    ("write", "is_one"),
    [
        (_in_place, False),
        (_by_round, False),
        (_further, False),
        (_over, False),
        (_by_quotient, False),
        (_next_lanes, True),
    ],
)
def test_rounds_that_go_on(write: Callable, is_one: bool, strips: list[int]) -> None:
    b = LoopBuilder("k")
    x = b.buffer("x", P.F32, 200, BufferRole.OPERAND)
    y = b.buffer("y", P.F32, 200, BufferRole.OUTPUT)
    with b.loop(9) as i, b.loop(16, LoopKind.LANES) as lane:
        write(b, x, y, i, lane)
    (loop,) = b.kernel.stages
    assert isinstance(loop, Loop)
    assert (interior_of(loop) is not None) is is_one
    check_same(b.kernel, [np.arange(200, dtype=np.float32)])
    assert bool(strips) is is_one


def test_an_update_of_what_the_loop_reads_is_none(strips: list[int]) -> None:
    """The index of a later round is what an earlier one has written."""
    b = LoopBuilder("k")
    y = b.buffer("y", P.S32, 64, BufferRole.OUTPUT)
    with b.loop(40) as i:
        at = b.load(y, i, mutable=True)
        bounded = b.compute(Opcode.AND, P.S32, [at, b.constant(P.S32, 63)], bounds=(0, 63))
        place = Index.of(bounded)
        old = b.load(y, place, mutable=True)
        b.store(y, place, [b.compute(Opcode.ADD, P.S32, [old, at])])
    (loop,) = [s for s in b.kernel.stages if isinstance(s, Loop)]
    assert update_of(loop) is None
    check_same(b.kernel, [])
    assert not strips


def test_what_is_used_last() -> None:
    """Slots are taken again behind the last use, but for what is kept."""
    b = LoopBuilder("k")
    x = b.buffer("x", P.F32, 16, BufferRole.OPERAND)
    with b.loop(16, LoopKind.LANES) as lane:
        first = b.load(x, lane)
        second = b.compute(Opcode.NEGATE, P.F32, [first])
        third = b.compute(Opcode.ADD, P.F32, [first, second])
        b.store(x, lane, [third])
    (loop,) = b.kernel.stages
    assert isinstance(loop, Loop)
    needs = needs_of(loop.body)
    assert needs.last == [[], [], [first, second], [third]]
    assert needs.lane_bytes == 12
    assert needs_of(loop.body, [second]).last == [[], [], [first], [third]]
    assert folds_of(loop, Var("other", 16, 1)) is None


@pytest.mark.parametrize(
    ("lane_bytes", "lanes", "rounds", "expected"),
    [(8, 32, 14, 14), (8, 32, 1, 1), (8, 64, 100, 7), (1 << 20, 32, 100, 1), (8, 8, 100, 50)],
)
def test_how_many_rounds(lane_bytes: int, lanes: int, rounds: int, expected: int) -> None:
    """All at once, where there are few; as many as slots and lanes allow."""
    assert rounds_at_once(lane_bytes, lanes, rounds) == expected


WINDOWS = {
    "pooled": """z = f32[] constant(0)
      ROOT r = f32[3,21,16] reduce-window(x, z), window={size=1x3x1 pad=0_0x1_1x0_0},
        to_apply=add_f32""",
    "behind": """z = f32[] constant(1)
      ROOT r = f32[3,20,16] reduce-window(x, z), window={size=1x5x1 pad=0_0x0_3x0_0},
        to_apply=maximum_f32""",
    "turned": """z = f32[] constant(0)  y = f32[3,21,16] reverse(x), dimensions={1}
      ROOT r = f32[3,21,16] reduce-window(y, z), window={size=1x3x1 pad=0_0x2_0x0_0},
        to_apply=add_f32""",
}


@pytest.mark.parametrize("what", WINDOWS)
def test_windows(what: str, strips: list[int]) -> None:
    """Rounds inside the borders, where all conditions hold, are run at once."""
    body = f"x = f32[3,21,16] parameter(0)  {WINDOWS[what]}"
    check(body.replace("{", "{{").replace("}", "}}"))
    assert strips or what == "turned"


@pytest.mark.parametrize("t", ["f32", "f64", "s32"])
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_operands_in_memory(op: str, t: str) -> None:
    """Either operand is read where it is, also if the result is carried."""
    b = LoopBuilder("k")
    type = P(t)
    x, w = (b.buffer(name, type, 300, BufferRole.OPERAND, n) for n, name in enumerate("xw"))
    y = b.buffer("y", type, 300, BufferRole.OUTPUT)
    opcode = Opcode(op)
    with b.loop(300 // 16) as i, b.loop(16, LoopKind.LANES) as lane:
        at = 16 * i + lane
        double = b.compute(Opcode.ADD, type, [b.load(x, at)] * 2)
        first = b.compute(opcode, type, [b.load(w, at), double])
        second = b.compute(opcode, type, [first, b.load(w, at + 3)])
        b.store(y, at, [second])
    asm = Assembler()
    KernelTables(asm, host_target()).stages(b.kernel)
    for number in range(2):
        assert f"pyjax_threaded_{op}.{t}.memory{number}" in asm.symbols
    rng = np.random.default_rng(1)
    arrays = [random_argument(Shape(type, (300,)), rng) for _ in range(2)]
    check_same(b.kernel, arrays, any_nan=True)


def test_loads_that_are_no_operands() -> None:
    """What is used twice, is kept, or may be written meanwhile, is loaded."""
    b = LoopBuilder("k")
    x = b.buffer("x", P.F32, 64, BufferRole.OPERAND)
    y = b.buffer("y", P.F32, 64, BufferRole.OUTPUT)
    with b.loop(16, LoopKind.LANES) as lane:
        twice, kept, late, one, other = (b.load(x, lane + n) for n in range(5))
        b.store(y, lane, [b.compute(Opcode.ADD, P.F32, [twice, twice])])
        b.store(y, lane + 16, [b.compute(Opcode.ADD, P.F32, [late, kept])])
        both = [b.load(x, lane + 5), b.load(x, lane + 6)]
        b.store(y, lane + 32, [b.compute(Opcode.ADD, P.F32, both)])
        b.store(y, lane + 48, [one, other])
    (loop,) = b.kernel.stages
    assert isinstance(loop, Loop)
    assert loads_of_operands(loop.body, [kept]) == {both[1]}
