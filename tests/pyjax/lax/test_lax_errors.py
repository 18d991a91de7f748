"""Wrong operands give an error that names the public function, the operands, the user's
line and a fix.
"""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import lax
from pyjax.lax import linalg

X = np.ones((3, 4), np.float32)
V = np.ones((4,), np.float32)
N = np.ones((3, 4), np.int32)
B = np.ones((3, 4), bool)
C = np.ones((3, 4), np.complex64)

ERRORS = [
    (
        "dtypes",
        lambda: lax.add(X, N),
        TypeError,
        r"lax\.add requires arguments to have the same dtypes",
    ),
    ("float-into-int", lambda: lax.mul(N, 2.0), TypeError, r"lax\.mul requires .* int32, float32"),
    (
        "ranks",
        lambda: lax.add(X, V),
        TypeError,
        r"add: arrays must have the same number of dimensions",
    ),
    (
        "sizes",
        lambda: lax.sub(V, V[:3]),
        TypeError,
        r"sub got incompatible shapes .* \(4,\), \(3,\)",
    ),
    ("int-sin", lambda: lax.sin(N), TypeError, r"sin does not accept dtype int32"),
    ("bool-add", lambda: lax.add(B, B), TypeError, r"add does not accept dtype bool at position 0"),
    ("complex-order", lambda: lax.lt(C, C), TypeError, r"lt does not accept dtype complex64"),
    ("real-of-real", lambda: lax.real(X), TypeError, r"real does not accept dtype float32"),
    ("axis", lambda: lax.reduce_sum(X, (2,)), ValueError, r"reduction axes \(2,\).*float32\[3,4\]"),
    ("axis-twice", lambda: lax.reduce_max(X, (0, 0)), ValueError, r"duplicate value in 'axes'"),
    (
        "sum-bool",
        lambda: lax.reduce_sum(B, (0,)),
        TypeError,
        r"reduce_sum does not accept dtype bool",
    ),
    ("and-float", lambda: lax.reduce_and(X, (0,)), TypeError, r"logical reduction requires"),
    (
        "reshape",
        lambda: lax.reshape(X, (5,)),
        TypeError,
        r"total size must be unchanged.*\(5,\).*\(3, 4\)",
    ),
    ("reshape-negative", lambda: lax.reshape(X, (2, -1)), TypeError, r"must all be positive"),
    ("permutation", lambda: lax.transpose(X, (0,)), TypeError, r"transpose permutation isn't"),
    ("broadcast", lambda: lax.broadcast_in_dim(X, (3, 5), (0, 1)), TypeError, r"must either be 1"),
    ("squeeze", lambda: lax.squeeze(X, (0,)), ValueError, r"size not equal to one"),
    (
        "concatenate-rank",
        lambda: lax.concatenate([X, V], 0),
        TypeError,
        r"different numbers of dim",
    ),
    ("concatenate-none", lambda: lax.concatenate([], 0), ValueError, r"non-empty"),
    ("pad-config", lambda: lax.pad(X, 0.0, ((0, 0, 0),)), ValueError, r"length of padding_config"),
    ("pad-interior", lambda: lax.pad(V, 0.0, ((0, 0, -1),)), ValueError, r"must be nonnegative"),
    ("pad-too-much", lambda: lax.pad(V, 0.0, ((-3, -3, 0),)), ValueError, r"not at least 0"),
    (
        "dot-sizes",
        lambda: lax.dot_general(X, X, (((1,), (0,)), ((), ()))),
        TypeError,
        r"\(4,\) and \(3,\)",
    ),
    ("dot-shapes", lambda: lax.dot(X, X), ValueError, r"dimension_numbers must be specified"),
    ("dot-numbers", lambda: lax.dot_general(X, X, 3), TypeError, r"dimension_numbers must be"),
    ("precision", lambda: lax.dot(X, X.T, precision="exact"), ValueError, r"Precision argument"),
    ("select-pred", lambda: lax.select(X, X, X), TypeError, r"must be boolean or integer"),
    (
        "select-shape",
        lambda: lax.select(B[0], X, X),
        TypeError,
        r"must be scalar or have the same shape",
    ),
    ("clamp", lambda: lax.clamp(X, V, X), TypeError, r"clamp requires min.shape == operand.shape"),
    (
        "iota",
        lambda: lax.iota(np.float32, -1),
        TypeError,
        r"must have every element be nonnegative",
    ),
    ("top_k", lambda: lax.top_k(X, 10), ValueError, r"k argument to top_k must be no larger"),
    ("sort-axis", lambda: lax.sort(X, 5), ValueError, r"sort: axis 5 is out of bounds"),
    ("sort-shapes", lambda: lax.sort((X, V)), TypeError, r"must have equal shapes"),
    ("cumsum", lambda: lax.cumsum(X, 3), ValueError, r"axis 3 is out of bounds"),
    ("split", lambda: lax.split(X, (1, 1), 0), ValueError, r"Sum of sizes 2 must be equal"),
    ("argmax", lambda: lax.argmax(X, 5, np.int32), ValueError, r"Invalid axis 5"),
    (
        "argmax-dtype",
        lambda: lax.argmax(X, 0, np.float32),
        TypeError,
        r"index_dtype must be an integer",
    ),
    (
        "bitcast",
        lambda: lax.bitcast_convert_type(np.ones(3, np.uint8), np.float32),
        ValueError,
        r"isn't divis",
    ),
    ("rev", lambda: lax.rev(X, (5,)), TypeError, r"rev dimensions must all be less"),
    ("fft-type", lambda: lax.fft(C, "dft", (4,)), ValueError, r"Unknown FFT type 'dft'"),
    (
        "fft-length",
        lambda: lax.fft(C, "fft", (5,)),
        ValueError,
        r"requires input shape to end with",
    ),
    ("axis-name", lambda: lax.psum(X, "i"), NameError, r"unbound axis name: i"),
    ("axis-index", lambda: lax.axis_index("rows"), NameError, r"unbound axis name: rows"),
    ("cholesky", lambda: linalg.cholesky(X), ValueError, r"cholesky must have shape \[..., n, n\]"),
    ("triangular", lambda: linalg.triangular_solve(X, X), ValueError, r"must be a square matrix"),
    (
        "eigh-int",
        lambda: linalg.eigh(np.ones((2, 2), np.int32)),
        TypeError,
        r"eigh does not accept",
    ),
    ("full", lambda: lax.full((2,), V), TypeError, r"scalar fill_value"),
    ("shape", lambda: lax.full((2.5,), 0), TypeError, r"1D sequences of concrete values"),
    ("pow", lambda: lax.pow(N, N), TypeError, r"pow does not accept dtype int32"),
    (
        "reduce-tree",
        lambda: lax.reduce((X, X), 0.0, lax.add, (0,)),
        TypeError,
        r"same tree structure",
    ),
    ("collapse", lambda: lax.collapse(X, 2, 1), ValueError, r"Invalid dimension range"),
]


@pytest.mark.parametrize("call, kind, text", [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_error(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize("call, kind, text", [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_same_error_under_jit(call, kind, text):
    with pytest.raises(kind, match=text):
        pyjax.jit(lambda: call())()


def test_message_names_the_users_line():
    with pytest.raises(TypeError, match=r"test_lax_errors\.py:\d+ in test_message_names"):
        lax.add(X, N)


def test_polygamma_order_derivative():
    with pytest.raises(ValueError, match="with respect to m is not supported"):
        pyjax.jvp(lambda m: lax.polygamma(m, np.float32(2)), (np.float32(1),), (np.float32(1),))
