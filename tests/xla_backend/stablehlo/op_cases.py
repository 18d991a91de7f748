# ruff: noqa: E501
"""One or more small programs per StableHLO operation, with inputs and what NumPy or SciPy say.

A case is (operations, inputs, expected): `%a`, `%b`, ... are the inputs, the last operation's results
are returned. `T` stands for the type of `%a`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

Case = tuple[str, list[np.ndarray], list[np.ndarray]]

F = np.array([[1.5, -2.0, 0.25], [3.0, -0.5, 4.0]], np.float32)
G = np.array([[0.5, 2.0, -1.25], [1.0, 8.0, -3.0]], np.float32)
P = np.abs(F) / 5 + np.float32(0.1)  # in (0, 1)
V = np.array([1.0, -2.0, 3.0], np.float32)
I = np.array([[5, -7, 3], [0, 12, -1]], np.int32)
J = np.array([[2, 3, -2], [7, 5, 1]], np.int32)
U = np.array([1, 2, 0xFFFFFFFF], np.uint32)
B = np.array([[True, False, True], [False, False, True]])
C = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j], np.complex64)
S = np.float32(2.5) * np.ones((), np.float32)
N = np.array(2, np.int32)
SPD = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], np.float32)
LOW = np.tril(SPD).astype(np.float32)
IMG = (np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2) % 7) - 3
KER = (np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3) % 5) - 2

CASES: dict[str, list[Case]] = {}


def case(op: str, text: str, inputs: list[np.ndarray], *expected: Any) -> None:
    CASES.setdefault(op, []).append((text, inputs, [np.asarray(e) for e in expected]))


# -- elementwise -----------------------------------------------------------------------------------

_UNARY: dict[str, tuple[np.ndarray, Any]] = {
    "abs": (F, np.abs),
    "cbrt": (F, np.cbrt),
    "ceil": (F, np.ceil),
    "cosine": (F, np.cos),
    "exponential": (F, np.exp),
    "exponential_minus_one": (F, np.expm1),
    "floor": (F, np.floor),
    "log": (P, np.log),
    "log_plus_one": (P, np.log1p),
    "logistic": (F, scipy.special.expit),
    "negate": (F, np.negative),
    "round_nearest_even": (F, np.rint),
    "rsqrt": (P, lambda x: 1 / np.sqrt(x)),
    "sign": (F, np.sign),
    "sine": (F, np.sin),
    "sqrt": (P, np.sqrt),
    "tan": (F, np.tan),
    "tanh": (F, np.tanh),
    "not": (I, np.invert),
    "popcnt": (U, lambda x: np.array([1, 1, 32], np.uint32)),
    "count_leading_zeros": (U, lambda x: np.array([31, 30, 0], np.uint32)),
}
for _name, (_x, _f) in _UNARY.items():
    case(_name, f"stablehlo.{_name} %a : T", [_x], _f(_x).astype(_x.dtype))
case(
    "round_nearest_afz",
    "stablehlo.round_nearest_afz %a : T",
    [F],
    np.float32([[2, -2, 0], [3, -1, 4]]),
)
case("abs", "stablehlo.abs %a : (T) -> tensor<3xf32>", [C], np.abs(C))
case("real", "stablehlo.real %a : (T) -> tensor<3xf32>", [C], C.real)
case("imag", "stablehlo.imag %a : (T) -> tensor<3xf32>", [C], C.imag)
case(
    "is_finite",
    "stablehlo.is_finite %a : (T) -> tensor<3xi1>",
    [np.float32([1, np.inf, np.nan])],
    [True, False, False],
)
case(
    "complex",
    "stablehlo.complex %a, %b : tensor<3xcomplex<f32>>",
    [V, V[::-1].copy()],
    V + 1j * V[::-1],
)

_BINARY: dict[str, tuple[np.ndarray, np.ndarray, Any]] = {
    "add": (F, G, np.add),
    "subtract": (F, G, np.subtract),
    "multiply": (F, G, np.multiply),
    "divide": (F, G, np.divide),
    "remainder": (F, G, np.fmod),
    "maximum": (F, G, np.maximum),
    "minimum": (F, G, np.minimum),
    "atan2": (F, G, np.arctan2),
    "power": (P, G, np.power),
    "and": (I, J, np.bitwise_and),
    "or": (I, J, np.bitwise_or),
    "xor": (I, J, np.bitwise_xor),
    "shift_left": (I, np.abs(J), np.left_shift),
    "shift_right_arithmetic": (I, np.abs(J), np.right_shift),
    "shift_right_logical": (
        I,
        np.abs(J),
        lambda a, b: (a.view(np.uint32) >> b.view(np.uint32)).view(np.int32),
    ),
}
for _name, (_x, _y, _f) in _BINARY.items():
    case(_name, f"stablehlo.{_name} %a, %b : T", [_x, _y], _f(_x, _y).astype(_x.dtype))
case("and", "stablehlo.and %a, %b : T", [B, ~B], B & ~B)
case("compare", "stablehlo.compare LT, %a, %b, FLOAT : (T, T) -> tensor<2x3xi1>", [F, G], F < G)
case("compare", "stablehlo.compare GE, %a, %b, SIGNED : (T, T) -> tensor<2x3xi1>", [I, J], I >= J)
case(
    "compare",
    "stablehlo.compare LT, %a, %b, TOTALORDER : (T, T) -> tensor<2xi1>",
    [np.float32([-0.0, 1]), np.float32([0.0, np.nan])],
    [True, True],
)
case("select", "stablehlo.select %a, %b, %c : T, tensor<2x3xf32>", [B, F, G], np.where(B, F, G))
case("select", "stablehlo.select %a, %b, %c : T, tensor<2x3xf32>", [np.array(True), F, G], F)
case(
    "clamp",
    "stablehlo.clamp %a, %b, %a : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
    [S, F],
    np.full_like(F, 2.5),
)
case("convert", "stablehlo.convert %a : (T) -> tensor<2x3xi32>", [F], F.astype(np.int32))
case(
    "bitcast_convert",
    "stablehlo.bitcast_convert %a : (T) -> tensor<2x3xi32>",
    [F],
    F.view(np.int32),
)
case(
    "bitcast_convert",
    "stablehlo.bitcast_convert %a : (T) -> tensor<3x4xui8>",
    [V],
    V.view(np.uint8).reshape(3, 4),
)
case(
    "reduce_precision",
    "stablehlo.reduce_precision %a, format = e8m2 : T",
    [np.float32([1.1, 3.3])],
    np.float32([1.0, 3.5]),
)
case(
    "map",
    """"stablehlo.map"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.multiply %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>
  }) : (T, T) -> T""",
    [F, G],
    F * G,
)

# -- shapes ----------------------------------------------------------------------------------------

case("constant", "stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>", [], np.float32([1.5, 2.5]))
case("iota", "stablehlo.iota dim = 1 : tensor<2x3xi32>", [], np.int32([[0, 1, 2]] * 2))
case(
    "broadcast",
    "stablehlo.broadcast %a, sizes = [2, 1] : (T) -> tensor<2x1x3xf32>",
    [V],
    np.broadcast_to(V, (2, 1, 3)),
)
case(
    "broadcast_in_dim",
    "stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<1x3xf32>) -> tensor<2x4x3xf32>",
    [V[None]],
    np.broadcast_to(V, (2, 4, 3)),
)
case("reshape", "stablehlo.reshape %a : (T) -> tensor<3x2xf32>", [F], F.reshape(3, 2))
case("transpose", "stablehlo.transpose %a, dims = [1, 0] : (T) -> tensor<3x2xf32>", [F], F.T)
case("reverse", "stablehlo.reverse %a, dims = [1] : T", [F], F[:, ::-1])
case("slice", "stablehlo.slice %a [0:2, 0:3:2] : (T) -> tensor<2x2xf32>", [F], F[:, ::2])
case(
    "concatenate",
    "stablehlo.concatenate %a, %b, dim = 0 : (T, T) -> tensor<4x3xf32>",
    [F, G],
    np.concatenate([F, G]),
)
case(
    "pad",
    "stablehlo.pad %a, %b, low = [1], high = [-1], interior = [1] : (T, tensor<f32>) -> tensor<5xf32>",
    [V, S],
    np.float32([2.5, 1, 2.5, -2, 2.5]),
)
case(
    "dynamic_slice",
    "stablehlo.dynamic_slice %a, %b, %b, sizes = [1, 2] : (T, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>",
    [F, N],
    F[1:2, 1:3],
)
case(
    "dynamic_update_slice",
    "stablehlo.dynamic_update_slice %a, %b, %c : (T, tensor<1xf32>, tensor<i32>) -> T",
    [V, np.float32([9]), N],
    np.float32([1, -2, 9]),
)
case(
    "get_dimension_size",
    "stablehlo.get_dimension_size %a, dim = 1 : (T) -> tensor<i32>",
    [F],
    np.int32(3),
)
case(
    "set_dimension_size",
    "%n = stablehlo.constant dense<2> : tensor<i32>\n%r = stablehlo.set_dimension_size %a, %n, dim = 0 : (T, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>",
    [V],
    V[:2],
)
case(
    "torch_index_select",
    '"stablehlo.torch_index_select"(%a, %b) <{batch_dims = 0 : i64, dim = 1 : i64}> : (T, tensor<2xi32>) -> tensor<2x2xf32>',
    [F, np.int32([2, 0])],
    F[:, [2, 0]],
)
case(
    "torch_index_select",
    '"stablehlo.torch_index_select"(%a, %b) <{batch_dims = 1 : i64, dim = 1 : i64}> : (T, tensor<2x2xi32>) -> tensor<2x2xf32>',
    [F, np.int32([[2, 0], [1, 1]])],
    np.take_along_axis(F, np.array([[2, 0], [1, 1]]), 1),
)

_SHAPE = "%n = stablehlo.constant dense<[{}]> : tensor<{}xi32>\n%r = "
case(
    "dynamic_reshape",
    _SHAPE.format("3, 2", 2)
    + "stablehlo.dynamic_reshape %a, %n : (T, tensor<2xi32>) -> tensor<?x?xf32>",
    [F],
    F.reshape(3, 2),
)
case(
    "dynamic_broadcast_in_dim",
    _SHAPE.format("2, 3", 2)
    + "stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [1] : (T, tensor<2xi32>) -> tensor<?x3xf32>",
    [V],
    np.stack([V, V]),
)
case(
    "dynamic_iota",
    "%h = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n%n = stablehlo.add %h, %h : tensor<2xi32>\n%r = stablehlo.dynamic_iota %n, dim = 1 : (tensor<2xi32>) -> tensor<?x?xi32>",
    [],
    np.int32([[0, 1, 2, 3]] * 2),
)
case(
    "dynamic_pad",
    _SHAPE.format("1", 1)
    + "stablehlo.dynamic_pad %a, %b, %n, %n, %n : (T, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>",
    [V, S],
    np.float32([2.5, 1, 2.5, -2, 2.5, 3, 2.5]),
)
case(
    "real_dynamic_slice",
    _SHAPE.format("1", 1)
    + "stablehlo.constant dense<[3]> : tensor<1xi32>\n%s = stablehlo.real_dynamic_slice %a, %n, %r, %n : (T, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>",
    [V],
    V[1:],
)
case(
    "dynamic_gather",
    _SHAPE.format("1, 3", 2)
    + '"stablehlo.dynamic_gather"(%a, %b, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (T, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>',
    [F, np.int32([1, 0])],
    F[[1, 0]],
)
_CONV = sum(
    np.einsum("bhwi,io->bhwo", IMG[:, dy : dy + 3, dx : dx + 3], KER[dy, dx])
    for dy in range(2)
    for dx in range(2)
)
case(
    "dynamic_conv",
    "%n = stablehlo.constant dense<0> : tensor<2x2xi32>\n"
    + '%r = "stablehlo.dynamic_conv"(%a, %b, %n) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (T, tensor<2x2x2x3xf32>, tensor<2x2xi32>) -> tensor<1x3x3x3xf32>',
    [IMG, KER],
    _CONV,
)

# -- contractions, windows, indexing ---------------------------------------------------------------

case("dot", "stablehlo.dot %a, %b : (T, tensor<3x3xf32>) -> tensor<2x3xf32>", [F, SPD], F @ SPD)
case(
    "dot_general",
    "stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (T, T) -> tensor<2xf32>",
    [F, G],
    (F * G).sum(1),
)
case(
    "dot_general",
    "stablehlo.dot_general %a, %b, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (T, T) -> tensor<2x2xi32>",
    [I, J],
    I @ J.T,
)
case(
    "einsum",
    'stablehlo.einsum %a, %b, config = "ij,kj->ki" : (T, T) -> tensor<2x2xf32>',
    [F, G],
    np.einsum("ij,kj->ki", F, G),
)
case(
    "einsum",
    'stablehlo.einsum %a, %b, config = "ii,jk->jik" : (T, tensor<2x3xf32>) -> tensor<2x3x3xf32>',
    [SPD, F],
    np.einsum("ii,jk->jik", SPD, F),
)
case(
    "unary_einsum",
    'stablehlo.unary_einsum %a, config = "ij->j" : (T) -> tensor<3xf32>',
    [F],
    F.sum(0),
)
case(
    "unary_einsum",
    'stablehlo.unary_einsum %a, config = "ii->i" : (T) -> tensor<3xf32>',
    [SPD],
    np.diag(SPD),
)
case(
    "convolution",
    "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (T, tensor<2x2x2x3xf32>) -> tensor<1x3x3x3xf32>",
    [IMG, KER],
    _CONV,
)
case(
    "convolution",
    "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 1]], rhs_dilate = [1], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x1xf32>, tensor<3x1x1xf32>) -> tensor<1x2x1xf32>",
    [np.float32([1, 2, 3, 4]).reshape(1, 4, 1), np.float32([1, 10, 100]).reshape(3, 1, 1)],
    np.float32([12, 234]).reshape(1, 2, 1),
)
case(
    "reduce",
    "stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [1] : (T, tensor<f32>) -> tensor<2xf32>",
    [F, S],
    F.sum(1) + 2.5,
)
case(
    "reduce",
    """stablehlo.reduce(%a init: %c), (%b init: %d) across dimensions = [1] : (T, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %p = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %p, %x, %y : tensor<i1>, tensor<f32>
    %k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %k : tensor<f32>, tensor<i32>
  }""",
    [
        F,
        np.int32([[0, 1, 2]] * 2),
        np.float32(-np.inf) * np.ones((), np.float32),
        np.array(0, np.int32),
    ],
    F.max(1),
    F.argmax(1).astype(np.int32),
)
_ADD = """({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>
  })"""
case(
    "reduce_window",
    f'"stablehlo.reduce_window"(%a, %b) <{{window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}}> {_ADD} : (T, tensor<f32>) -> T',
    [F, np.zeros((), np.float32)],
    F + np.pad(F, ((0, 0), (1, 0)))[:, :-1],
)
case(
    "select_and_scatter",
    """"stablehlo.select_and_scatter"(%a, %b, %c) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }, """
    + _ADD[1:]
    + " : (T, tensor<2xf32>, tensor<f32>) -> T",
    [np.float32([1, 5, 4, 2]), np.float32([10, 20]), np.zeros((), np.float32)],
    np.float32([0, 10, 20, 0]),
)
case(
    "sort",
    """"stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
    %z = stablehlo.compare LT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (T, tensor<3xi32>) -> (T, tensor<3xi32>)""",
    [V, np.int32([0, 1, 2])],
    np.sort(V),
    np.argsort(V).astype(np.int32),
)
case(
    "gather",
    '"stablehlo.gather"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (T, tensor<3xi32>) -> tensor<3x3xf32>',
    [F, np.int32([1, 0, 1])],
    F[[1, 0, 1]],
)
case(
    "scatter",
    f'"stablehlo.scatter"(%a, %b, %c) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> {_ADD} : (T, tensor<2xi32>, T) -> T',
    [F, np.int32([1, 1]), G],
    F + np.stack([0 * G[0], G.sum(0)]),
)

# -- linear algebra, transforms, normalisation -----------------------------------------------------

case("cholesky", "stablehlo.cholesky %a, lower = true : T", [SPD], np.linalg.cholesky(SPD))
case(
    "triangular_solve",
    '"stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (T, T) -> T',
    [LOW, SPD],
    scipy.linalg.solve_triangular(LOW, SPD, trans="T", lower=True),
)
case(
    "fft",
    "stablehlo.fft %a, type = FFT, length = [3] : (T) -> T",
    [C],
    np.fft.fft(C).astype(np.complex64),
)
case(
    "fft",
    "stablehlo.fft %a, type = RFFT, length = [3] : (T) -> tensor<2xcomplex<f32>>",
    [V],
    np.fft.rfft(V).astype(np.complex64),
)
_MEAN, _VAR = F.mean(0), F.var(0)
_NORM = (F - _MEAN) / np.sqrt(_VAR + np.float32(0.001))
_BN = "<{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}>"
_TV = "tensor<3xf32>"
case(
    "batch_norm_training",
    f'"stablehlo.batch_norm_training"(%a, %b, %b) {_BN} : (T, {_TV}, {_TV}) -> (T, {_TV}, {_TV})',
    [F, V],
    _NORM * V + V,
    _MEAN,
    _VAR,
)
case(
    "batch_norm_inference",
    f'"stablehlo.batch_norm_inference"(%a, %b, %b, %c, %d) {_BN} : (T, {_TV}, {_TV}, {_TV}, {_TV}) -> T',
    [F, V, _MEAN, _VAR],
    _NORM * V + V,
)
case(
    "batch_norm_grad",
    f'"stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) {_BN} : (T, {_TV}, {_TV}, {_TV}, T) -> (T, {_TV}, {_TV})',
    [F, V, _MEAN, _VAR, G],
    (V / np.sqrt(_VAR + np.float32(0.001)))
    * (G - G.mean(0) - (F - _MEAN) * (G * (F - _MEAN)).mean(0) / (_VAR + np.float32(0.001))),
    (G * _NORM).sum(0),
    G.sum(0),
)

# -- random numbers: statements that hold for any generator ----------------------------------------

case(
    "rng",
    "%n = stablehlo.constant dense<[4]> : tensor<1xi64>\n%r = stablehlo.rng %a, %a, %n, distribution = UNIFORM : (T, T, tensor<1xi64>) -> tensor<4xf32>\n%s = stablehlo.subtract %r, %r : tensor<4xf32>",
    [S],
    np.zeros(4, np.float32),
)
case(
    "rng_bit_generator",
    "%st, %o = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : (T) -> (T, tensor<2xui32>)\n%s = stablehlo.subtract %o, %o : tensor<2xui32>",
    [np.array([1, 2], np.uint64)],
    np.zeros(2, np.uint32),
)

# -- control flow, tuples, calls -------------------------------------------------------------------

_BRANCHES = "({\n%x = stablehlo.add %a, %a : tensor<3xf32>\nstablehlo.return %x : tensor<3xf32>\n}, {\nstablehlo.return %a : tensor<3xf32>\n})"
case(
    "if",
    f'"stablehlo.if"(%b) {_BRANCHES} : (tensor<i1>) -> tensor<3xf32>',
    [V, np.array(True)],
    V + V,
)
case(
    "if", f'"stablehlo.if"(%b) {_BRANCHES} : (tensor<i1>) -> tensor<3xf32>', [V, np.array(False)], V
)
case(
    "case",
    f'"stablehlo.case"(%b) {_BRANCHES} : (tensor<i32>) -> tensor<3xf32>',
    [V, np.array(7, np.int32)],
    V,
)
case(
    "while",
    """stablehlo.while(%x = %a, %i = %b) : tensor<3xf32>, tensor<i32>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %o = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %o : tensor<i32>
    %y = stablehlo.add %x, %c : tensor<3xf32>
    stablehlo.return %y, %j : tensor<3xf32>, tensor<i32>
  }""",
    [V, N, V],
    4 * V,
    np.int32(5),
)
case(
    "tuple",
    "%t = stablehlo.tuple %a, %b : tuple<T, tensor<2x3xi32>>\n%r = stablehlo.get_tuple_element %t[1] : (tuple<T, tensor<2x3xi32>>) -> tensor<2x3xi32>",
    [F, I],
    I,
)
case(
    "get_tuple_element",
    "%t = stablehlo.tuple %a : tuple<T>\n%r = stablehlo.get_tuple_element %t[0] : (tuple<T>) -> T",
    [F],
    F,
)
case("optimization_barrier", "stablehlo.optimization_barrier %a, %b : T, T", [F, G], F, G)
case(
    "composite",
    'stablehlo.composite "my.double" %a {decomposition = @double, version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>',
    [V],
    V + V,
)
case(
    "custom_call",
    "stablehlo.custom_call @check.expect_eq(%a, %a) {has_side_effect = true} : (T, T) -> ()\n%r = call @double(%a) : (T) -> T",
    [V],
    V + V,
)
case(
    "create_token",
    "%t = stablehlo.create_token : !stablehlo.token\n%r = stablehlo.negate %a : T",
    [V],
    -V,
)
case(
    "after_all",
    "%t = stablehlo.create_token : !stablehlo.token\n%u = stablehlo.after_all %t, %t : !stablehlo.token\n%r = stablehlo.negate %a : T",
    [V],
    -V,
)
case(
    "async_start",
    """%f = "stablehlo.async_start"(%a) ({
  ^bb0(%x: T):
    %y = stablehlo.slice %x [0:2] : (T) -> tensor<2xf32>
    stablehlo.return %y : tensor<2xf32>
  }) : (T) -> !stablehlo.future<tensor<2xf32>>
  %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>""",
    [V],
    V[:2],
)
CASES["async_done"] = CASES["async_start"]

# -- quantization ----------------------------------------------------------------------------------

_Q = "tensor<3x!quant.uniform<i8:f32, 0.5:3>>"
case(
    "uniform_quantize",
    f"%q = stablehlo.uniform_quantize %a : (T) -> {_Q}\n%r = stablehlo.uniform_dequantize %q : ({_Q}) -> T",
    [np.float32([1.1, -0.25, 1000])],
    np.float32([1.0, 0.0, 62.0]),
)
_Q1 = "tensor<2x3x!quant.uniform<i8<-10:10>:f32:1, {0.5, 1.0:1, 2.0}>>"
case(
    "uniform_dequantize",
    f"%q = stablehlo.uniform_quantize %a : (T) -> {_Q1}\n%p = stablehlo.reshape %q : ({_Q1}) -> {_Q1}\n%r = stablehlo.uniform_dequantize %p : ({_Q1}) -> T",
    [F],
    np.float32([[1.5, -2, 0], [3, 0, 4]]),
)

# -- collectives among one device ------------------------------------------------------------------

_ONE = "replica_groups = dense<0> : tensor<1x1xi64>"
case(
    "all_gather",
    f'"stablehlo.all_gather"(%a) <{{all_gather_dim = 0 : i64, {_ONE}}}> : (T) -> T',
    [F],
    F,
)
case("all_reduce", f'"stablehlo.all_reduce"(%a) <{{{_ONE}}}> {_ADD} : (T) -> T', [F], F)
case(
    "all_to_all",
    f'"stablehlo.all_to_all"(%a) <{{concat_dimension = 1 : i64, {_ONE}, split_count = 1 : i64, split_dimension = 0 : i64}}> : (T) -> T',
    [F],
    F,
)
case(
    "collective_broadcast", f'"stablehlo.collective_broadcast"(%a) <{{{_ONE}}}> : (T) -> T', [F], F
)
case(
    "collective_permute",
    '"stablehlo.collective_permute"(%a) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (T) -> T',
    [F],
    F,
)
case("cross-replica-sum", f'"stablehlo.cross-replica-sum"(%a) <{{{_ONE}}}> : (T) -> T', [F], F)
case(
    "reduce_scatter",
    f'"stablehlo.reduce_scatter"(%a) <{{{_ONE}, scatter_dimension = 0 : i64}}> {_ADD} : (T) -> T',
    [F],
    F,
)
case("partition_id", "stablehlo.partition_id : tensor<ui32>", [], np.uint32(0))
case("replica_id", "stablehlo.replica_id : tensor<ui32>", [], np.uint32(0))

# -- CHLO ------------------------------------------------------------------------------------------

X = np.float32([-3.2, -0.7, 0.1, 0.5, 0.999, 1.5, 2.0, 7.3, 12.0])
W = np.float32([-0.999, -0.5, -1e-3, 0.0, 0.25, 0.9, 0.9999, 1.0])
Z = np.array([0.5 + 0.25j, -1.5 + 2j, 0.1 - 3j], np.complex64)
_CHLO: dict[str, tuple[np.ndarray, Any]] = {
    "acos": (W, np.arccos),
    "acosh": (X[5:], np.arccosh),
    "asin": (W, np.arcsin),
    "asinh": (X, np.arcsinh),
    "atan": (X, np.arctan),
    "atanh": (W[:-1], np.arctanh),
    "bessel_i1e": (X, scipy.special.i1e),
    "conj": (Z, np.conj),
    "cosh": (X, np.cosh),
    "digamma": (X, scipy.special.digamma),
    "erf": (X, scipy.special.erf),
    "erf_inv": (W, scipy.special.erfinv),
    "erfc": (X, scipy.special.erfc),
    "lgamma": (X, scipy.special.gammaln),
    "sinh": (X, np.sinh),
    "square": (X, np.square),
    "tan": (X, np.tan),
}
for _name, (_x, _f) in _CHLO.items():
    _wide = _x.astype(np.complex128 if _x.dtype.kind == "c" else np.float64)
    case(f"chlo.{_name}", f"chlo.{_name} %a : T -> T", [_x], _f(_wide).astype(_x.dtype))
case(
    "chlo.atan",
    "chlo.atan %a : T -> T",
    [Z],
    np.arctan(Z.astype(np.complex128)).astype(np.complex64),
)
case(
    "chlo.lgamma",
    "chlo.lgamma %a : T -> T",
    [X.astype(np.float64)],
    scipy.special.gammaln(X.astype(np.float64)),
)
_ORDER, _Q0 = np.float32([0, 1, 2, 3]), np.float32([0.5, 1.5, 2.5, 9.0])
case(
    "chlo.polygamma",
    "chlo.polygamma %a, %b : T, T -> T",
    [_ORDER, _Q0],
    scipy.special.polygamma(_ORDER.astype(int), _Q0.astype(np.float64)).astype(np.float32),
)
_FAR_BELOW = np.float32([0.5, 1.5, -2.5, -12.25])
case(
    "chlo.zeta",
    "chlo.zeta %a, %b : T, T -> T",
    [_ORDER + 2, _FAR_BELOW],
    scipy.special.zeta(_ORDER.astype(np.float64) + 2, _FAR_BELOW).astype(np.float32),
)
_NEXT = np.float32([1, 0, -1, np.nan, 3, -0.0]), np.float32([2, -1, -2, 1, 3, 1])
case("chlo.next_after", "chlo.next_after %a, %b : T, T -> T", list(_NEXT), np.nextafter(*_NEXT))
case(
    "chlo.mulhi",
    "chlo.mulhi %a, %b : T, T -> T",
    [U, U],
    ((U.astype(np.uint64) ** 2) >> np.uint64(32)).astype(np.uint32),
)
case(
    "chlo.is_inf",
    "chlo.is_inf %a : T -> tensor<3xi1>",
    [np.float32([1, -np.inf, np.nan])],
    [False, True, False],
)
case(
    "chlo.is_pos_inf",
    "chlo.is_pos_inf %a : T -> tensor<2xi1>",
    [np.float32([np.inf, -np.inf])],
    [True, False],
)
case(
    "chlo.is_neg_inf",
    "chlo.is_neg_inf %a : T -> tensor<2xi1>",
    [np.float32([np.inf, -np.inf])],
    [False, True],
)
case("chlo.constant", "chlo.constant dense<1.5> : tensor<f32>", [], np.float32(1.5))
case(
    "chlo.constant_like",
    '"chlo.constant_like"(%a) <{value = 2.5 : f32}> : (T) -> T',
    [F],
    np.full_like(F, 2.5),
)
case("chlo.broadcast_add", "chlo.broadcast_add %a, %b : (T, tensor<3xf32>) -> T", [F, V], F + V)
case(
    "chlo.broadcast_multiply",
    "chlo.broadcast_multiply %a, %b {broadcast_dimensions = array<i64: 0>} : (T, tensor<2xf32>) -> T",
    [F, V[:2].copy()],
    F * V[:2, None],
)
case(
    "chlo.broadcast_compare",
    "chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>} : (T, tensor<1x3xf32>) -> tensor<2x3xi1>",
    [F, V[None]],
    F < V,
)
case(
    "chlo.broadcast_select",
    "chlo.broadcast_select %a, %b, %c : (T, tensor<3xf32>, tensor<f32>) -> tensor<2x3xf32>",
    [B, V, S],
    np.where(B, V, S),
)
case(
    "chlo.broadcast_next_after",
    "chlo.broadcast_next_after %a, %b : (T, tensor<f32>) -> T",
    [V, S],
    np.nextafter(V, S),
)
case(
    "chlo.broadcast_zeta",
    "chlo.broadcast_zeta %a, %b : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>",
    [S, _Q0],
    scipy.special.zeta(2.5, _Q0.astype(np.float64)).astype(np.float32),
)
case(
    "chlo.broadcast_polygamma",
    "chlo.broadcast_polygamma %a, %b : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>",
    [np.ones((), np.float32), _Q0],
    scipy.special.polygamma(1, _Q0.astype(np.float64)).astype(np.float32),
)
case(
    "chlo.top_k",
    "chlo.top_k(%a, k = 2) : T -> (tensor<2x2xf32>, tensor<2x2xi32>)",
    [F],
    -np.sort(-F)[:, :2],
    np.argsort(-F)[:, :2].astype(np.int32),
)
_RAGGED = '"chlo.ragged_dot"(%a, %b, %c) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}], lhs_ragged_dimensions = [{}]{}>}}> : (T, {}, tensor<2xi32>) -> {}'
_R = np.arange(12, dtype=np.float32).reshape(4, 3)
_RG = np.arange(12, dtype=np.float32).reshape(2, 3, 2) - 4
case(
    "chlo.ragged_dot",
    _RAGGED.format(1, 1, 0, ", rhs_group_dimensions = [0]", "tensor<2x3x2xf32>", "tensor<4x2xf32>"),
    [_R, _RG, np.int32([1, 2])],
    np.concatenate([_R[:1] @ _RG[0], _R[1:3] @ _RG[1], np.zeros((1, 2), np.float32)]),
)
case(
    "chlo.ragged_dot",
    _RAGGED.format(0, 0, 0, "", "tensor<4x2xf32>", "tensor<2x3x2xf32>"),
    [_R, _R[:, :2].copy(), np.int32([1, 2])],
    np.stack([_R[:1].T @ _R[:1, :2], _R[1:3].T @ _R[1:3, :2]]),
)
