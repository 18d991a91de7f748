"""The evaluator's structured opcodes against plain loops written from the definition of each
opcode."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.linalg

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate, evaluate_computation
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import from_numpy_dtype
from xla_backend.hlo.verifier import verify

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
sub { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] subtract(a, b) }
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
second { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
argmax { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  better = pred[] compare(v, w), direction=GE
  x = f32[] select(better, v, w)
  k = s32[] select(better, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k) }
"""
RNG = np.random.default_rng(0)


def shape_of(array):
    return f"{from_numpy_dtype(array.dtype)}[{','.join(map(str, array.shape))}]"


def run(line, *arrays, callees=CALLEES, **options):
    """Evaluate `result opcode(), attributes` on the arrays; the module is verified first."""
    parameters = "".join(f" p{i} = {shape_of(a)} parameter({i})\n" for i, a in enumerate(arrays))
    names = ", ".join(f"p{i}" for i in range(len(arrays)))
    module = parse_module(
        f"{callees}ENTRY e {{\n{parameters} ROOT r = {line.replace('()', f'({names})', 1)}\n}}"
    )
    verify(module)
    values = evaluate(module, arrays, **options)
    return values[0] if len(values) == 1 else values


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def close(got, expected):
    assert got.dtype == expected.dtype or expected.dtype.kind in "fc"
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


# -- shapes ----------------------------------------------------------------------------------------

X = f32(4, 6)
SHAPES = [
    ("f32[3,8] reshape()", [X], X.reshape(3, 8)),
    ("f32[6,4] transpose(), dimensions={1,0}", [X], X.T),
    ("f32[6,3,4] broadcast(), dimensions={2,0}", [X], np.broadcast_to(X.T[:, None, :], (6, 3, 4))),
    ("f32[4,6] reverse(), dimensions={1}", [X], X[:, ::-1]),
    ("f32[2,2] slice(), slice={[0:4:3], [1:5:2]}", [X], X[0:4:3, 1:5:2]),
    ("f32[8,6] concatenate(), dimensions={0}", [X, X], np.concatenate([X, X])),
    (
        "f32[2,3] dynamic-slice(), dynamic_slice_sizes={2,3}",
        [X, np.int32(9), np.int32(-5)],
        X[2:4, 0:3],
    ),
    ("f32[6,4]{0,1} bitcast()", [X], X.reshape(4, 6).T),
    ("s32[4,6] iota(), iota_dimension=1", [], np.tile(np.arange(6, dtype=np.int32), (4, 1))),
    ("u8[3] iota(), iota_dimension=0", [], np.arange(3, dtype=np.uint8)),
    ("u32[4,6] bitcast-convert()", [X], X.view(np.uint32)),
    ("u8[4,6,4] bitcast-convert()", [X], X.view(np.uint8).reshape(4, 6, 4)),
    ("s32[] get-dimension-size(), dimensions={1}", [X], np.int32(6)),
]


@pytest.mark.parametrize(
    "line, operands, expected", SHAPES, ids=[s[0].split("(")[0] for s in SHAPES]
)
def test_data_movement(line, operands, expected):
    np.testing.assert_array_equal(run(line, *map(np.asarray, operands)), expected)


@pytest.mark.parametrize(
    "low, high, interior", [(1, 2, 1), (-1, 0, 2), (0, -4, 1), (3, 0, 0), (-7, 9, 1)]
)
def test_pad(low, high, interior):
    x = f32(5)
    line = [v for i, e in enumerate(x) for v in ([e] + [9.0] * interior if i < 4 else [e])]
    line = [9.0] * max(low, 0) + line + [9.0] * max(high, 0)
    line = line[max(-low, 0) : len(line) - max(-high, 0)]
    got = run(f"f32[{len(line)}] pad(), padding={low}_{high}_{interior}", x, np.float32(9))
    np.testing.assert_array_equal(got, np.array(line, np.float32))


def test_dynamic_update_slice_clamps():
    got = run(
        "f32[4,6] dynamic-update-slice()", X, np.ones((2, 2), np.float32), np.int32(9), np.int32(-1)
    )
    expected = X.copy()
    expected[2:4, 0:2] = 1
    np.testing.assert_array_equal(got, expected)


# -- contractions ----------------------------------------------------------------------------------

