"""Calls whose results (dtype, weak type, shape, values) are compared with stored facts.

`CALLS` holds expressions over `jnp`, `np` and the operands below; `oracle_facts.json` holds what
the reference implementation of this interface gives for each.  tests read both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64")


def operands(jnp: Any) -> dict[str, Any]:
    """The arrays that the expressions use: f32, i32, b (bool), c64..., weak scalars."""
    base = np.array([[1, 0, 3], [2, 5, 4]])
    env: dict[str, Any] = {"jnp": jnp, "np": np}
    for name in DTYPES:
        env[name] = jnp.asarray(base.astype(bool) if name == "bool" else base, dtype=name)
    env.update(
        x=jnp.asarray(np.array([[0.5, -1.25, 2.0], [3.5, 0.0, -0.75]], np.float32)),
        y=jnp.asarray(np.array([[1.5, 2.0, -0.5], [0.25, 4.0, -3.0]], np.float32)),
        z=jnp.asarray(np.array([[1 + 2j, -1j, 3], [0, -2 + 1j, 0.5j]], np.complex64)),
        n=jnp.asarray(np.array([1.0, np.nan, -2.0, np.inf, 0.0, -np.inf], np.float32)),
        m=jnp.asarray(np.array([[1.0, np.nan, -2.0], [np.nan, np.nan, 4.0]], np.float32)),
        i=jnp.asarray(np.array([[3, -1, 2], [0, 7, -5]], np.int32)),
        j=jnp.asarray(np.array([[2, 3, -4], [1, -2, 5]], np.int32)),
        u=jnp.asarray(np.array([3, 1, 2, 3, 1], np.uint8)),
        v=jnp.asarray(np.array([3, 1, 2, 3, 1], np.int32)),
        t=jnp.asarray(np.array([[True, False, True], [False, False, True]])),
        w=jnp.asarray(1.5),
        k=jnp.asarray(2),
        s=jnp.asarray(np.array([0.0, 1.0, 2.5, 4.0], np.float32)),
        a3=jnp.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 0.5 - 3),
        sq=jnp.asarray(np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 5.0]], np.float32)),
    )
    return env


UNARY = (
    "sin cos tan arcsin arccos arctan asin acos atan sinh cosh tanh arcsinh arccosh arctanh asinh "
    "acosh atanh exp exp2 expm1 log log1p log2 log10 sqrt cbrt square reciprocal abs absolute sign "
    "negative positive floor ceil trunc rint round around isfinite isinf isnan isreal iscomplex "
    "conj conjugate real imag angle logical_not deg2rad rad2deg degrees radians sinc i0 "
    "nan_to_num sum prod max min mean var std any all cumsum cumprod ptp median argmax argmin "
    "nansum nanprod nanmax nanmin nanmean nanvar nanstd sort argsort ravel transpose zeros_like "
    "ones_like empty_like count_nonzero average unique flip diff"
).split()
BINARY = (
    "add subtract multiply divide true_divide floor_divide remainder mod fmod power float_power "
    "maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 copysign heaviside nextafter "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm divmod isclose matmul_t dot_t "
    "outer kron append"
).split()

MIXED = [
    # weak types and Python scalars
    "x + 1", "x + 1.0", "i + 1", "i + 1.0", "i + 1j", "t + 1", "t + True", "x * 2j", "1 + x", "2 ** x",
    "x ** 2", "x ** 2.0", "x ** -1", "i ** 2", "i ** abs(i)", "x ** k", "w + 1",
    "w + k", "k + 1.5", "w * x", "k * i", "w * i", "int8 + 1", "uint8 + 300", "uint8 - 1", "float16 + 1.5",
    "bfloat16 + w", "float16 + bfloat16", "int8 + uint8", "uint32 + int32", "int8 + float16", "bool + bool",
    "uint8 * bfloat16", "complex64 + float16", "x // 2", "i // 2", "i % 3", "-7 // k", "k % -3", "i / 2",
    "divmod(i, 3)", "divmod(x, 1.5)", "x @ y.T", "abs(z)", "-x", "+i", "~i", "~t", "i << 1", "i >> 1",
    "i & 3", "i | 4", "i ^ 5", "t & t", "t ^ True", "x > 0", "x == y", "i != 2", "x <= 1", "round(x, 1)",
    "jnp.array(1)", "jnp.array(1.5)", "jnp.array(True)", "jnp.array(1j)", "jnp.array([1, 2.5])",
    "jnp.array([1, 2])", "jnp.array([[1], [2]], float)", "jnp.array([k, 1.5])", "jnp.array([w, k])",
    "jnp.array([x[0, 0], 1])", "jnp.array([int8[0, 0], 1])", "jnp.array([])", "jnp.array(x)", "jnp.array(w)",
    "jnp.asarray(3)", "jnp.asarray([True, 2])", "jnp.array(2.7, dtype=int)", "jnp.array([1.5, 2.5], 'int8')",
    "jnp.array(5, ndmin=2)", "jnp.float32(3)", "jnp.int8([1, 2])", "jnp.bfloat16(1.5)", "jnp.bool_(2)",
    "jnp.complex64(1)", "jnp.array(np.float64(1.5))", "jnp.array(np.arange(3))", "x.astype(int)",
    "x.astype('bool')", "z.astype('complex64')", "i.astype('float16')", "jnp.astype(i, 'float32')",
    # creation
    "jnp.zeros(3)", "jnp.zeros((2, 3), int)", "jnp.ones(2, 'bfloat16')", "jnp.full(3, 2)",
    "jnp.full((2, 2), 1.5)", "jnp.full(2, 1, 'float16')", "jnp.full((2, 3), x[0])", "jnp.full_like(i, 2.5)",
    "jnp.full_like(x, 2)", "jnp.zeros_like(w)", "jnp.ones_like(k)", "jnp.arange(5)", "jnp.arange(5.0)",
    "jnp.arange(2, 7)", "jnp.arange(7, 2, -2)", "jnp.arange(0, 1, 0.25)", "jnp.arange(3, dtype='float16')",
    "jnp.arange(0)", "jnp.linspace(0, 1, 5)", "jnp.linspace(0, 10, 4, endpoint=False)",
    "jnp.linspace(0, 5, 3, dtype=int)", "jnp.linspace(0, 1, 3, retstep=True)",
    "jnp.linspace(jnp.zeros(2), jnp.ones(2), 3, axis=1)", "jnp.linspace(1, 2, 1)", "jnp.logspace(0, 2, 3)",
    "jnp.geomspace(1, 8, 4)", "jnp.eye(3)", "jnp.eye(2, 3, k=1, dtype=int)", "jnp.eye(3, k=-1)",
    "jnp.identity(2)", "jnp.tri(3, 4, 1)", "jnp.meshgrid(jnp.arange(2), jnp.arange(3.0))",
    "jnp.meshgrid(jnp.arange(2), jnp.arange(3), indexing='ij', sparse=True)", "jnp.indices((2, 2))",
    "jnp.indices((2, 3), sparse=True)", "jnp.fromfunction(lambda a, b: a + b, (2, 2))", "jnp.mgrid[0:2, 0:3]",
    "jnp.ogrid[0:2, 0:3]", "jnp.mgrid[0:1:3j]", "jnp.r_[1:4, 0, 5]", "jnp.c_[jnp.arange(3), jnp.arange(3)]",
    "jnp.r_['0,2', jnp.arange(3), jnp.arange(3)]", "jnp.vander(s)", "jnp.vander(s, 2, increasing=True)",
    "jnp.diag(s)", "jnp.diag(s, 1)", "jnp.diag(sq)", "jnp.diag(sq, -1)", "jnp.diagflat(x, 1)",
    "jnp.diagonal(a3)", "jnp.diagonal(a3, 1, 1, 2)", "jnp.trace(a3, axis1=1, axis2=2)", "jnp.trace(i)",
    "jnp.tril(sq)", "jnp.triu(a3, 1)", "jnp.tril(i, -1)", "jnp.tril_indices(3)", "jnp.triu_indices(3, 1, 4)",
    "jnp.diag_indices(2, 3)", "jnp.mask_indices(3, jnp.triu)", "jnp.blackman(5)", "jnp.bartlett(5)",
    "jnp.hamming(5)", "jnp.hanning(5)", "jnp.kaiser(5, 8.6)",
    # reductions
    "jnp.sum(x, axis=0)", "jnp.sum(int8, axis=1)", "jnp.sum(uint8)", "jnp.sum(t, axis=0)",
    "jnp.sum(int8, promote_integers=False)", "jnp.sum(x, dtype='float16')", "jnp.sum(x, where=t)",
    "jnp.sum(x, initial=10)", "jnp.sum(x, axis=(0, 1), keepdims=True)", "jnp.sum(w)", "jnp.sum(float16)",
    "jnp.prod(x, axis=-1, keepdims=True)", "jnp.prod(t)", "jnp.max(x, axis=1, initial=1.0, where=t)",
    "jnp.min(i, axis=0)", "jnp.max(w)", "jnp.amax(i)", "jnp.amin(x, axis=1)", "jnp.any(i > 5, axis=0)",
    "jnp.all(t, axis=1, where=t)", "jnp.mean(i)", "jnp.mean(x, axis=0, where=t)", "jnp.mean(t)",
    "jnp.mean(i, dtype='float16')", "jnp.mean(bfloat16, axis=1)", "jnp.var(x, ddof=1)", "jnp.var(z, axis=0)",
    "jnp.var(i, axis=1, keepdims=True)", "jnp.std(x, axis=0, correction=1)", "jnp.std(x, where=t)",
    "jnp.var(x, mean=jnp.mean(x, keepdims=True))", "jnp.ptp(x, axis=0)", "jnp.average(x, weights=y)",
    "jnp.average(x, axis=1, weights=jnp.array([1, 2, 3]), returned=True)", "jnp.average(i, axis=0)",
    "jnp.count_nonzero(i, axis=1)", "jnp.cumsum(i, axis=1)", "jnp.cumsum(int8)", "jnp.cumsum(t)",
    "jnp.cumprod(x, axis=0, dtype='float16')", "jnp.nancumsum(n)", "jnp.nancumprod(m, axis=1)",
    "jnp.cumulative_sum(i, axis=1, include_initial=True)", "jnp.cumulative_prod(s)",
    "jnp.cumulative_sum(int8, axis=0)", "jnp.nansum(m, axis=0)", "jnp.nanprod(m, axis=1)",
    "jnp.nanmax(m, axis=0)", "jnp.nanmin(m, axis=1)", "jnp.nanmean(m, axis=0)", "jnp.nanvar(m, axis=1)",
    "jnp.nanstd(m)", "jnp.nanargmax(m, axis=1)", "jnp.nanargmin(m[:, ::2], axis=0)",
    "jnp.argmax(x, axis=1)", "jnp.argmin(x, axis=0, keepdims=True)", "jnp.argmax(n)", "jnp.argmin(n)",
    # order statistics
    "jnp.median(x)", "jnp.median(x, axis=0)", "jnp.median(m, axis=0)", "jnp.nanmedian(m, axis=0)",
    "jnp.median(i, axis=1, keepdims=True)", "jnp.quantile(x, 0.3)", "jnp.quantile(x, jnp.array([0.1, 0.9]), axis=1)",
    "jnp.quantile(a3, 0.4, axis=(0, 2))", "jnp.quantile(x, 0.3, method='lower')",
    "jnp.quantile(x, 0.3, method='higher', axis=0)", "jnp.quantile(x, 0.3, method='midpoint')",
    "jnp.quantile(x, 0.3, method='nearest')", "jnp.percentile(x, 30, axis=0, keepdims=True)",
    "jnp.percentile(i, jnp.array([10, 50]))", "jnp.nanquantile(m, 0.5, axis=1)",
    "jnp.nanpercentile(m, jnp.array([25.0, 75.0]), axis=0)", "jnp.cov(x)", "jnp.cov(x, y)",
    "jnp.cov(x, rowvar=False)", "jnp.cov(x, bias=True)", "jnp.cov(x, aweights=jnp.array([1.0, 2.0, 1.0]))",
    "jnp.cov(x, fweights=jnp.array([1, 2, 1]))", "jnp.corrcoef(x)", "jnp.corrcoef(x, y)", "jnp.cov(s)",
    "jnp.histogram(x, bins=4)", "jnp.histogram(i, bins=3, range=(0, 6))", "jnp.histogram(x, s)",
    "jnp.histogram(x, bins=3, density=True)", "jnp.histogram(x, bins=3, weights=y)",
    "jnp.histogram_bin_edges(x, 3)", "jnp.histogram2d(s, s, bins=3)",
    "jnp.histogramdd(x, bins=2)", "jnp.bincount(v)", "jnp.bincount(v, length=3)",
    "jnp.bincount(v, weights=jnp.arange(5.0))", "jnp.bincount(u, minlength=6)", "jnp.digitize(x, s)",
    "jnp.digitize(x, s[::-1])", "jnp.digitize(x, s, right=True)", "jnp.searchsorted(s, x)",
    "jnp.searchsorted(s, x, side='right')", "jnp.searchsorted(s, 2.5, method='compare_all')",
    # sorting and sets
    "jnp.sort(x, axis=0)", "jnp.sort(n)", "jnp.sort(x, axis=None)", "jnp.sort(x, descending=True)", "jnp.sort(z)",
    "jnp.argsort(v)", "jnp.argsort(v, descending=True)", "jnp.argsort(x, axis=0)", "jnp.lexsort((v, v[::-1]))",
    "jnp.sort_complex(v)", "jnp.sort(t)", "jnp.unique(v)", "jnp.unique(v, return_index=True, "
    "return_inverse=True, return_counts=True)", "jnp.unique(v, size=2)", "jnp.unique(v, size=5, fill_value=9)",
    "jnp.unique(i % 2, axis=0)", "jnp.unique(i % 2, axis=1, return_inverse=True)", "jnp.unique(n)",
    "jnp.unique_values(v)", "jnp.unique_counts(v)", "jnp.unique_all(v)", "jnp.unique_inverse(v)",
    "jnp.union1d(v, jnp.array([7, 1]))", "jnp.intersect1d(v, jnp.array([3, 1, 9]))",
    "jnp.intersect1d(v, jnp.array([9, 1]), return_indices=True)",
    "jnp.setdiff1d(v, jnp.array([3]))", "jnp.setdiff1d(v, jnp.array([3]), size=4, fill_value=-1)",
    "jnp.setxor1d(v, jnp.array([3, 8]))", "jnp.isin(v, jnp.array([1, 2]))", "jnp.isin(x, y, invert=True)",
    # searching and selection
    "jnp.where(x > 0)", "jnp.where(x > 0, x, 0)", "jnp.where(t, i, x)", "jnp.where(t, 1, 2)", "jnp.where(t, 1, 2.5)",
    "jnp.where(i, x, y)", "jnp.nonzero(i)", "jnp.nonzero(i, size=3)", "jnp.nonzero(t, size=5, fill_value=-1)",
    "jnp.flatnonzero(t)", "jnp.argwhere(t)", "jnp.extract(t, x)", "jnp.compress(jnp.array([True, False]), x, axis=0)",
    "jnp.select([x < 0, x > 1], [x, i], 7)", "jnp.choose(v % 2, [s[0], s[1]])",
    "jnp.choose(v, [v, v * 2], mode='clip')", "jnp.piecewise(x, [x < 0, x >= 1], [lambda q: -q, 5.0, 1.0])",
    "jnp.clip(x, 0, 1)", "jnp.clip(i, 0.5)", "jnp.clip(i, None, 3)", "jnp.clip(x, y, 2)", "jnp.nan_to_num(n)",
    "jnp.nan_to_num(n, nan=1, posinf=2, neginf=3)", "jnp.isclose(x, x + 1e-7)", "jnp.allclose(x, y)",
    "jnp.array_equal(x, x)", "jnp.array_equal(n, n, equal_nan=True)", "jnp.array_equiv(x, x[None])",
    "jnp.isclose(n, n, equal_nan=True)", "jnp.isposinf(n)", "jnp.isneginf(n)", "jnp.signbit(n)",
    # manipulation
    "x.reshape(3, 2)", "x.reshape(-1)", "jnp.reshape(i, (3, -1), order='F')", "jnp.ravel(x, order='F')",
    "jnp.transpose(a3, (2, 0, 1))", "x.T", "a3.mT", "jnp.swapaxes(a3, 0, 2)", "jnp.moveaxis(a3, 0, -1)",
    "jnp.moveaxis(a3, (0, 1), (-1, 0))", "jnp.rollaxis(a3, 2)", "jnp.expand_dims(x, (0, 2))",
    "jnp.squeeze(x[None, :, :1])", "jnp.squeeze(x[None], 0)", "jnp.atleast_1d(w)", "jnp.atleast_2d(s)",
    "jnp.atleast_3d(x)", "jnp.broadcast_to(s, (2, 4))", "jnp.broadcast_arrays(s[:3], x)",
    "jnp.flip(x)", "jnp.fliplr(x)", "jnp.flipud(x)", "jnp.rot90(x)", "jnp.rot90(a3, 3, (1, 2))", "jnp.roll(x, 1)",
    "jnp.roll(x, (1, -2), (0, 1))", "jnp.roll(a3, 2, axis=-1)", "jnp.repeat(x, 2, axis=1)",
    "jnp.repeat(v, jnp.array([0, 1, 2, 0, 1]))", "jnp.repeat(s, 3)",
    "jnp.repeat(v, jnp.array([0, 1, 2, 0, 1]), total_repeat_length=6)", "jnp.tile(x, 2)", "jnp.tile(s, (2, 1))",
    "jnp.resize(v, (2, 4))", "jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))", "jnp.concatenate([x, i])",
    "jnp.concatenate([x, y], axis=1)", "jnp.concatenate([x, y], axis=None)", "jnp.concatenate([int8, i], dtype='float32')",
    "jnp.stack([x, y], axis=1)", "jnp.stack([w, k])", "jnp.stack([i, x])", "jnp.vstack([s, s])", "jnp.hstack([s, s])", "jnp.dstack([s, s])",
    "jnp.column_stack([s, s])", "jnp.block([[x, y], [y, x]])", "jnp.block([1, 2])", "jnp.append(v, 5)", "jnp.append(x, y, axis=0)",
    "jnp.split(s, 2)", "jnp.split(x, [1, 2], axis=1)", "jnp.array_split(v, 3)", "jnp.hsplit(x, 3)", "jnp.vsplit(x, 2)",
    "jnp.unstack(x)", "jnp.insert(v, 1, 9)", "jnp.insert(x, 1, 0.5, axis=1)", "jnp.insert(v, jnp.array([0, 2]), jnp.array([8, 9]))",
    "jnp.delete(v, 1)", "jnp.delete(x, jnp.array([0, 2]), axis=1)", "jnp.delete(v, slice(1, 3))",
    "jnp.pad(v, 1)", "jnp.pad(x, ((1, 0), (0, 2)), constant_values=5)", "jnp.pad(s, 2, mode='edge')",
    "jnp.pad(s, (2, 3), mode='reflect')", "jnp.pad(s, 5, mode='symmetric')", "jnp.pad(s, (2, 6), mode='wrap')",
    "jnp.pad(s, 2, mode='linear_ramp', end_values=9)", "jnp.pad(x, 1, mode='mean')", "jnp.pad(x, 1, mode='maximum')",
    "jnp.pad(x, 1, mode='median')", "jnp.pad(i, 1, mode='mean')", "jnp.pad(s, 2, mode='reflect', reflect_type='odd')",
    "jnp.pad(s, 2, mode='minimum', stat_length=2)",
    # indexing functions
    "jnp.take(x, jnp.array([2, 0, 9]))", "jnp.take(x, 1, axis=1)", "jnp.take(x, jnp.array([[0, -1]]), axis=1)",
    "jnp.take(i, jnp.array([0, 9]), mode='clip')", "jnp.take(i, jnp.array([0, 9]), mode='wrap')",
    "jnp.take(i, jnp.array([9]))", "jnp.take(x, jnp.array([9]), fill_value=-1)",
    "jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)", "jnp.take_along_axis(x, jnp.array([[1]]), axis=0)",
    "jnp.take_along_axis(x, jnp.array([5, 0]), axis=None)", "jnp.take_along_axis(a3, jnp.array([[[3]], [[0]]]), 2)",
    "jnp.put_along_axis(x, jnp.array([[0], [2]]), 9.0, axis=1, inplace=False)",
    "jnp.put(v, jnp.array([0, 2]), jnp.array([7, 8]), inplace=False)", "jnp.place(x, t, jnp.array([7.0, 8.0]), inplace=False)",
    "jnp.fill_diagonal(sq, 0, inplace=False)", "jnp.ix_(jnp.array([0, 1]), jnp.array([2]))",
    "jnp.unravel_index(jnp.array([5, 2]), (2, 3))", "jnp.ravel_multi_index((jnp.array([1, 0]), jnp.array([2, 1])), (2, 3))",
    # products
    "jnp.dot(x, s[:3])", "jnp.dot(w, x)", "x.dot(y.T)", "jnp.matmul(a3, s)", "jnp.matmul(i, j.T)", "jnp.vdot(z, z)",
    "jnp.vecdot(z, z)", "jnp.inner(x, y)", "jnp.outer(s, v)", "jnp.kron(x, y)", "jnp.cross(x, y)",
    "jnp.cross(x[:, :2], y[:, :2])", "jnp.tensordot(a3, a3, ((0, 2), (0, 2)))", "jnp.tensordot(x, y.T, 1)",
    "jnp.einsum('ij,kj->ik', x, y)", "jnp.einsum('ij->j', i)", "jnp.einsum('ii->i', sq)", "jnp.einsum('ij,ij', int8, int8)",
    "jnp.einsum('i,j,k->ijk', s, s, v)", "jnp.matmul(float16, float16.T)", "jnp.dot(i, x.T)",
    "jnp.dot(int8, int8.T, preferred_element_type='int32')", "jnp.matvec(a3, s)", "jnp.vecmat(s[:2], x)",
    # calculus and polynomials
    "jnp.diff(x)", "jnp.diff(i, n=2, axis=1)", "jnp.diff(v, prepend=0, append=9)", "jnp.ediff1d(v, to_begin=7)",
    "jnp.gradient(s)", "jnp.gradient(a3, axis=(1, 2))", "jnp.gradient(s, s * 2)", "jnp.gradient(s, 0.5)",
    "jnp.trapezoid(s)", "jnp.trapezoid(x, dx=0.5, axis=0)", "jnp.trapezoid(s, s * 2)", "jnp.interp(x, s, s * 10)",
    "jnp.interp(x, s, s, left=-1, right=9)", "jnp.interp(x, s, s, period=3.0)", "jnp.unwrap(s * 3)",
    "jnp.polyval(s, x)", "jnp.polyval(v, 2)", "jnp.polyadd(s, v)", "jnp.polysub(s, jnp.array([1.0]))",
    "jnp.polymul(s, v)", "jnp.polydiv(v.astype('float32'), jnp.array([1.0, 2.0]))", "jnp.polyder(s)",
    "jnp.polyder(s, 2)", "jnp.polyint(s)", "jnp.polyint(s, 2, k=3)", "jnp.poly(s)", "jnp.polyfit(s, s * 2 + 1, 1)",
    "jnp.convolve(s, s[:2])", "jnp.convolve(v, v, mode='same')", "jnp.correlate(s, s[:2])", "jnp.correlate(s[:2], s, mode='full')",
    "jnp.convolve(z[0], z[1], mode='valid')", "jnp.correlate(z[0], z[1], mode='same')",
    # bits, floats
    "jnp.bitwise_count(v)", "jnp.packbits(t)", "jnp.packbits(t, axis=1, bitorder='little')", "jnp.unpackbits(u)",
    "jnp.frexp(x)", "jnp.frexp(n)", "jnp.ldexp(x, i)", "jnp.modf(x)", "jnp.spacing(x)", "jnp.angle(z, deg=True)",
    "jnp.fabs(i)", "jnp.round(x * 10, -1)", "jnp.round(x, 1)", "jnp.rint(i)", "jnp.hypot(i, j)",
    "jnp.gcd(i, j)", "jnp.lcm(i, j)", "x.view('int32')", "i.view('uint8')", "u[:4].view('int32')", "i.byteswap()",
    # ufunc methods
    "jnp.add.reduce(x)", "jnp.add.accumulate(i, axis=1)", "jnp.multiply.reduce(x, axis=None)", "jnp.maximum.reduce(x, axis=1)",
    "jnp.subtract.reduce(s)", "jnp.subtract.accumulate(s)", "jnp.add.outer(s, v)", "jnp.logical_and.reduce(t)",
    "jnp.add.at(s, jnp.array([0, 0]), 1.0, inplace=False)", "jnp.multiply.at(s, 1, 5.0, inplace=False)",
    "jnp.add.reduceat(v, jnp.array([0, 2, 1]))", "jnp.frompyfunc(lambda p, q: p * q + 1, 2, 1)(s, v[:4])",
    "jnp.bitwise_or.reduce(v)", "jnp.logaddexp.reduce(s)", "jnp.minimum.at(v, jnp.array([0]), -3, inplace=False)",
    "jnp.vectorize(lambda p, q: p @ q, signature='(n),(n)->()')(x, y)", "jnp.vectorize(lambda p: p + 1)(x)",
    "jnp.apply_along_axis(lambda r: r[::-1] * 2, 1, x)", "jnp.apply_along_axis(jnp.sum, 0, a3)",
    "jnp.apply_over_axes(jnp.sum, a3, (0, 2))",
    # indexing and updates
    "x[0]", "x[-1]", "x[1, 2]", "x[:, 1]", "x[::-1]", "x[:, ::2]", "x[..., None]", "x[t]", "x[jnp.array([1, 0])]",
    "x[jnp.array([0, 1]), jnp.array([2, 0])]", "a3[:, jnp.array([0, 2]), 1]", "a3[0, :, jnp.array([1, 2])]",
    "x[9]", "x[jnp.array([9])]", "x[-9]", "x[k]", "x[True]", "w[None]", "w[...]", "x[1:9]",
    "x.at[0].set(1)", "x.at[0, 1].add(2.5)", "x.at[:, 1].multiply(2)", "x.at[jnp.array([0, 0])].add(1)", "x.at[9].set(7)",
    "x.at[-1].min(0)", "i.at[0].max(2)", "x.at[0].divide(2)", "i.at[0].divide(2)", "x.at[0].power(2)", "x.at[0].apply(jnp.sin)", "x.at[t].set(0)",
    "x.at[9].get()", "x.at[jnp.array([9])].get(mode='fill')", "x.at[9].get(mode='fill', fill_value=3)",
    "i.at[jnp.array([9])].get(mode='fill')", "x.at[jnp.array([9])].set(5, mode='clip')",
    "x.at[::2, ::-1].set(jnp.arange(3))", "x.at[t].add(10)", "i.at[...].subtract(1)", "x.at[jnp.array([1, 9])].add(1, mode='drop')",
    "jnp.real(z)", "z.imag", "z.conj()", "x.max(1)", "x.sum(axis=0)", "x.mean()", "x.std()", "x.argmax()", "x.flatten()",
    "v.repeat(2)", "x.clip(0, 1)", "x.cumsum()", "x.nonzero()", "x.ptp()", "x.prod()", "sq.trace()", "x.take(jnp.array([1]))",
    "x.swapaxes(0, 1)", "x.squeeze()", "x.sort()", "x.round()", "x.all()", "x.any()",
]
LINALG = [
    "jnp.linalg.norm(x)", "jnp.linalg.norm(x, axis=1)", "jnp.linalg.norm(i, ord=1)", "jnp.linalg.norm(s, 3)",
    "jnp.linalg.norm(s, np.inf)", "jnp.linalg.det(sq)", "jnp.linalg.inv(sq)", "jnp.linalg.solve(sq, s[:3])",
    "jnp.linalg.slogdet(sq)", "jnp.linalg.cholesky(sq)", "jnp.linalg.eigvalsh(sq)", "jnp.linalg.svdvals(x)",
    "jnp.linalg.pinv(x)", "jnp.linalg.matrix_rank(x)", "jnp.linalg.matrix_power(sq, 3)", "jnp.linalg.multi_dot([x, sq, x.T])",
    "jnp.linalg.lstsq(x.T, s[:3])", "jnp.linalg.cond(sq)", "jnp.linalg.matrix_norm(x)", "jnp.linalg.vector_norm(x, axis=0)",
    "jnp.fft.fft(s)", "jnp.fft.ifft(s)", "jnp.fft.rfft(x)", "jnp.fft.irfft(z)", "jnp.fft.fft2(x)", "jnp.fft.fftn(a3)",
    "jnp.fft.fftshift(s)", "jnp.fft.ifftshift(x, axes=1)", "jnp.fft.fftfreq(5)", "jnp.fft.rfftfreq(4, 0.5)", "jnp.fft.hfft(z)", "jnp.fft.ihfft(s)",
]


def expressions() -> list[str]:
    """All calls."""
    out = [f"jnp.{name}({dtype})" for name in UNARY for dtype in DTYPES]
    for name in BINARY:
        for left in ("bool", "int8", "uint8", "int32", "bfloat16", "float32", "complex64"):
            for right in ("int32", "float32", left):
                fn, arg = (name[:-2], f"{right}.T") if name.endswith("_t") else (name, right)
                out.append(f"jnp.{fn}({left}, {arg})")
    return list(dict.fromkeys(out + MIXED + LINALG))


def leaves(value: Any) -> list[Any]:
    """The arrays in a result, which may be a tuple or list."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]
