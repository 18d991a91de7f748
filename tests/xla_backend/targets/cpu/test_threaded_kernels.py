"""Threaded code of kernels leaves the same bits in memory as optimised code of them."""

import numpy as np
import pytest

from tests.xla_backend.targets.cpu.kernel_codes import check_same
from xla_backend.codegen.operations import operation
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import (
    CONTRACTED,
    Barrier,
    Buffer,
    BufferRole,
    Compute,
    Kernel,
    Load,
    LoopKind,
    Value,
    walk,
)
from xla_backend.llvm.elemental import UnsupportedElementError
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.planned import plan_program
from xla_backend.targets.cpu.routines.library import group_of
from xla_backend.targets.cpu.routines.threaded_names import PREFIX
from xla_backend.targets.cpu.routines.threaded_operations import plain_name
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.carried import in_order, next_in_place
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables
from xla_backend.tools.fuzz.program import generate

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.5, -2.5, 2.0**31, 88.7, -104]
FLOATS = (P.F32, P.F64, P.F16, P.BF16)
INTEGERS = (P.S8, P.S16, P.S32, P.S64, P.U8, P.U16, P.U32, P.U64)
UNARY = {
    "float": "abs negate sign sqrt rsqrt cbrt floor ceil round-nearest-even round-nearest-afz "
    "exponential exponential-minus-one log log-plus-one logistic tanh sine cosine tan erf",
    "integer": "abs negate sign not popcnt count-leading-zeros",
}
BINARY = {
    "float": "add subtract multiply divide remainder maximum minimum power atan2",
    "integer": "add subtract multiply divide remainder maximum minimum and or xor shift-left "
    "shift-right-logical shift-right-arithmetic power",
}


def _data(t: P, size: int, rng: np.random.Generator) -> np.ndarray:
    dtype = t.numpy_dtype
    if t is P.PRED:
        return rng.integers(0, 2, size).astype(bool)
    if t.is_floating:
        numbers = rng.standard_normal(size) * 4
        special = rng.random(size) < 0.3
        numbers[special] = rng.choice(SPECIAL, special.sum())
        with np.errstate(all="ignore"):
            return numbers.astype(dtype)
    if t.bits < 8:
        return rng.integers(0, 2, size).astype(np.int8).astype(dtype)
    info = np.iinfo(dtype)
    numbers = rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
    numbers[::3] = rng.integers(0, 10, numbers[::3].size)
    numbers[::7] = info.max if rng.random() < 0.5 else info.min
    return numbers