DOTS = [
    ("ij,jk->ik", (2, 3), (3, 4), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    (
        "bij,jbk->bik",
        (2, 3, 4),
        (4, 2, 5),
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={0}",
    ),
    ("ijk,kjl->il", (2, 3, 4), (4, 3, 5), "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"),
    ("i,j->ij", (2,), (3,), "lhs_contracting_dims={}, rhs_contracting_dims={}"),
    ("i,i->", (4,), (4,), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
]


@pytest.mark.parametrize("equation, left, right, attributes", DOTS, ids=[d[0] for d in DOTS])
def test_dot(equation, left, right, attributes):
    a, b = f32(*left), f32(*right)
    expected = np.einsum(equation, a, b)
    close(run(f"f32[{','.join(map(str, expected.shape))}] dot(), {attributes}", a, b), expected)


def test_dot_types():
    contracting = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    a = np.array([100, 100], np.int8)
    assert run(f"s32[] dot(), {contracting}", a, a) == 20000
    assert run(f"s8[] dot(), {contracting}", a, a) == np.int8(20000 % 256)
    bits = np.array([True, False])
    assert run(f"pred[] dot(), {contracting}", bits, bits).item() is True
    half = np.array([1.0, 2.0**-9], ml_dtypes.bfloat16)
    assert run(f"f32[] dot(), {contracting}", half, half) == np.float32(1 + 2.0**-18)


def convolve(x, w, stride, pad, base, dilation, groups, batch_groups, reverse):
    """[N, H, C] by [K, C / groups, O], one spatial dimension."""
    batch, size, features = x.shape
    taps, kernel_features, out_features = w.shape
    spread = np.zeros((batch, (size - 1) * base + 1, features))
    spread[:, ::base] = x
    padded = np.pad(spread, ((0, 0), pad, (0, 0)))
    outputs = (padded.shape[1] - (taps - 1) * dilation - 1) // stride + 1
    result = np.zeros((batch // batch_groups, outputs, out_features))
    for n, i, o, k, c in itertools.product(
        range(batch // batch_groups),
        range(outputs),
        range(out_features),
        range(taps),
        range(kernel_features),
    ):
        group = o // (out_features // groups)
        batch_group = o // (out_features // batch_groups)
        row = batch_group * (batch // batch_groups) + n
        tap = w[taps - 1 - k if reverse else k, c, o]
        result[n, i, o] += padded[row, i * stride + k * dilation, group * kernel_features + c] * tap
    return result


CONVOLUTIONS = [
    dict(),
    dict(stride=2, pad=(1, 2)),
    dict(base=2, pad=(2, 2)),
    dict(dilation=2),
    dict(groups=2),
    dict(batch_groups=2),
    dict(reverse=True, stride=2, base=3, dilation=2, pad=(3, 1)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(case):
    stride, pad = case.get("stride", 1), case.get("pad", (0, 0))
    base, dilation, reverse = (
        case.get("base", 1),
        case.get("dilation", 1),
        case.get("reverse", False),
    )
    groups, batch_groups = case.get("groups", 1), case.get("batch_groups", 1)
    x, w = f32(2, 9, 4), f32(3, 4 // groups, 6)
    expected = convolve(x, w, stride, pad, base, dilation, groups, batch_groups, reverse)
    window = f"size=3 stride={stride} pad={pad[0]}_{pad[1]} lhs_dilate={base} rhs_dilate={dilation}"
    window += f" rhs_reversal={int(reverse)}"
    shape = ",".join(map(str, expected.shape))
    line = f"f32[{shape}] convolution(), window={{{window}}}, dim_labels=b0f_0io->b0f, "
    line += f"feature_group_count={groups}, batch_group_count={batch_groups}"
    close(run(line, x, w), expected)


def test_convolution_labels_and_negative_padding():
    x, w = f32(4, 2, 9), f32(6, 4, 3)  # fb0, oi0
    expected = convolve(
        x.transpose(1, 2, 0)[:, 2:-1], w.transpose(2, 1, 0), 1, (0, 0), 1, 1, 1, 1, False
    )
    line = "f32[4,6,2] convolution(), window={size=3 pad=-2_-1}, dim_labels=fb0_oi0->0fb"
    close(run(line, x, w), expected.transpose(1, 2, 0))


# -- reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, function", [("add", np.sum), ("max", np.max)])
@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (0, 1, 2)])
def test_reduce(name, function, axes):
    x = f32(3, 4, 5)
    expected = function(x, axis=axes)
    shape = ",".join(map(str, expected.shape))
    dims = ",".join(map(str, axes))
    line = f"f32[{shape}] reduce(), dimensions={{{dims}}}, to_apply={name}"
    init = np.float32(0 if name == "add" else -np.inf)
    close(run(line, x, init), expected)


def test_reduce_folds_the_initial_value_once_and_handles_empty_operands():
    line = "f32[] reduce(), dimensions={0}, to_apply=add"
    assert run(line, np.array([1, 2], np.float32), np.float32(10)) == 13
    assert run(line, np.zeros(0, np.float32), np.float32(10)) == 10
    assert run(line.replace("add", "max"), np.zeros(0, np.float32), np.float32(-1)) == -1


def test_reduce_with_a_general_reducer_goes_in_order():
    x = np.array([1, 2, 3], np.float32)
    assert run("f32[] reduce(), dimensions={0}, to_apply=sub", x, np.float32(10)) == 4
    assert run("f32[] reduce(), dimensions={0}, to_apply=second", x, np.float32(10)) == 3


@pytest.mark.parametrize("size", [7, 20000])
def test_variadic_reduce(size):
    x = f32(2, size)
    index = np.broadcast_to(np.arange(size, dtype=np.int32), (2, size))
    value, where = run(
        "(f32[2], s32[2]) reduce(), dimensions={1}, to_apply=argmax",
        x,
        index,
        np.float32(-np.inf),
        np.int32(0),
    )
    np.testing.assert_array_equal(where, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


@pytest.mark.parametrize("name, start", [("add", 5.0), ("max", -9.0), ("sub", 0.0)])
@pytest.mark.parametrize(
    "window",
    [
        (2, 1, 0, 0, 1, 1),
        (3, 2, 1, 2, 1, 1),
        (2, 1, 1, 1, 2, 1),
        (2, 1, 2, 0, 1, 3),
        (6, 1, 5, 0, 1, 1),
        (6, 1, 0, 5, 1, 1),
    ],
)
def test_reduce_window(name, start, window):
    size, stride, low, high, base, dilation = window
    x = f32(6)
    function = {"add": np.add, "max": np.maximum, "sub": np.subtract}[name]
    spread = (
        [None] * low
        + [e for v in x for e in [v] + [None] * (base - 1)][: 5 * base + 1]
        + [None] * high
    )
    outputs = (len(spread) - (size - 1) * dilation - 1) // stride + 1
    expected = []
    for i in range(outputs):
        total = np.float32(start)
        for k in range(size):
            element = spread[i * stride + k * dilation]
            total = total if element is None else function(total, element)
        expected.append(total)
    attributes = (
        f"size={size} stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={dilation}"
    )
    line = f"f32[{outputs}] reduce-window(), window={{{attributes}}}, to_apply={name}"
    close(run(line, x, np.float32(start)), np.array(expected))


def test_select_and_scatter():
    x = np.array([1, 5, 2, 2, 9, 0, 0], np.float32)
    source = np.array([10, 20, 30], np.float32)
    got = run(
        "f32[7] select-and-scatter(), window={size=3 stride=2}, select=ge, scatter=add",
        x,
        source,
        np.float32(0),
    )
    np.testing.assert_array_equal(got, [0, 10, 0, 0, 50, 0, 0])


def test_scan():
    body = """HloModule m
    body { x = f32[] parameter(0)
      c = f32[] parameter(1)
      s = f32[] add(x, c)
      ROOT r = (f32[], f32[]) tuple(s, s) }
    """
    x = f32(5)
    out, last = run(
        "(f32[5], f32[]) scan(), dimensions={0}, num_carries=1, to_apply=body",
        x,
        np.float32(1),
        callees=body,
    )
    close(out, 1 + np.cumsum(x))
    close(last, 1 + x.sum())


# -- gather and scatter ----------------------------------------------------------------------------


def test_gather_rows_clamps():
    x = f32(5, 6)
    indices = np.array([[0], [4], [99], [-3]], np.int32)
    line = (
        "f32[4,6] gather(), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}"
    )
    np.testing.assert_array_equal(run(line, x, indices), x[[0, 4, 4, 0]])


def test_gather_windows_with_batching():
    x = f32(3, 7, 5)
    indices = np.array([[[1, 0], [6, 4]]] * 3, np.int64)
    line = (
        "f32[3,2,2,2] gather(), offset_dims={2,3}, collapsed_slice_dims={}, start_index_map={1,2}, "
        "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
        "slice_sizes={1,2,2}"
    )
    got = run(line, x, indices)
    expected = np.stack([np.stack([x[b, 1:3, 0:2], x[b, 5:7, 3:5]]) for b in range(3)])
    np.testing.assert_array_equal(got, expected)


def test_gather_offset_dims_before_batch():
    x = f32(5, 6)
    line = (
        "f32[2,3] gather(), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={2,1}"
    )
    np.testing.assert_array_equal(run(line, x, np.array([5, 0, 2], np.uint8)), x[:2, [5, 0, 2]])


SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1"
)


@pytest.mark.parametrize("name", ["add", "max", "second", "sub"])
def test_scatter_rows_in_order_and_drops_out_of_range(name):
    x, updates = f32(4, 3), f32(6, 3)
    indices = np.array([0, 2, 0, 9, -1, 0], np.int32)
    function = {"add": np.add, "max": np.maximum, "second": lambda a, b: b, "sub": np.subtract}[
        name
    ]
    expected = x.copy()
    for i, row in enumerate(indices):
        if 0 <= row < 4:
            expected[row] = function(expected[row], updates[i])
    close(
        run(f"f32[4,3] scatter(), {SCATTER}, to_apply={name}", x, indices[:, None], updates),
        expected,
    )


def test_scatter_drops_windows_that_stick_out():
    x = np.zeros(5, np.float32)
    line = (
        "f32[5] scatter(), update_window_dims={1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
    )
    got = run(line, x, np.array([[1], [4]], np.int32), np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(got, [0, 1, 1, 0, 0])


def test_scatter_of_bf16_and_variadic():
    callees = (
        CALLEES
        + """
    both { a = bf16[] parameter(0)
      i = s32[] parameter(1)
      b = bf16[] parameter(2)
      j = s32[] parameter(3)
      s = bf16[] add(a, b)
      t = s32[] maximum(i, j)
      ROOT r = (bf16[], s32[]) tuple(s, t) }
    """
    )
    line = (
        "(bf16[3], s32[3]) scatter(), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=both"
    )
    indices = np.array([[1], [1], [0]], np.int32)
    updates = np.array([1, 2, 3], ml_dtypes.bfloat16)
    a, b = run(
        line,
        np.zeros(3, ml_dtypes.bfloat16),
        np.zeros(3, np.int32),
        indices,
        updates,
        np.array([7, 5, 1], np.int32),
        callees=callees,
    )
    assert a.astype(float).tolist() == [3, 3, 0] and b.tolist() == [1, 7, 0]


# -- sorting ---------------------------------------------------------------------------------------

LESS = """HloModule m
lt { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
lexicographic { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  x = pred[] compare(a, b), direction=LT
  y = pred[] compare(a, b), direction=EQ
  z = pred[] compare(c, d), direction=GT
  w = pred[] and(y, z)
  ROOT r = pred[] or(x, w) }
total { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }
"""


@pytest.mark.parametrize(
    "comparator, key", [("lt", lambda a, b: a), ("lexicographic", lambda a, b: a * 100 - b)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_sort_is_stable(comparator, key, axis):
    a = RNG.integers(0, 4, (9, 13)).astype(np.int32)
    b = RNG.integers(0, 50, (9, 13)).astype(np.int32)
    order = np.argsort(key(a, b), axis=axis, kind="stable")
    x, y = run(
        f"(s32[9,13], s32[9,13]) sort(), dimensions={{{axis}}}, is_stable=true, "
        f"to_apply={comparator}",
        a,
        b,
        callees=LESS,
    )
    np.testing.assert_array_equal(x, np.take_along_axis(a, order, axis))
    np.testing.assert_array_equal(y, np.take_along_axis(b, order, axis))


def test_sort_descending_in_total_order():
    x = np.array([1, np.nan, -0.0, 0.0, -np.inf, np.inf], np.float32)
    got = run("f32[6] sort(), dimensions={0}, to_apply=total", x, callees=LESS)
    np.testing.assert_array_equal(
        got, np.array([np.nan, np.inf, 1, 0.0, -0.0, -np.inf], np.float32)
    )
    assert np.signbit(got[3:5]).tolist() == [False, True]


def test_sort_by_bits():
    """A bitcast in a comparator may change the element type."""
    callees = """HloModule m
    bits { a = f32[] parameter(0)
      b = f32[] parameter(1)
      x = s32[] bitcast(a)
      y = s32[] bitcast-convert(b)
      ROOT r = pred[] compare(x, y), direction=LT }
    """
    x = np.array([1.0, -1.0, 0.0, -2.0], np.float32)
    got = run("f32[4] sort(), dimensions={0}, to_apply=bits", x, callees=callees)
    np.testing.assert_array_equal(got, x[np.argsort(x.view(np.int32))])


def test_topk():
    x = np.array([[3, 1, np.nan, 3], [-1, -2, -3, -1]], np.float32)
    values, indices = run("(f32[2,3], s32[2,3]) topk(), k=3", x)
    assert indices.tolist() == [[2, 0, 3], [0, 3, 1]]
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    assert run("(f32[2,1], s32[2,1]) topk(), k=1, largest=false", x)[1].tolist() == [[1], [2]]


# -- linear algebra, normalisation -----------------------------------------------------------------


def test_fft():
    x = (f32(3, 4, 6) + 1j * f32(3, 4, 6)).astype(np.complex64)
    close(run("c64[3,4,6] fft(), fft_type=FFT, fft_length={4,6}", x), np.fft.fft2(x))
    close(run("c64[3,4,6] fft(), fft_type=IFFT, fft_length={6}", x), np.fft.ifft(x))
    close(
        run("c64[3,4,4] fft(), fft_type=RFFT, fft_length={6}", x.real.copy()), np.fft.rfft(x.real)
    )
    close(run("f32[3,4,10] fft(), fft_type=IRFFT, fft_length={10}", x), np.fft.irfft(x, 10))


def test_cholesky():
    a = f32(2, 3, 3)
    spd = a @ a.swapaxes(1, 2) + 3 * np.eye(3, dtype=np.float32)
    close(run("f32[2,3,3] cholesky(), lower=true", spd), np.linalg.cholesky(spd))
    close(run("f32[2,3,3] cholesky()", spd), np.linalg.cholesky(spd).swapaxes(1, 2))
    for last in (1, np.nan):  # not positive definite
        bad = np.array([[1, 2], [2, last]], np.float32)
        assert np.isnan(run("f32[2,2] cholesky(), lower=true", bad)[np.tril_indices(2)]).all()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(lower, transpose, unit):
    a = (f32(3, 3) + 1j * f32(3, 3) + 4 * np.eye(3)).astype(np.complex64)
    b = (f32(3, 2) + 0j).astype(np.complex64)
    attributes = (
        f"lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={transpose}"
    )
    trans = {"NO_TRANSPOSE": 0, "TRANSPOSE": 1, "ADJOINT": 2}[transpose]
    expected = scipy.linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)
    close(run(f"c64[3,2] triangular-solve(), left_side=true, {attributes}", a, b), expected)
    # x op(a) = b is op(a)^T x^T = b^T
    op = {0: a_of(a, lower, unit), 1: a_of(a, lower, unit).T, 2: a_of(a, lower, unit).conj().T}[
        trans
    ]
    right = run(f"c64[2,3] triangular-solve(), left_side=false, {attributes}", a, b.T.copy())
    close(right @ op, b.T)


def a_of(a, lower, unit):
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        np.fill_diagonal(triangle, 1)
    return triangle


def test_batch_norm():
    x, scale, offset, g = f32(5, 3), f32(3), f32(3), f32(5, 3)
    attributes = "epsilon=0.01, feature_index=1"
    y, mean, var = run(
        f"(f32[5,3], f32[3], f32[3]) batch-norm-training(), {attributes}", x, scale, offset
    )
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 0.01) * scale + offset
    close(mean, x.mean(0))
    close(var, x.var(0))
    close(y, expected)
    close(
        run(f"f32[5,3] batch-norm-inference(), {attributes}", x, scale, offset, mean, var), expected
    )
    gx, gs, go = run(
        f"(f32[5,3], f32[3], f32[3]) batch-norm-grad(), {attributes}", x, scale, mean, var, g
    )

    def loss(x, scale, offset):
        x = x.astype(np.float64)
        return ((x - x.mean(0)) / np.sqrt(x.var(0) + 0.01) * scale + offset).ravel() @ g.ravel()

    step = 1e-5 * f32(5, 3).astype(np.float64)
    slope = (loss(x + step, scale, offset) - loss(x - step, scale, offset)) / 2
    np.testing.assert_allclose(np.sum(gx * step), slope, rtol=1e-3)
    close(go, g.sum(0))
    close(gs, (g * (x - x.mean(0)) / np.sqrt(x.var(0) + 0.01)).sum(0))


def test_the_gradient_of_a_batch_norm_overflows_where_its_elementary_operations_do():
    x = np.array([[1e18, 1.0], [1.0, 2.0]], np.float32)
    tiny, zero, one = np.full(2, 1e-40, np.float32), np.zeros(2, np.float32), np.ones(2, np.float32)
    grad, _, _ = run(
        "(f32[2,2], f32[2], f32[2]) batch-norm-grad(), epsilon=0.01, feature_index=1",
        *(x, tiny, zero, one, x),
    )
    assert np.isneginf(grad[0, 0]) and np.isfinite(grad[:, 1]).all()


# -- random bits -----------------------------------------------------------------------------------

# algorithm, state, result, bits, new state: facts of the published generators and XLA's counter
# layout
RANDOM = [
    ("rng_philox", [0, 0], "u32[4]", [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [0, 1]),
    (
        "rng_philox",
        [1, 2, 3],
        "u32[5]",
        [4031113034, 1366700262, 495645701, 3051723414, 89414891],
        [1, 4, 3],
    ),
    ("rng_philox", [1, 2], "u64[2]", [12229731395331991369, 3437131457114678231], [1, 3]),
    ("rng_default", [1, 2], "u8[3]", [73, 232, 215], [1, 3]),
    (
        "rng_three_fry",
        [1, 2],
        "u32[5]",
        [43444564, 2150618427, 3979645651, 3745730563, 1672743891],
        [1, 5],
    ),
    ("rng_three_fry", [1, 2], "u64[2]", [9236835810183407956, 16087790271692313299], [1, 4]),
]


@pytest.mark.parametrize("algorithm, state, result, bits, new_state", RANDOM)
def test_rng_bit_generator(algorithm, state, result, bits, new_state):
    line = f"(u64[{len(state)}], {result}) rng-bit-generator(), algorithm={algorithm}"
    got_state, got = run(line, np.array(state, np.uint64))
    assert got.tolist() == bits and got_state.tolist() == new_state


def test_threefry_splits_along_the_first_even_dimension():
    _, got = run(
        "(u64[2], u32[3,2]) rng-bit-generator(), algorithm=rng_three_fry",
        np.array([1, 2], np.uint64),
    )
    assert got[0].tolist() == [43444564, 2150618427]


def test_rng_ranges():
    low, high = np.float32(2), np.float32(3)
    x = run("f32[1000] rng(), distribution=rng_uniform", low, high, seed=0)
    assert x.min() >= 2 and x.max() < 3 and x.std() > 0.2
    n = run("f32[1000] rng(), distribution=rng_normal", low, high, seed=0)
    assert abs(n.mean() - 2) < 0.5 and abs(n.std() - 3) < 0.5
    i = run("s32[1000] rng(), distribution=rng_uniform", np.int32(0), np.int32(3), seed=0)
    assert set(i.tolist()) == {0, 1, 2}


# -- control ---------------------------------------------------------------------------------------


def test_while_and_conditional():
    module = parse_module("""HloModule m
    cond { t = (s32[], f32[2]) parameter(0)
      i = s32[] get-tuple-element(t), index=0
      n = s32[] constant(5)
      ROOT c = pred[] compare(i, n), direction=LT }
    body { t = (s32[], f32[2]) parameter(0)
      i = s32[] get-tuple-element(t), index=0
      x = f32[2] get-tuple-element(t), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      y = f32[2] add(x, x)
      ROOT r = (s32[], f32[2]) tuple(j, y) }
    double { x = f32[2] parameter(0)
      ROOT r = f32[2] add(x, x) }
    square { x = f32[2] parameter(0)
      ROOT r = f32[2] multiply(x, x) }
    ENTRY e { i = s32[] parameter(0)
      x = f32[2] parameter(1)
      t = (s32[], f32[2]) tuple(i, x)
      w = (s32[], f32[2]) while(t), condition=cond, body=body
      b = f32[2] conditional(i, x, x), branch_computations={double, square}
      y = f32[2] get-tuple-element(w), index=1
      ROOT r = (f32[2], f32[2]) tuple(y, b) }""")
    verify(module)
    x = np.array([1, 3], np.float32)
    assert [v.tolist() for v in evaluate(module, [np.int32(0), x])] == [[32, 96], [2, 6]]
    assert [v.tolist() for v in evaluate(module, [np.int32(3), x])] == [[4, 12], [1, 9]]
    assert evaluate(module, [np.int32(-7), x])[1].tolist() == [
        1,
        9,
    ]  # out of range: the last branch


def test_deep_graphs_do_not_recurse():
    lines = "".join(f" v{i + 1} = s32[] add(v{i}, v{i})\n" for i in range(20000))
    module = parse_module(f"ENTRY e {{ v0 = s32[] parameter(0)\n{lines} }}")
    assert evaluate(module, [np.int32(0)]) == [0]


def test_map_and_general_bodies():
    callees = """HloModule m
    f { a = f32[] parameter(0)
      b = f32[] parameter(1)
      x = f32[1] reshape(a)
      z = f32[] constant(0)
      p = f32[3] pad(x, z), padding=1_1
      s = f32[1] slice(p), slice={[1:2]}
      y = f32[] reshape(s)
      ROOT r = f32[] multiply(y, b) }
    """
    x, y = f32(3), f32(3)
    close(run("f32[3] map(), dimensions={0}, to_apply=f", x, y, callees=callees), x * y)


def test_custom_calls_are_given_by_the_caller():
    def double(operands, results, attributes):
        assert attributes.backend_config == "{k = 2 : i64}"
        results[0][...] = operands[0] * 2

    line = 'f32[2] custom-call(), custom_call_target="double", backend_config={k = 2 : i64}'
    x = np.array([1, 2], np.float32)
    assert run(line, x, custom_calls={"double": double}).tolist() == [2, 4]
    with pytest.raises(UnimplementedError, match=r"no custom call 'double'.*custom_calls="):
        run(line, x)


def test_custom_calls_get_arrays_of_the_shapes_of_the_program():
    seen = []

    def call(operands, results, attributes):
        seen.extend(x.shape for x in operands)
        assert all(x.flags.c_contiguous for x in operands)

    line = 'f32[] custom-call(), custom_call_target="look"'
    run(line, np.float32(1), f32(2, 3).T, f32(0, 2), custom_calls={"look": call})
    assert seen == [(), (3, 2), (0, 2)]


def test_single_device_collectives():
    x = f32(3)
    close(run("f32[3] all-reduce(), replica_groups={}, to_apply=add", x), x)
    with pytest.raises(UnimplementedError, match="use evaluate_partitioned"):
        run("f32[6] all-gather(), replica_groups={{0,1}}, dimensions={0}", x)


def test_tuple_parameters_and_tokens():
    module = parse_module(
        """ENTRY e {
      t = (f32[2], (s32[], f32[])) parameter(0)
      k = token[] after-all()
      x = f32[2] get-tuple-element(t), index=0
      y = f32[2] add-dependency(x, k)
      ROOT r = (f32[2], (f32[2], s32[], f32[]), token[]) tuple(y, u, k)
    }""".replace("u, k)", "v, k)").replace(
            "ROOT",
            "n = (s32[], f32[]) get-tuple-element(t), index=1\n i = s32[] "
            "get-tuple-element(n), index=0\n f = f32[] get-tuple-element(n), index=1\n v = "
            "(f32[2], s32[], f32[]) tuple(x, i, f)\n ROOT",
        )
    )
    verify(module)
    got = evaluate(module, [np.ones(2, np.float32), np.int32(3), np.float32(4)])
    assert [np.asarray(v).tolist() for v in got] == [[1, 1], [1, 1], 3, 4]


def test_argument_errors():
    module = parse_module("ENTRY e { ROOT x = f32[2] parameter(0) }")
    for arguments, message in (
        ([np.zeros(3, np.float32)], r"parameter 0 of module_e is f32\[2\], got float32 \[3\]"),
        ([np.zeros(2)], "got float64"),
        ([], "takes more than the 0 arguments"),
        ([np.zeros(2, np.float32)] * 2, "1 arguments too many"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(module, arguments)


def test_evaluate_computation_returns_nested_values():
    module = parse_module(
        "ENTRY e { x = f32[2] parameter(0)\n ROOT r = (f32[2], f32[2]) tuple(x, x) }"
    )
    value = evaluate_computation(module.entry, [np.ones(2, np.float32)])
    assert isinstance(value, tuple) and len(value) == 2
