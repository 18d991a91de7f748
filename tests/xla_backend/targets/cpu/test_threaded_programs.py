"""Programs as threaded code: each runs with its optimised code and with its threaded code, and no
bit is different. Where kernels are compiled (`program_only`) tests are about the steps alone."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable

import numpy as np
import pytest
from first_code_runs import CompiledKernels, program_only
from native_checks import arguments_of, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.llvm import objects
from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.program.ir import If, Program, While, all_steps
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.targets.cpu import tiers
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.routines import threaded_instructions
from xla_backend.targets.cpu.routines import threaded_names as names
from xla_backend.targets.cpu.routines.library import KernelLibrary
from xla_backend.targets.cpu.threaded.assembler import Assembler, Beyond, Symbol
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.first_code import first_code, threaded_code
from xla_backend.targets.cpu.threaded.program_table import program_table
from xla_backend.targets.cpu.threaded.worth import is_worth_it
from xla_backend.tools.fuzz.first_code_checks import differing, with_code

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}\n"
COUNT = """
cond {
  s = (s32[], s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[16,40] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  row = f32[1,40] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,40}
  new = f32[1,40] tanh(row)
  y = f32[16,40] dynamic-update-slice(x, new, i, zero)
  z = f32[16,40] reverse(y), dimensions={1}
  ROOT t = (s32[], s32[], f32[16,40]) tuple(j, n, z)
}
"""
COUNTED = COUNT.replace(
    "n = s32[] get-tuple-element(s), index=1\n  ROOT", "n = s32[] constant(LAST)\n  ROOT"
)
LOOP = """x = f32[16,40] parameter(0)
  n = s32[] ROUNDS
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[16,40]) tuple(zero, n, x)
  w = (s32[], s32[], f32[16,40]) while(init), condition=cond, body=body
  ROOT r = f32[16,40] get-tuple-element(w), index=2"""
OUTER = """
outer.cond {
  s = (s32[], s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT lt = pred[] compare(i, n), direction=LT
}
outer.body {
  s = (s32[], s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[16,40] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  init = (s32[], s32[], f32[16,40]) tuple(zero, n, x)
  w = (s32[], s32[], f32[16,40]) while(init), condition=cond, body=body
  y = f32[16,40] get-tuple-element(w), index=2
  p = f32[16,16] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  q = f32[16,40] dot(p, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,40] tanh(q)
  j = s32[] add(i, one)
  ROOT u = (s32[], s32[], f32[16,40]) tuple(j, n, t)
}
"""
BRANCHES = """
double {
  x = f32[30] parameter(0)
  ROOT r = f32[30] add(x, x)
}
negative {
  x = f32[30] parameter(0)
  a = f32[30] negate(x)
  b = f32[30] reverse(a), dimensions={0}
  ROOT c = f32[30] cosine(b)
}
same {
  ROOT x = f32[30] parameter(0)
}
"""
CHOICE = """i = s32[] parameter(0)
  x = f32[30] parameter(1)
  c = f32[30] conditional(i, x, x, x), branch_computations={double, negative, same}
  d = f32[30] reverse(c), dimensions={0}
  ROOT e = f32[30] negate(d)"""
CONDITION = """p = pred[] parameter(0)
  x = f32[30] parameter(1)
  ROOT c = f32[30] conditional(p, x, x), true_computation=double, false_computation=negative"""
LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  s = f32[] add(a, b)
  z = f32[] constant(0)
  l = pred[] compare(a, b), direction=LT
  g = pred[] compare(c, d), direction=GT
  e = pred[] compare(s, z), direction=EQ
  ROOT r = pred[] select(e, g, l)
}
"""
CALL = """twice {
  x = f32[30,30] parameter(0)
  a = f32[30,30] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[30,30] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
F = np.float32
RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 40)).astype(F)
ROW = RNG.standard_normal(30).astype(F)
# name -> body, computations, arguments (None: drawn)
PROGRAMS = {
    "nothing": ("ROOT x = f32[3] parameter(0)", "", None),
    "known trips": (LOOP.replace("ROUNDS", "constant(16)"), COUNTED.replace("LAST", "16"), None),
    "no trip": (LOOP.replace("ROUNDS", "constant(16)"), COUNTED.replace("LAST", "0"), None),
    "trips by argument": (LOOP.replace("ROUNDS", "parameter(1)"), COUNT, [X, np.int32(7)]),
    "no trip by argument": (LOOP.replace("ROUNDS", "parameter(1)"), COUNT, [X, np.int32(0)]),
    "loop in a loop": (
        LOOP.replace("ROUNDS", "parameter(1)").replace("=cond, body=", "=outer.cond, body=outer."),
        COUNT + OUTER,
        [X / 40, np.int32(5)],
    ),
    "true": (CONDITION, BRANCHES, [np.array(True), ROW]),
    "false": (CONDITION, BRANCHES, [np.array(False), ROW]),
    **{f"choice {i}": (CHOICE, BRANCHES, [np.int32(i), ROW]) for i in (-1, 0, 1, 2, 3)},
    "products": (
        """x = f32[30,30] parameter(0)
        a = f32[30,30] call(x), to_apply=twice
        b = f32[30,30] call(a), to_apply=twice
        ROOT c = f32[30,30] tanh(b)""",
        CALL,
        None,
    ),
    "product with an epilogue": (
        """x = f32[40,64] parameter(0)
        w = f32[64,96] parameter(1)
        b = f32[96] parameter(2)
        d = f32[40,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        s = f32[40,96] broadcast(b), dimensions={1}
        t = f32[40,96] add(d, s)
        ROOT u = f32[40,96] tanh(t)""",
        "",
        None,
    ),
    "convolution with reversed taps": (
        """x = f32[2,9,9,4] parameter(0)
        w = f32[3,3,4,8] parameter(1)
        v = f32[3,3,4,8] reverse(w), dimensions={0,1}
        ROOT r = f32[2,9,9,8] convolution(x, v), window={size=3x3 pad=1_1x1_1},
          dim_labels=b01f_01io->b01f""",
        "",
        None,
    ),
    "fft": (
        "x = f32[3,60] parameter(0)\nROOT r = c64[3,31] fft(x), fft_type=RFFT, fft_length={60}",
        "",
        None,
    ),
    "sort by keys": (
        """x = f32[5,301] parameter(0)
        i = s32[5,301] iota(), iota_dimension=1
        ROOT r = (f32[5,301], s32[5,301]) sort(x, i), dimensions={1}, is_stable=true,
          to_apply=by""",
        """by {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          c = s32[] parameter(2)
          d = s32[] parameter(3)
          ROOT r = pred[] compare(a, b), direction=GT
        }
        """,
        None,
    ),
    "sort by any comparator": (
        """x = f32[4,53,3] parameter(0)
        y = s32[4,53,3] parameter(1)
        ROOT r = (f32[4,53,3], s32[4,53,3]) sort(x, y), dimensions={1}, is_stable=true,
          to_apply=less""",
        LESS,
        None,
    ),
    "large constant": (
        f"""x = f32[20000] parameter(0)
        c = f32[20000] constant({{{", ".join(str(i % 7) for i in range(20000))}}})
        d = f32[20000] reverse(c), dimensions={{0}}
        ROOT r = f32[20000] multiply(x, d)""",
        "",
        None,
    ),
    "reductions in blocks": (
        """x = f32[600,700] parameter(0)
        z = f32[] constant(0)
        e = f32[600,700] exponential(x)
        all = f32[] reduce(e, z), dimensions={0,1}, to_apply=add
        rows = f32[600] reduce(e, z), dimensions={1}, to_apply=add
        columns = f32[700] reduce(e, z), dimensions={0}, to_apply=add
        ROOT r = (f32[], f32[600], f32[700]) tuple(all, rows, columns)""",
        ADD,
        None,
    ),
    "own numbers": (
        "p = u32[] partition-id()\nq = u32[] replica-id()\nROOT r = (u32[], u32[]) tuple(p, q)",
        "",
        None,
    ),
}  # fmt: skip


def first_only(program: Program) -> ProgramCode:
    """Threaded code, with that of its kernels."""
    return threaded_code(program, host_target())


def compiled(body: str, called: str = "") -> tuple[CpuExecutable, CpuExecutable]:
    """A program, and the same with threaded code."""
    executable = compile_module(module_of(body, called))
    return executable, with_code(executable, program_only(executable.program))


@pytest.mark.parametrize("code_of", [program_only, first_only])
@pytest.mark.parametrize("name", PROGRAMS)
def test_steps(name: str, code_of: Callable[[Program], ProgramCode]):
    body, called, arguments = PROGRAMS[name]
    executable = compile_module(module_of(body, called))
    other = with_code(executable, code_of(executable.program))
    arguments = arguments or arguments_of(module_of(body, called))
    assert differing(executable, other, arguments) is None


def test_the_programs_have_every_kind_of_control():
    """What they are written for must not be optimised away."""
    found = set()
    for name, (body, called, _) in PROGRAMS.items():
        program = compile_module(module_of(body, called)).program
        for step in all_steps(program.steps):
            if isinstance(step, While):
                inner = any(isinstance(s, While) for s in all_steps(step.body))
                found.add(("loop", step.trips is not None, inner))
            if isinstance(step, If):
                found.add(("branch", len(step.branches)))
            found.add(getattr(step, "routine", ""))
        assert len(program.procedures) == 0 or name == "products"
    assert {("loop", True, False), ("loop", False, False), ("loop", False, True)} <= found
    assert {("branch", 2), ("branch", 3), "merge_argsort", "gemm_fused_f32"} <= found


def test_host_calls():
    seen = []

    def scale(operands, results, attributes, context):
        seen.append(context.replica)
        if operands[0][0] < 0:
            raise ValueError("negative input")
        results[0][...] = 2 * operands[0]

    register_custom_call("tests.scale", scale, replace=True)
    _, executable = compiled(
        """x = f32[4] parameter(0)
        y = f32[4] custom-call(x), custom_call_target="tests.scale"
        z = f32[4] custom-call(y), custom_call_target="tests.scale"
        ROOT r = f32[4] add(z, y)"""
    )
    x = np.arange(4, dtype=F)
    np.testing.assert_array_equal(executable.run_arrays([x])[0], 6 * x)
    with pytest.raises(ValueError, match="negative input"):
        executable.run_arrays([x - 1])
    assert seen == [0, 0, 0], "nothing runs behind what failed"
    np.testing.assert_array_equal(executable.run_arrays([x])[0], 6 * x)


def test_state_goes_on_from_run_to_run():
    body = """a = u64[2] rng-get-and-update-state(), delta=5
        b = u64[2] rng-get-and-update-state(), delta=7
        ROOT t = (u64[2], u64[2]) tuple(a, b)"""
    executable, other = compiled(body)
    for _ in range(3):
        want, got = executable.run_arrays([]), other.run_arrays([])
        assert [a.tolist() for a in want] == [a.tolist() for a in got]


def test_donated_arguments():
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
      ENTRY main {
        x = f32[40,40] parameter(0)
        y = f32[40,40] parameter(1)
        p = f32[40,40] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = f32[40,40] subtract(x, p)
      }"""
    executable = compile_module(parse_module(text))
    assert executable.aliases == {0: 0}
    other = with_code(executable, program_only(executable.program))
    assert differing(executable, other, arguments_of(parse_module(text))) is None


ENDLESS = """
always {
  s = (f32[], f32[4]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  z = f32[] constant(-1)
  ROOT r = pred[] compare(x, z), direction=GT
}
round {
  s = (f32[], f32[4]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  y = f32[] abs(x)
  w = f32[4] cosine(v)
  ROOT t = (f32[], f32[4]) tuple(y, w)
}
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")
def test_a_signal_ends_a_loop():
    class Enough(Exception):
        pass

    def enough(*_):
        raise Enough

    _, executable = compiled(
        """x = f32[] parameter(0)
        v = f32[4] parameter(1)
        s = (f32[], f32[4]) tuple(x, v)
        w = (f32[], f32[4]) while(s), condition=always, body=round
        ROOT r = f32[4] get-tuple-element(w), index=1""",
        ENDLESS,
    )
    before = signal.signal(signal.SIGALRM, enough)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Enough):
            executable.run_arrays([np.ones((), F), np.ones(4, F)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


FORTY_TWO = """define i32 @entry(ptr %args, ptr %outs, ptr %arena) {
  %out = load ptr, ptr %outs
  store float 42.0, ptr %out
  ret i32 0
}
"""
COUNTED_ENDLESS = (
    ENDLESS
    + """
below {
  s = (s64[], f32[4]) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(1000000000000000)
  ROOT r = pred[] compare(i, n), direction=LT
}
next {
  s = (s64[], f32[4]) parameter(0)
  i = s64[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s64[] constant(1)
  j = s64[] add(i, one)
  w = f32[4] cosine(v)
  ROOT t = (s64[], f32[4]) tuple(j, w)
}
"""
)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")
@pytest.mark.parametrize(
    ("start", "loop", "alias", "goes_on"),
    [
        ("x", "condition=always, body=round", "", False),
        ("zero", "condition=below, body=next", "", False),  # rounds are counted
        # What the caller gave away is overwritten.
        ("x", "condition=always, body=round", ", input_output_alias={ {}: (1, {}) }", True),
    ],
)
def test_a_loop_ends_when_there_is_optimised_code(start, loop, alias, goes_on):
    """The program is run anew, by that, unless it has changed what it was given."""

    class Enough(Exception):
        pass

    begun = "s64[]" if start == "zero" else "f32[]"
    module = parse_module(f"""HloModule m{alias}
{COUNTED_ENDLESS}
ENTRY main {{
  x = f32[] parameter(0)
  v = f32[4] parameter(1)
  zero = s64[] constant(0)
  s = ({begun}, f32[4]) tuple({start}, v)
  w = ({begun}, f32[4]) while(s), {loop}
  ROOT r = f32[4] get-tuple-element(w), index=1
}}""")
    executable = compile_module(module)
    if "always" in loop:  # nobody knows how long
        assert is_worth_it(program_table(executable.program, host_target())) != goes_on
    executable = with_code(executable, program_only(executable.program))
    other = Library(objects.compile_object(FORTY_TWO, host_target()))
    word = ctypes.c_uint64.from_address(executable.library.address(names.OPTIMISED))

    def switch(*_):
        if word.value:
            raise Enough
        word.value = other.address("entry")

    before = signal.signal(signal.SIGALRM, switch)
    try:
        # The second time, long after that, to end what goes on.
        signal.setitimer(signal.ITIMER_REAL, 0.2, 1.0 if goes_on else 20.0)
        if goes_on:
            with pytest.raises(Enough):
                executable.run_arrays([np.ones((), F), np.ones(4, F)])
        else:
            assert executable.run_arrays([np.ones((), F), np.ones(4, F)])[0][0] == 42
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_on_one_thread():
    body, called, _ = PROGRAMS["reductions in blocks"]
    options = CompileOptions(num_threads=1)
    executable = compile_module(module_of(body, called), options)
    other = with_code(executable, program_only(executable.program), options)
    assert differing(executable, other, arguments_of(module_of(body, called))) is None


def test_the_word_of_the_optimised_code_switches_to_it():
    _, executable = compiled("x = f32[3] parameter(0)\nROOT y = f32[3] negate(x)")
    x = np.arange(3, dtype=F)
    np.testing.assert_array_equal(executable.run_arrays([x])[0], -x)
    other = Library(objects.compile_object(FORTY_TWO, host_target()))
    word = ctypes.c_uint64.from_address(executable.library.address(names.OPTIMISED))
    assert word.value == 0
    word.value = other.address("entry")
    assert executable.run_arrays([x])[0][0] == 42
    word.value = 0
    np.testing.assert_array_equal(executable.run_arrays([x])[0], -x)


def test_what_has_none_says_why():
    module = """HloModule m, replica_count=2
      ENTRY main {
        x = f32[4] parameter(0)
        ROOT r = f32[4] all-gather(x), replica_groups={}, dimensions={0}
      }"""
    program = compile_module(
        parse_module(module.replace("ROOT r = f32[4]", "ROOT r = f32[8]"))
    ).program
    with pytest.raises(NoThreadedCode, match="several participants"):
        program_table(program, host_target())


def test_a_loop_fills_its_tables_once():
    """In the table, what fills them is at the end of the outer loop, in one piece."""
    body, called, _ = PROGRAMS["loop in a loop"]
    program = compile_module(module_of(body, called)).program
    words = program_table(program, host_target(), CompiledKernels()).assembler._words
    fills = [w for w in words if w == Symbol(threaded_instructions.ADDRESSES)]
    outside = sum(not isinstance(step, While) for step in program.steps)
    assert len(fills) <= outside + 1


def test_words_beyond_places():
    asm = Assembler()
    inner = asm.constant(bytes(range(24)))
    table = asm.words([Beyond(inner, 16), inner, Beyond(Symbol("elsewhere"), 3), -1])
    asm.export("table", table)
    assert asm.symbols == ["elsewhere"]
    library = Library([asm.object()], {"elsewhere": 1000})
    words = (ctypes.c_uint64 * 4).from_address(library.address("table"))
    assert words[0] == words[1] + 16
    assert list(words[2:]) == [1003, 2**64 - 1]
    assert ctypes.string_at(words[0], 8) == bytes(range(16, 24))


def test_no_first_code_that_would_have_to_be_compiled(monkeypatch):
    module = module_of("x = f32[3] parameter(0)\nROOT y = f32[3] negate(x)")
    program = compile_module(module).program
    threaded_code(program, host_target())  # the code of `entry` is there
    asked = []

    def is_kept(self, symbols):
        asked.extend(symbols)
        return False

    monkeypatch.setattr(KernelLibrary, "is_kept", is_kept)
    assert first_code(program, CompileOptions(), host_target()) is None
    assert {names.ENTRY, names.RETURN, threaded_instructions.LAUNCH} <= {*asked}


def test_first_code_of_what_is_there():
    executable = compile_module(module_of(*PROGRAMS["product with an epilogue"][:2]))
    with_code(executable, threaded_code(executable.program, host_target()))  # compiles handlers
    code = first_code(executable.program, CompileOptions(), host_target())
    assert code is not None
    arguments = arguments_of(executable.module)
    assert differing(executable, with_code(executable, code), arguments) is None
    facts, own = executable._facts, code.facts
    for name in ("parameters", "outputs", "aliases", "temp_size", "cycles", "uses_context"):
        assert getattr(facts, name) == getattr(own, name)
    for options in ({"profiled_runs": 3}, {"overlap_collectives": True}, {"fast_math": ("arcp",)}):
        assert first_code(executable.program, CompileOptions(**options), host_target()) is None


SUM = """x = f32[N,64] parameter(0)
  z = f32[] constant(0)
  y = f32[N,64] cosine(x)
  r = f32[64] reduce(y, z), dimensions={0}, to_apply=add
  ROOT s = f32[64] tanh(r)"""

SCATTER = """x = f32[100000] parameter(0)
  at = s32[400000,1] parameter(1)
  y = f32[400000] parameter(2)
  ROOT r = f32[100000] scatter(x, at, y), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""


@pytest.mark.parametrize(
    ("body", "called", "worth"),
    [
        (SUM.replace("N", "64"), ADD, True),
        (SUM.replace("N", "400000"), ADD, False),  # takes long
        (LOOP.replace("ROUNDS", "constant(16)"), COUNTED.replace("LAST", "16"), True),
        (LOOP.replace("ROUNDS", "constant(16)"), COUNTED.replace("LAST", "3000000"), False),
        (LOOP.replace("ROUNDS", "parameter(1)"), COUNT, True),  # it leaves off
        (SCATTER, ADD, True),
    ],
)
def test_what_is_worth_it(body: str, called: str, worth: bool):
    program = compile_module(module_of(body, called)).program
    assert is_worth_it(program_table(program, host_target())) == worth


def test_threads_are_part_of_what_is_worth_it():
    program = compile_module(module_of(SUM.replace("N", "40000"), ADD)).program
    one, two = [program_table(program, host_target(), threads=n) for n in (1, 2)]
    assert 0.4 < two.cycles / one.cycles < 0.7
    assert one.assembler.object().data == two.assembler.object().data


@pytest.mark.parametrize(
    ("rounds", "called", "early"),
    [
        ("parameter(1)", COUNT, True),  # nobody knows
        ("constant(16)", COUNTED.replace("LAST", "16"), False),
        ("constant(16)", COUNTED.replace("LAST", "3000000"), True),
    ],
)
def test_llvm_begins_early_where_a_run_may_leave_off(rounds: str, called: str, early: bool):
    program = compile_module(module_of(LOOP.replace("ROUNDS", rounds), called)).program
    assert tiers._may_leave_off(program) is early