def _operands(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    """Arrays for the operands; where what is read is a place, places that there are."""
    rng = np.random.default_rng(seed)
    by_number = {
        b.number: _data(b.element_type, b.size, rng)
        for b in kernel.buffers
        if b.role is BufferRole.OPERAND
    }
    for s in walk(kernel.stages):
        if isinstance(s, Load) and s.result.bounds and s.buffer.role is BufferRole.OPERAND:
            low, high = s.result.bounds
            places = rng.integers(low, high, s.buffer.size, endpoint=True)
            by_number[s.buffer.number] = places.astype(s.buffer.element_type.numpy_dtype)
    return [by_number.get(n, np.zeros(0, np.int8)) for n in range(1 + max(by_number, default=0))]


def _kernels(text: str) -> list[Kernel]:
    program = plan_program(parse_module(text), CompileOptions()).program
    return [k for k in program.kernels.values() if not k.parameters]


def _check(kernels: list[Kernel], seed: int = 0) -> None:
    assert kernels
    for kernel in kernels:
        check_same(kernel, _operands(kernel, seed), any_nan=True)


def _module(outputs: list[str], t: P, others: tuple[P, ...] = (), size: int = 53) -> str:
    """Functions of x and y, of one type, and of z0, z1 ... of others."""
    shape = f"[{size}]"
    types = (t, t, *others)
    names = ("x", "y", *[f"z{n}" for n in range(len(others))])
    lines = [
        f"{name} = {t.value}{shape} parameter({n})" for n, (name, t) in enumerate(zip(names, types))
    ]
    results = [line.split(" = ")[1].split(" ")[0] for line in outputs]
    roots = ", ".join(line.split(" = ")[0] for line in outputs)
    lines += [*outputs, f"ROOT r = ({', '.join(results)}) tuple({roots})"]
    return "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


@pytest.mark.parametrize("t", (*FLOATS, *INTEGERS), ids=str)
def test_elementwise_operations(t: P) -> None:
    """Whole vectors and what is left over, of every opcode."""
    family = "float" if t.is_floating else "integer"
    shape = f"{t.value}[53]"
    lines = [f"a{n} = {shape} {op}(x)" for n, op in enumerate(UNARY[family].split())]
    lines += [f"b{n} = {shape} {op}(x, y)" for n, op in enumerate(BINARY[family].split())]
    _check(_kernels(_module(lines, t)))


@pytest.mark.parametrize("t", (*FLOATS, P.S32, P.U8, P.U64, P.PRED), ids=str)
def test_comparisons_and_choices(t: P) -> None:
    directions = ("EQ", "NE", "LT", "LE", "GT", "GE")
    lines = [f"c{d} = pred[53] compare(x, y), direction={d}" for d in directions]
    lines.append(f"s = {t.value}[53] select(cLT, x, y)")
    if t is not P.PRED:
        lines.append(f"l = {t.value}[53] clamp(x, y, s)")
    _check(_kernels(_module(lines, t)))


@pytest.mark.parametrize("t", (P.PRED, *INTEGERS, *FLOATS), ids=str)
def test_conversions(t: P) -> None:
    others = [o for o in (P.PRED, *INTEGERS, *FLOATS) if o is not t]
    lines = [f"c{n} = {o.value}[53] convert(x)" for n, o in enumerate(others)]
    same = [o for o in others if o.bits == t.bits and t is not P.PRED and o is not P.PRED]
    lines += [f"b{n} = {o.value}[53] bitcast-convert(y)" for n, o in enumerate(same)]
    _check(_kernels(_module(lines, t)))


REDUCER = "f {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {op}(a, b) }}\n"


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply"])
@pytest.mark.parametrize("t", [P.F32, P.F64, P.BF16, P.S32, P.S8], ids=str)
def test_reductions(t: P, op: str) -> None:
    """Of rows, of columns, and of all: lanes are combined."""
    shapes = [("[1000]", "{0}", "[]"), ("[37,70]", "{1}", "[37]"), ("[37,70]", "{0}", "[70]")]
    lines, operands = [], []
    for n, (shape, dims, result) in enumerate(shapes):
        operands.append(f"x{n} = {t.value}{shape} parameter({n})")
        dims = dims.strip("{}")
        lines.append(f"r{n} = {t.value}{result} reduce(x{n}, i), dimensions={{{dims}}}, to_apply=f")
    results = ", ".join(f"{t.value}{s[2]}" for s in shapes)
    body = [*operands, f"i = {t.value}[] constant(1)", *lines]
    body.append(f"ROOT r = ({results}) tuple(r0, r1, r2)")
    text = "HloModule m\n" + REDUCER.format(t=t.value, op=op) + "ENTRY e {\n"
    _check(_kernels(text + "\n".join(body) + "\n}\n"))


def _has_handlers(kernel: Kernel) -> bool:
    """Whether nothing is computed in numbers of few bits."""
    types = [b.element_type for b in kernel.buffers]
    types += [s.result.type for s in walk(kernel.stages) if isinstance(s, Compute)]
    return all(t.bits >= 8 and not t.value.startswith("f8") for t in types)


def test_programs_at_random() -> None:
    """All kernels of some programs of the fuzzer."""
    checked = 0
    for seed in range(400, 412):
        program = plan_program(generate(seed), CompileOptions()).program
        for kernel in program.kernels.values():
            if not kernel.parameters and _has_handlers(kernel):
                check_same(kernel, _operands(kernel, seed), any_nan=True)
                checked += 1
    assert checked > 40


# -- kernels that are made for what they check -----------------------------------------------------


def _arrays(b: LoopBuilder, size: int, t: P = P.F32) -> tuple[Buffer, Buffer]:
    return b.buffer("x", t, size, BufferRole.OPERAND), b.buffer("out", t, size, BufferRole.OUTPUT)


def test_carried_values_that_change_places() -> None:
    """(a, b, c) becomes (b, c, a + x): all as if at the same time."""
    b = LoopBuilder("places")
    x, out = _arrays(b, 24)
    inits = [b.constant(P.F32, n) for n in (1.0, 2.0, 5.0)]
    i, (first, second, third) = b.open_loop(20, inits=inits)
    total = b.compute(Opcode.ADD, P.F32, (first, b.load(x, i)))
    results = b.close_loop((second, third, total))
    i, pair = b.open_loop(3, inits=results[:2])
    results += b.close_loop((pair[1], pair[0]))
    for n, value in enumerate(results):
        b.store(out, Index({}, n), (value,))
    check_same(b.kernel, [np.arange(24, dtype=np.float32)])


def test_limits_and_branches_hand_on_values() -> None:
    """Loops of no round at all, and branches that are taken or not."""
    b = LoopBuilder("limits")
    x, out = _arrays(b, 64, P.S32)
    one = b.constant(P.S32, 1)
    with b.loop(8) as i:
        j, (total,) = b.open_loop(8, inits=(one,), limits=(i * 3 - 4, Index({}, 6) - i))
        b.open_if(i + j, 2, 6, (total,))
        more = b.compute(Opcode.ADD, P.S32, (total, b.load(x, i * 8 + j)))
        (chosen,) = b.close_if((more,))
        (total,) = b.close_loop((chosen,))
        b.store(out, i, (total,))
    check_same(b.kernel, [np.arange(64, dtype=np.int32)])


def _sum_in_lanes(b: LoopBuilder, x: Buffer, i: Index, one: Value) -> Value:
    lane, _ = b.open_loop(16, kind=LoopKind.LANES)
    k, (total,) = b.open_loop(4, inits=(one,))
    b.open_if(lane + k, 3, 17, (total,))
    more = b.compute(Opcode.ADD, P.F32, (total, b.load(x, i * 16 + lane)))
    (chosen,) = b.close_if((more,))
    (total,) = b.close_loop((chosen,))
    add = lambda lhs, rhs: [b.compute(Opcode.ADD, P.F32, (lhs[0], rhs[0]))]
    (result,) = b.close_lanes((total,), b.combiner((P.F32,), add))
    return result


def test_branches_in_lanes() -> None:
    b = LoopBuilder("lanes")
    x, out = _arrays(b, 64)
    one = b.constant(P.F32, 1.0)
    with b.loop(4) as i:
        b.store(out, i, (_sum_in_lanes(b, x, i, one),))
    check_same(b.kernel, [np.random.default_rng(0).standard_normal(64).astype(np.float32)])


def test_next_values_where_the_last_were() -> None:
    """A sum is computed in its place; one that is read once more behind it is not."""
    b = LoopBuilder("sums")
    x, out = _arrays(b, 16)
    inits = [b.constant(P.F32, 0.0), b.constant(P.F32, 1.0)]
    i, (plain, kept) = b.open_loop(16, inits=inits)
    value = b.load(x, i)
    nexts = [b.compute(Opcode.ADD, P.F32, (carried, value)) for carried in (plain, kept)]
    b.store(out, i, (kept,))
    loop = b.innermost
    b.close_loop(nexts)
    assert next_in_place(loop) == [True, False]
    check_same(b.kernel, [np.arange(16, dtype=np.float32)])


@pytest.mark.parametrize("seed", range(20))
def test_copies_as_if_at_the_same_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots = 6
    memory = {n: n for n in range(slots)}
    targets = rng.permutation(slots)[: rng.integers(1, slots + 1)]
    copies = [(int(t), int(rng.integers(slots)), 8) for t in targets]
    expected = {**memory, **{t: memory[s] for t, s, _ in copies}}
    saved, done = in_order(copies)
    for target, source, _ in [*saved, *done]:
        memory[target] = memory[source]
    assert {n: memory[n] for n in range(slots)} == expected


# -- what has none ---------------------------------------------------------------------------------


def _stages(kernel: Kernel) -> None:
    KernelTables(Assembler(), host_target()).stages(kernel)


def test_contractions_have_none() -> None:
    b = LoopBuilder("contracted")
    x, out = _arrays(b, 8)
    with b.loop(8) as i:
        v = b.load(x, i)
        b.store(out, i, (b.compute(Opcode.MULTIPLY, P.F32, (v, v), CONTRACTED),))
    with pytest.raises(NoThreadedCode, match="may be computed as one with another"):
        _stages(b.kernel)


def test_barriers_have_none() -> None:
    b = LoopBuilder("barrier")
    x, out = _arrays(b, 8)
    b.store(out, Index({}, 0), (b.load(x, Index({}, 0)),))
    b.kernel.stages.append(Barrier())
    with pytest.raises(NoThreadedCode, match="a statement Barrier"):
        _stages(b.kernel)


def test_large_frames_have_none() -> None:
    b = LoopBuilder("large")
    x, out = _arrays(b, 8)
    b.buffer("own", P.F32, 1 << 16, BufferRole.LOCAL)
    b.store(out, Index({}, 0), (b.load(x, Index({}, 0)),))
    with pytest.raises(NoThreadedCode, match="bytes of values"):
        _stages(b.kernel)


def test_kernels_of_any_size_have_none() -> None:
    b = LoopBuilder("any")
    x, out = _arrays(b, 8)
    i, _ = b.open_loop(b.parameter("n", (1, 8)))
    b.store(out, i, (b.load(x, i),))
    b.close_loop()
    with pytest.raises(NoThreadedCode, match="a kernel with parameters"):
        _stages(b.kernel)


def test_equal_kernels_have_one_code() -> None:
    (kernel,) = _kernels(_module(["a = f32[53] add(x, y)"], P.F32))
    tables = KernelTables(Assembler(), host_target())
    assert tables.stages(kernel) is tables.stages(kernel)


# -- which handlers there are ----------------------------------------------------------------------

# Those of complex numbers, those that are no operation of their own in kernels, roundings to any
# number of bits, and what has more names than one.
WITHOUT = {
    *(Opcode.REAL, Opcode.IMAG, Opcode.COMPLEX, Opcode.MAP, Opcode.COPY, Opcode.CLAMP),
    *(Opcode.STOCHASTIC_CONVERT, Opcode.REDUCE_PRECISION, Opcode.COMPARE),
}


@pytest.mark.parametrize("t", (*FLOATS, *INTEGERS, P.PRED), ids=str)
def test_every_operation_has_handlers(t: P) -> None:
    """An opcode that optimised code computes for a type is in the tables of handlers, too."""
    missing, found = [], 0
    for opcode in Opcode:
        if not opcode.is_elementwise or opcode in WITHOUT:
            continue
        sources = [P.PRED, t, t] if opcode is Opcode.SELECT else [t] * (opcode.arity or 1)
        result = P.PRED if opcode is Opcode.IS_FINITE else t
        w = (module := ModuleWriter(host_target())).function("f", [])
        try:
            operation(w, opcode, None, sources[0], result, 1, ["%x", "%y", "%z"][: len(sources)])
        except UnsupportedElementError:
            continue
        assert module.functions
        found += 1
        name = PREFIX + plain_name(opcode, sources[0], result)
        same = opcode in (Opcode.CONVERT, Opcode.BITCAST_CONVERT)  # of one type to itself: none
        if not same and not all(group_of(name + form) for form in (".1", ".n")):
            missing.append(opcode)
    assert found > 10
    assert not missing
