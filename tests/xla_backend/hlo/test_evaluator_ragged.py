"""ragged-dot in its three modes and scaled-dot, against loops written from their definition."""

import ml_dtypes
import numpy as np
import pytest

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import from_numpy_dtype
from xla_backend.hlo.verifier import verify

RNG = np.random.default_rng(0)


def run(line, *arrays):
    shapes = [f"{from_numpy_dtype(a.dtype)}[{','.join(map(str, a.shape))}]" for a in arrays]
    parameters = "".join(f" p{i} = {s} parameter({i})\n" for i, s in enumerate(shapes))
    names = ", ".join(f"p{i}" for i in range(len(arrays)))
    module = parse_module(
        f"ENTRY e {{\n{parameters} ROOT r = {line.replace('()', f'({names})')}\n}}"
    )
    verify(module)
    return evaluate(module, arrays)[0]


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def s32(*values):
    return np.array(values, np.int32)


def groups_of(sizes):
    """(group, first row, row after the last) in order."""
    ends = np.cumsum(sizes)
    return [(g, int(e - n), int(e)) for g, (n, e) in enumerate(zip(sizes, ends))]


@pytest.mark.parametrize("sizes", [(3, 0, 4), (2, 2, 7), (0, 0, 0), (11, 0, 0)])
def test_ragged_rows(sizes):
    x, w = f32(11, 5), f32(3, 5, 7)
    expected = np.zeros((11, 7), np.float32)
    for g, begin, end in groups_of(sizes):
        expected[begin:end] = x[begin:end] @ w[g]
    got = run(
        "f32[11,7] ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        x,
        w,
        s32(*sizes),
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_ragged_rows_with_a_batch_and_group_sizes_per_batch():
    x, w = f32(2, 6, 5), f32(5, 3, 2, 4)  # w: k, groups, batch, n
    sizes = s32([1, 2, 3], [4, 0, 1])
    expected = np.zeros((2, 6, 4), np.float32)
    for b in range(2):
        for g, begin, end in groups_of(sizes[b]):
            expected[b, begin:end] = x[b, begin:end] @ w[:, g, b]
    got = run(
        "f32[2,6,4] ragged-dot(), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={2}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={1}",
        x,
        w,
        sizes,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_ragged_contraction_gives_one_matrix_per_group():
    x, y = f32(4, 9), f32(9, 6)
    sizes = (2, 0, 5)
    expected = np.stack([x[:, b:e] @ y[b:e] for _, b, e in groups_of(sizes)])
    got = run(
        "f32[3,4,6] ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "lhs_ragged_dims={1}, rhs_group_dims={}",
        x,
        y,
        s32(*sizes),
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_ragged_batch_is_a_plain_dot():
    x, y = f32(5, 2, 3), f32(5, 3, 4)
    got = run(
        "f32[5,2,4] ragged-dot(), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={}",
        x,
        y,
        s32(2, 3),
    )
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-5)


def test_ragged_dot_of_bytes_sums_in_the_result_type():
    x = RNG.integers(-100, 100, (4, 50)).astype(np.int8)
    w = RNG.integers(-100, 100, (2, 50, 3)).astype(np.int8)
    expected = np.concatenate([x[:1].astype(int) @ w[0], x[1:].astype(int) @ w[1]])
    got = run(
        "s32[4,3] ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        x,
        w,
        s32(1, 3),
    )
    np.testing.assert_array_equal(got, expected)


SCALED = "f32[3,4] scaled-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_scaled_dot_multiplies_each_block_by_its_scale():
    x = f32(3, 8).astype(ml_dtypes.float8_e4m3fn)
    y = f32(8, 4).astype(ml_dtypes.float8_e4m3fn)
    left = np.exp2(RNG.integers(-3, 4, (3, 2))).astype(ml_dtypes.float8_e8m0fnu)
    right = np.exp2(RNG.integers(-3, 4, (4, 1))).astype(ml_dtypes.float8_e8m0fnu)
    scaled_x = x.astype(float) * np.repeat(left.astype(float), 4, 1)
    scaled_y = y.astype(float) * np.repeat(np.repeat(right.astype(float), 2, 0), 4, 1)
    np.testing.assert_allclose(run(SCALED, x, y, left, right), scaled_x @ scaled_y, rtol=1e-6)


def test_scalar_scales_are_one_block():
    x, y = f32(3, 8), f32(8, 4)
    got = run(SCALED, x, y, np.float32(2), np.float32(0.5))
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-5)
