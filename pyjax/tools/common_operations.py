"""Operations that programs call eagerly most often, for what is compiled ahead.

The names are those that libraries on JAX use most. An operation on arrays of any size is one
program, so each stands here once for a dtype and a kind of operands. Left out is what is compiled
for its shapes (products, sorts, running sums): there is no end of those.

  python -m pyjax.tools.common_operations [--x64] [--cpu NAME]     call them all
                                          [--attended]             and end with standard input
"""

from __future__ import annotations

import argparse
import itertools
import operator
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pyjax import nn, random
from pyjax import numpy as jnp
from pyjax._config import config
from pyjax.api.grad import grad, value_and_grad
from pyjax.api.vmap import vmap
from pyjax.runtime.placement import device_put
from xla_backend.process.ending import end_after
from xla_backend.process.on_first_use import on_first_use

_target_named = on_first_use("xla_backend.tools.precompile", "target_named")
_compile_as_for = on_first_use("xla_backend.targets.cpu.target_options", "compile_as_for")

Call = Callable[[], Any]

_UNARY = (
    "abs ceil cos cosh exp exp2 expm1 floor isfinite isinf isnan log log10 log1p log2 negative "
    "reciprocal rint round sign sin sinh sqrt square tan tanh arctan"
).split()
# Of floats, with derivatives.
_SMOOTH = (
    "abs cos cosh exp exp2 expm1 log log10 log1p log2 negative reciprocal sin sinh sqrt square tan "
    "tanh arctan"
).split()
_UNARY_OF_INTEGERS = "abs invert negative sign square".split()
_ACTIVATIONS = "sigmoid softplus silu gelu".split()
_ARITHMETIC = "add subtract multiply".split()
_DIVISIONS = "true_divide floor_divide remainder".split()
_COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
_PAIRS = "maximum minimum arctan2 power logaddexp".split()
# With a number on either side an operator is another program than the function of that name.
_OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip
_LOGICAL = "logical_and logical_or logical_xor".split()
_REDUCTIONS = "sum mean max min prod".split()
_SPREADS = "std var".split()
_PLACES = "argmax argmin".split()
_TRUTHS = "any all".split()
_ROWS = "softmax log_softmax logsumexp".split()


# A reduction's order depends on sizes. Which a program of a size has is kept with it, and written
# whenever there are twice as many: of both, powers of two.
VECTORS = (
    *range(2, 17), 20, 24, 32, 50, 64, 100, 128, 200, 256, 500, 512, 784, 1000, 1024, 2048, 4096,
    10_000,
)  # fmt: skip
MATRICES = tuple(itertools.product((2, 3, 4, 5, 8, 10, 32, 100), (3, 4, 10, 100)))


def common_operations(x64: bool) -> Iterator[Call]:
    """The calls, for types of 32 bits, or those that 64-bit mode has by default."""
    number, integer = (np.float64, np.int64) if x64 else (np.float32, np.int32)
    x = _array(number, 12)
    i = _array(integer, 12)
    truths = x > 1
    yield lambda: x > 1
    yield from _elementwise(x, i, truths)
    yield from _with_numbers(x, i)
    yield from _transformed(x)
    yield from _reductions(x, i, truths)
    yield from _with_rows_and_columns(x)
    yield from _indexed(x, i)
    yield from _made(number, integer)


def _array(dtype: Any, size: int) -> Any:
    """Without a program of its own."""
    return device_put(np.arange(1, size + 1).astype(dtype))


def _matrix(dtype: Any, shape: tuple[int, int]) -> Any:
    rows, columns = shape
    return device_put(np.arange(1, rows * columns + 1).astype(dtype).reshape(shape))


def _elementwise(x: Any, i: Any, truths: Any) -> Iterator[Call]:
    for name in _UNARY:
        yield _applied(getattr(jnp, name), x)
    for name in _ACTIVATIONS:
        yield _applied(getattr(nn, name), x)
    for name in _UNARY_OF_INTEGERS:
        yield _applied(getattr(jnp, name), i)
    for name in (*_ARITHMETIC, *_DIVISIONS, *_COMPARISONS, "maximum", "minimum"):
        function = getattr(jnp, name)
        for array, one in ((x, 2.0), (x, 2), (i, 2)):
            yield _applied(function, array, array)
            yield _applied(function, array, one)
            yield _applied(function, one, array)
    for name in _PAIRS:
        yield _applied(getattr(jnp, name), x, x)
    for array, power in itertools.product((x, i), (2, 3)):
        yield _applied(lambda a, p: a**p, array, power)
    yield _applied(lambda a: a**0.5, x)
    for name in (*_LOGICAL, "bitwise_and", "bitwise_or"):
        yield _applied(getattr(jnp, name), truths, truths)
    yield _applied(jnp.logical_not, truths)
    yield _applied(lambda a: ~a, truths)
    for array, zero in ((x, 0.0), (i, 0)):
        yield _applied(jnp.where, truths, array, array)
        yield _applied(jnp.where, truths, array, zero)
        yield _applied(jnp.where, truths, zero, array)
        yield _applied(jnp.clip, array, 0, 1)
        yield _applied(jnp.zeros_like, array)
        yield _applied(jnp.ones_like, array)
    kinds = (x, i, truths)
    for array, other in itertools.permutations(kinds, 2):
        yield _applied(lambda a, b: a.astype(b.dtype), array, other)


