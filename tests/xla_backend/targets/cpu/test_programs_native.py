"""Whole programs: control flow, in-place updates, donation, sorting, host calls, threads, and
random programs."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module

COUNT = """
cond {
  s = (s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(16)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[16,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16,40] get-tuple-element(s), index=1
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  row = f32[1,40] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,40}
  new = f32[1,40] tanh(row)
  y = f32[16,40] dynamic-update-slice(x, new, i, zero)
  ROOT t = (s32[], f32[16,40]) tuple(j, y)
}
"""
LOOP = """x = f32[16,40] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[16,40]) tuple(zero, x)
  w = (s32[], f32[16,40]) while(init), condition=cond, body=body
  ROOT r = f32[16,40] get-tuple-element(w), index=1"""


def test_update_in_a_loop_is_in_place():
    executable = check_native(module_of(LOOP, COUNT))
    entry = executable.llvm_ir.split("@entry")[1].split("\n}")[0]
    _, loop = entry.split("\nwhile", 1)
    assert "memmove" not in loop, "the loop must not copy the array"


def test_one_entry_function():
    executable = check_native(module_of(LOOP, COUNT))
    defined = re.findall(r"define (internal )?\w+ @([\w.]+)\(", executable.llvm_ir)
    assert [name for internal, name in defined if not internal] == ["entry"]


def test_loop_of_zero_rounds():
    check_native(module_of(LOOP, COUNT.replace("constant(16)", "constant(0)")))


BRANCHES = """
double {
  x = f32[30] parameter(0)
  ROOT r = f32[30] add(x, x)
}
negative {
  x = f32[30] parameter(0)
  ROOT r = f32[30] negate(x)
}
same {
  ROOT x = f32[30] parameter(0)
}
"""


@pytest.mark.parametrize("choice", [True, False])
def test_conditional(choice):
    module = module_of(
        """p = pred[] parameter(0)
        x = f32[30] parameter(1)
        ROOT c = f32[30] conditional(p, x, x), true_computation=double, false_computation=same""",
        BRANCHES,
    )
    check_native(module, [np.bool_(choice), np.arange(30, dtype=np.float32)])


@pytest.mark.parametrize("choice", [-1, 0, 1, 2, 7])
def test_switch(choice):
    """An index out of range takes the last branch."""
    module = module_of(
        """p = s32[] parameter(0)
        x = f32[30] parameter(1)
        ROOT c = f32[30] conditional(p, x, x, x), branch_computations={double, negative, same}""",
        BRANCHES,
    )
    check_native(module, [np.int32(choice), np.arange(30, dtype=np.float32)])


SORT = """
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT lt = pred[] compare(a, b), direction=LT
}
odd_first {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  one = s32[] constant(1)
  p = s32[] and(i, one)
  q = s32[] and(j, one)
  gt = pred[] compare(p, q), direction=GT
  eq = pred[] compare(p, q), direction=EQ
  lt = pred[] compare(a, b), direction=LT
  both = pred[] and(eq, lt)
  ROOT r = pred[] or(gt, both)
}
lexicographic {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  first = pred[] compare(i, j), direction=GT
  same = pred[] compare(i, j), direction=EQ
  second = pred[] compare(a, b), direction=LT
  both = pred[] and(same, second)
  ROOT r = pred[] or(first, both)
}
"""


@pytest.mark.parametrize("comparator", ["less", "odd_first", "lexicographic"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_sort(comparator, dimension):
    module = module_of(
        f"""x = f32[37,70] parameter(0)
        i = s32[37,70] parameter(1)
        ROOT s = (f32[37,70], s32[37,70]) sort(x, i), dimensions={{{dimension}}}, is_stable=true,
          to_apply={comparator}""",
        SORT,
    )
    check_native(module)


def test_linear_algebra_opcodes():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 5, 5)).astype(np.float32)
    spd = a @ np.swapaxes(a, 1, 2) + 5 * np.eye(5, dtype=np.float32)
    spd[1] = -spd[1]  # not positive definite: NaN
    module = module_of(
        """a = f32[3,5,5] parameter(0)
        b = f32[3,5,2] parameter(1)
        l = f32[3,5,5] cholesky(a), lower=true
        x = f32[3,5,2] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false,
          transpose_a=TRANSPOSE
        ROOT t = (f32[3,5,5], f32[3,5,2]) tuple(l, x)"""
    )
    check_native(module, [spd, rng.standard_normal((3, 5, 2)).astype(np.float32)], scale=100)


@pytest.mark.parametrize(
    "type,source,target", [("FFT", "c64", "c64[3,12]"), ("RFFT", "f32", "c64[3,7]")]
)
def test_fft(type, source, target):
    check_native(
        module_of(
            f"x = {source}[3,12] parameter(0)\n"
            f"ROOT r = {target} fft(x), fft_type={type}, fft_length={{12}}"
        ),
        scale=20,
    )


def test_custom_call_and_its_exception():
    def scale(operands, results, attributes, context):
        if operands[0][0] < 0:
            raise ValueError("negative input")
        results[0][...] = 2 * operands[0]

    register_custom_call("tests.scale", scale, replace=True)
    module = module_of(
        """x = f32[4] parameter(0)
        y = f32[4] custom-call(x), custom_call_target="tests.scale"
        ROOT r = f32[4] add(y, y)"""
    )
    executable = compile_module(module)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(executable.run_arrays([x])[0], 4 * x)
    with pytest.raises(ValueError, match="negative input"):
        executable.run_arrays([x - 1])
    np.testing.assert_array_equal(executable.run_arrays([x])[0], 4 * x)


def test_unknown_custom_call_says_what_to_do():
    module = module_of(
        'x = f32[4] parameter(0)\nROOT y = f32[4] custom-call(x), custom_call_target="tests.nobody"'
    )
    with pytest.raises(UnimplementedError, match="register_custom_call"):
        compile_module(module)


def test_wrong_argument_is_an_error():
    executable = compile_module(module_of("x = f32[4] parameter(0)\nROOT r = f32[4] negate(x)"))
    with pytest.raises(ValueError, match="argument 0"):
        executable.run_arrays([np.zeros(5, np.float32)])
    with pytest.raises(ValueError, match="takes 1"):
        executable.run_arrays([])


def test_vector_instructions_and_shared_kernels():
    executable = check_native(
        module_of(
            """x = f32[1000] parameter(0)
            y = f32[1000] parameter(1)
            a = f32[1000] exponential(x)
            b = f32[1000] exponential(y)
            k = f32[1000] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}
            ROOT t = (f32[1000], f32[1000], f32[1000]) tuple(a, b, k)"""
        ),
        scale=4,
    )
    assert re.search(r"fmul <\d+ x float>|llvm.fma.v\d+f32", executable.llvm_ir)


PARALLEL = """x = f32[600,700] parameter(0)
  z = f32[] constant(0)
  e = f32[600,700] exponential(x)
  all = f32[] reduce(e, z), dimensions={0,1}, to_apply=add
  rows = f32[600] reduce(e, z), dimensions={1}, to_apply=add
  columns = f32[700] reduce(e, z), dimensions={0}, to_apply=add
  t = f32[700,600] transpose(e), dimensions={1,0}
  m = f32[600,600] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[], f32[600], f32[700], f32[700,600], f32[600,600]) tuple(all, rows, columns, t,
    m)"""
ADD = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}\n"


def test_same_bits_for_any_number_of_threads():
    module = module_of(PARALLEL, ADD)
    arguments = arguments_of(module)
    executable = compile_module(module)
    assert "pyjax_parallel_for" in executable.llvm_ir
    before = num_threads()
    try:
        results = []
        for n in (1, 2, 3):
            set_num_threads(n)
            results.append([o.tobytes() for o in executable.run_arrays(arguments)])
    finally:
        set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_long_reduction():
    """Its parts are polled blocks; the sum of the parts is a function of another signature."""
    n = 1 << 20
    powers = "\n".join(f"y{i + 1} = f32[{n}] power(y{i}, p)" for i in range(12))
    body = f"""y0 = f32[{n}] parameter(0)
  p = f32[{n}] parameter(1)
  z = f32[] constant(0)
  {powers}
  ROOT s = f32[] reduce(y12, z), dimensions={{0}}, to_apply=add"""
    executable = compile_module(module_of(body, ADD))
    assert "pyjax_parallel_for_polled" in executable.llvm_ir
    (total,) = executable.run_arrays([np.ones(n, np.float32), np.ones(n, np.float32)])
    assert total == n


def test_concurrent_callers():
    """One executable, several Python threads: each has its own outputs and arena."""
    module = module_of(PARALLEL, ADD)
    executable = compile_module(module)
    inputs = [arguments_of(module, seed) for seed in range(4)]
    alone = [executable.run_arrays(a) for a in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(executable.run_arrays, inputs * 3))
    for i, got in enumerate(together):
        for a, b in zip(alone[i % 4], got):
            np.testing.assert_array_equal(a, b)


ACCUMULATE = """
cond {
  s = (s32[], f32[24,40], f32[24,24], f32[24,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[24,40], f32[24,24], f32[24,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[24,40] get-tuple-element(s), index=1
  a = f32[24,24] get-tuple-element(s), index=2
  b = f32[24,40] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[24,40] dot(a, RIGHT), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[24,40] add(x, d)
  next = f32[24,24] negate(a)
  ROOT t = (s32[], f32[24,40], f32[24,24], f32[24,40]) tuple(j, y, next, b)
}
"""


@pytest.mark.parametrize("right", ["b", "x"])
def test_product_added_to_what_a_loop_carries(right):
    """x += a @ b runs in place; x += a @ x must not overwrite what it still reads."""
    module = module_of(
        """x = f32[24,40] parameter(0)
        a = f32[24,24] parameter(1)
        b = f32[24,40] parameter(2)
        zero = s32[] constant(0)
        init = (s32[], f32[24,40], f32[24,24], f32[24,40]) tuple(zero, x, a, b)
        w = (s32[], f32[24,40], f32[24,24], f32[24,40]) while(init), condition=cond, body=body
        ROOT r = f32[24,40] get-tuple-element(w), index=1""",
        ACCUMULATE.replace("RIGHT", right),
    )
    x, a, b = arguments_of(module)
    executable = check_native(module, [x, a * 0.1, b], scale=100)
    accumulates = re.search(r"call void @pyjax_gemm_f32\.\w+\(.*, i64 1\)", executable.llvm_ir)
    assert bool(accumulates) == (right == "b")