def _with_numbers(x: Any, i: Any) -> Iterator[Call]:
    for operate, array, number in itertools.product(_OPERATORS, (x, i), (2.5, 2)):
        yield _applied(operate, array, number)
        yield _applied(operate, number, array)
    yield _applied(operator.truediv, i, i)


def _transformed(x: Any) -> Iterator[Call]:
    """Derivatives and mapped functions run one primitive at a time, each of which is a program."""
    for name in _SMOOTH:
        function = getattr(jnp, name)
        yield _applied(grad(lambda v, f=function: f(v).sum()), x)
    for operate, one in itertools.product(_OPERATORS, (2.5, 2)):
        yield _applied(vmap(lambda v, f=operate, n=one: f(v, n)), x)
        yield _applied(vmap(lambda v, f=operate, n=one: f(n, v)), x)
    for operate in _OPERATORS:
        yield _applied(vmap(operate), x, x)
    for reduction in (jnp.sum, jnp.mean, jnp.max):
        yield _applied(grad(lambda v, f=reduction: f(v * v)), x)
    yield _applied(value_and_grad(lambda v: ((v - 1) ** 2).mean()), x)


def _reductions(x: Any, i: Any, truths: Any) -> Iterator[Call]:
    kinds = ((_REDUCTIONS, (x, i)), (_SPREADS, (x,)), (_PLACES, (x, i)), (_TRUTHS, (truths,)))
    for names, arrays in kinds:
        for name, array in itertools.product(names, arrays):
            function = getattr(jnp, name)
            for size in VECTORS:
                yield _applied(function, _array(array.dtype, size))
            for shape, axis in itertools.product(MATRICES, (0, 1)):
                yield _applied(function, _matrix(array.dtype, shape), axis)
    for shape in MATRICES:
        matrix = _matrix(x.dtype, shape)
        for name in _ROWS:
            yield _applied(getattr(nn, name), matrix)
        for kept in (jnp.mean, jnp.sum, jnp.max):
            yield _applied(lambda m, f: f(m, 1, keepdims=True), matrix, kept)
    for size in VECTORS:
        vector = _array(x.dtype, size)
        yield _applied(jnp.sum, vector > 1)
        yield _applied(jnp.linalg.norm, vector)
        yield _applied(jnp.allclose, vector, vector)
        yield _applied(jnp.array_equal, vector, vector)


def _with_rows_and_columns(x: Any) -> Iterator[Call]:
    matrix = x.reshape(3, 4)
    row, column = matrix[0], matrix[:, :1]
    for name in (*_ARITHMETIC, "true_divide"):
        function = getattr(jnp, name)
        yield _applied(function, matrix, row)
        yield _applied(function, matrix, column)
        yield _applied(function, column, row)
    yield _applied(jnp.outer, row, row)


def _indexed(x: Any, i: Any) -> Iterator[Call]:
    matrix = x.reshape(3, 4)
    places = i[:3] % 3
    yield lambda: x[places]
    yield lambda: matrix[places]
    for value in (1.0, 2):
        yield _applied(lambda v: x.at[0].set(v), value)
        yield _applied(lambda v: x.at[0].add(v), value)
    yield lambda: x.at[places].set(0.0)
    yield lambda: x.at[places].add(1.0)


def _made(number: Any, integer: Any) -> Iterator[Call]:
    for dtype in (number, integer, np.bool_):
        yield _applied(jnp.zeros, 5, dtype)
        yield _applied(jnp.ones, 5, dtype)
        yield _applied(jnp.zeros, (), dtype)
        yield _applied(jnp.full, 5, 2, dtype)
    yield _applied(jnp.arange, 5)
    yield _applied(jnp.arange, 5.0)
    yield _applied(jnp.eye, 3)
    yield lambda: jnp.arange(6.0).reshape(2, 3)
    for make in (random.key, random.PRNGKey):
        key = make(0)
        yield _applied(random.split, key)
        yield _applied(random.fold_in, key, 1)
        yield _applied(random.normal, key, (5,))
        yield _applied(random.uniform, key, (5,))
        yield _applied(random.normal, key)
        yield _applied(random.uniform, key)
        yield _applied(random.bernoulli, key, 0.5, (5,))
        yield _applied(random.randint, key, (5,), 0, 10)


def _applied(function: Callable[..., Any], *arguments: Any) -> Call:
    return lambda: function(*arguments)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--cpu", default="host")
    parser.add_argument("--attended", action="store_true", help="end when standard input does")
    chosen = parser.parse_args(words)
    if chosen.attended:
        end_after(lambda: os.read(0, 1))
    config.update("jax_enable_x64", chosen.x64)
    _compile_as_for(_target_named(chosen.cpu))
    for call in common_operations(chosen.x64):
        call()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
