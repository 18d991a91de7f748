"""einsum: pairwise contractions in the order that opt_einsum finds, each one a dot_general."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.errors import fail, new_error
from pyjax.lax.reshard import computed_as
from pyjax.numpy import diagonals, reductions, util
from pyjax.numpy.selection import select_where

__all__ = ["einsum", "einsum_path"]


def _opt_einsum() -> Any:
    import opt_einsum  # on first use: it is a tenth of the time of `import pyjax.numpy`

    return opt_einsum


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Sum of products in Einstein's notation.

    Args:
      subscripts: e.g. 'ij,jk->ik'; repeated letters in one operand take a diagonal, letters
        missing from the output are summed, '...' stands for broadcast axes.  Or operands and
        lists of axis numbers in turn, as in NumPy.
      optimize: how to order several contractions: False, True, 'optimal', 'greedy', 'auto', or
        a path from `einsum_path`.
      precision, preferred_element_type: as in lax.dot_general.
    >>> einsum("ij,j->i", np.ones((2, 3)), np.ones(3)).tolist()
    [3.0, 3.0]
    """
    util.reject_out("einsum", out)
    subscripts, arrays = _canonical(subscripts, operands)
    if out_sharding is not None:
        compute = partial(
            einsum,
            subscripts,
            optimize=optimize,
            precision=precision,
            preferred_element_type=preferred_element_type,
            _dot_general=_dot_general,
        )
        return computed_as("einsum", out_sharding, compute, *arrays)
    util.check_arraylike("einsum", *arrays)
    preferred = util.check_user_dtype(preferred_element_type, "einsum")
    path_kind = optimize if type(optimize) is str else _static_path(optimize)
    if _dot_general is not lax.dot_general:
        return _einsum(arrays, subscripts, path_kind, precision, preferred, _dot_general)
    return _compiled(arrays, subscripts, path_kind, precision, preferred)


def _static_path(optimize: Any) -> Any:
    if optimize is True:
        return "optimal"
    if isinstance(optimize, (list, tuple)):
        return tuple(tuple(p) if isinstance(p, (list, tuple)) else p for p in optimize)
    return optimize


def _canonical(subscripts: Any, operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts with explicit output and no ellipsis, and the operands."""
    try:
        if type(subscripts) is str:
            ranks = tuple([x.ndim if util.is_array(x) else np.ndim(x) for x in operands])
            return _parsed(subscripts, ranks), operands
        given = (subscripts, *operands)
        text, output, arrays = _opt_einsum().parser.parse_einsum_input(
            tuple(_shape_only(x) for x in given), shapes=False
        )
    except ValueError as error:
        fail(
            ValueError,
            f"einsum: {subscripts!r} does not fit {len(operands)} operands: {error}",
            "Each operand has its letters, separated by commas; letters of the output are among "
            "them.",
            "Write the letters of all axes: jnp.einsum('ij,jk->ik', x, y).",
        )
    return f"{text}->{output}", tuple(x.value for x in arrays)


@lru_cache(maxsize=4096)
def _parsed(subscripts: str, ranks: tuple[int, ...]) -> str:
    """The same of subscripts that are a text, for operands of so many dimensions."""
    stand_ins = [_Operand(np.broadcast_to(0, (1,) * rank)) for rank in ranks]
    given = (subscripts, *stand_ins)
    text, output, _ = _opt_einsum().parser.parse_einsum_input(given, shapes=False)
    return f"{text}->{output}"


class _Operand:
    """An operand as opt_einsum's parser sees it: something with a shape."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.shape = np.shape(value)
        self.ndim = len(self.shape)


def _shape_only(x: Any) -> Any:
    is_text = isinstance(x, str) or (
        isinstance(x, (list, tuple)) and not any(util.is_array(i) for i in x)
    )
    return x if is_text else _Operand(x)


@partial(jit, static_argnums=(1, 2, 3, 4), inline=True)
def _compiled(
    arrays: tuple[Any, ...], subscripts: str, path_kind: Any, precision: Any, preferred: Any
) -> Any:
    return _einsum(arrays, subscripts, path_kind, precision, preferred, lax.dot_general)


def _einsum(
    arrays: tuple[Any, ...],
    subscripts: str,
    path_kind: Any,
    precision: Any,
    preferred: Any,
    dot_general: Callable[..., Any],
) -> Any:
    inputs, output = subscripts.split("->")
    names = inputs.split(",")
    _, weak = dtypes.result_type(*arrays, return_weak_type_flag=True)
    weak = weak and preferred is None
    operands = [util.as_array(x) for x in arrays]
    for position, (name, x) in enumerate(zip(names, operands, strict=True)):
        if len(name) != x.ndim:
            raise new_error(
                ValueError,
                f"einsum: {name!r} has {len(name)} letters, but operand {position} has shape "
                f"{x.shape}.",
                f"There is one letter for each of its {x.ndim} axes.",
                "Add letters, or ... for axes that all operands share.",
            )
    dtype = dtypes.result_type(*operands) if preferred is None else preferred
    accumulate = _Accumulate(precision, dtype, dot_general)
    for step in _path(subscripts, operands, path_kind):
        chosen = sorted(step, reverse=True)
        parts = [(operands.pop(i), names.pop(i)) for i in chosen][::-1]
        kept = set(output).union(*names)
        for position in range(1, len(parts)):
            later = set().union(*(n for _, n in parts[position + 1 :]))
            merged = accumulate.pair(*parts[0], *parts[position], kept | later, output)
            parts[0] = merged
        operands.append(parts[0][0])
        names.append(parts[0][1])
    x, name = operands[0], names[0]
    x, name = _reduce_single(x, name, set(output))
    order = tuple(name.index(c) for c in output)
    x = lax.transpose(x, order) if order != tuple(range(len(order))) else x
    return util.convert(x, dtype, weak)


def _path(subscripts: str, operands: Sequence[Any], path_kind: Any) -> list[tuple[int, ...]]:
    count = len(operands)
    if count == 1:
        return [(0,)]
    if count == 2:
        return [(0, 1)]
    if path_kind is False:
        return [(0, 1), *((0, n) for n in range(count - 2, 0, -1))]
    if isinstance(path_kind, tuple):
        return _checked_path(path_kind)
    shapes = [x.shape for x in operands]
    path, _ = _opt_einsum().contract_path(subscripts, *shapes, shapes=True, optimize=path_kind)
    return [tuple(p) for p in path]


def _checked_path(path: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """A path as `einsum_path` gives it; NumPy's begins with a word, which is none."""
    for step in path:
        places = tuple(operator.index(i) for i in step)
        if len(places) > 2:
            raise new_error(
                NotImplementedError,
                "jax.numpy.einsum does not support simultaneous contraction of 3 or more operands, "
                f"as step {places} of the given path.\n"
                "  Write optimize='greedy' or another name, or a path that takes two at a time.",
            )
    return list(path)


def _sum_out(x: Any, name: str, keep: set[str]) -> tuple[Any, str]:
    axes = tuple(i for i, c in enumerate(name) if c not in keep)
    if not axes:
        return x, name
    x = (
        reductions.any(x, axes)
        if x.dtype == np.bool_
        else reductions.sum(x, axes, promote_integers=False)
    )
    return x, "".join(c for c in name if c in keep)


def _reduce_single(x: Any, name: str, keep: set[str]) -> tuple[Any, str]:
    """Diagonals of repeated letters, then sums over letters not kept."""
    for letter in dict.fromkeys(name):
        while name.count(letter) > 1:
            i = name.index(letter)
            j = name.index(letter, i + 1)
            x, name = _diagonal(x, name, i, j)
    return _sum_out(x, name, keep)


def _diagonal(x: Any, name: str, i: int, j: int) -> tuple[Any, str]:
    if x.aval.split is None:
        return diagonals.diagonal(x, 0, i, j), name[:i] + name[i + 1 : j] + name[j + 1 :] + name[i]
    # Sums of what is beside the diagonal, too, go without elements of other devices.
    rows = lax.broadcasted_iota(np.int32, x.shape, i)
    columns = lax.broadcasted_iota(np.int32, x.shape, j)
    masked = select_where(lax.eq(rows, columns), x, np.zeros((), x.dtype))
    x = lax.reduce_or(masked, (j,)) if x.dtype == np.bool_ else lax.reduce_sum(masked, (j,))
    return x, name[:j] + name[j + 1 :]


class _Accumulate:
    """Contracts pairs of operands with fixed precision and accumulation dtype."""

    def __init__(self, precision: Any, preferred: Any, dot_general: Callable[..., Any]) -> None:
        self.precision = precision
        self.preferred = preferred
        self.dot_general = dot_general

    def pair(
        self, a: Any, a_name: str, b: Any, b_name: str, keep: set[str], output: str
    ) -> tuple[Any, str]:
        """Contract two operands, summing every letter that is not kept."""
        a, a_name = _reduce_single(a, a_name, keep | set(b_name))
        b, b_name = _reduce_single(b, b_name, keep | set(a_name))
        a, a_name, b, b_name = _squeeze_broadcast(a, a_name, b, b_name)
        shared = [c for c in a_name if c in b_name]
        batch = [c for c in shared if c in keep]
        contracted = [c for c in shared if c not in keep]
        numbers = (
            (
                tuple(a_name.index(c) for c in contracted),
                tuple(b_name.index(c) for c in contracted),
            ),
            (tuple(a_name.index(c) for c in batch), tuple(b_name.index(c) for c in batch)),
        )
        # The free axes of the first operand come before those of the second: choose the order
        # that needs no transpose at the end when there is one.
        a_free = [c for c in a_name if c not in shared]
        b_free = [c for c in b_name if c not in shared]
        name = "".join(batch + a_free + b_free)
        if name != output and "".join(batch + b_free + a_free) == output:
            a, b, numbers = b, a, (numbers[0][::-1], numbers[1][::-1])
            name = output
        out = self.dot_general(
            a, b, numbers, precision=self.precision, preferred_element_type=self.preferred
        )
        return out, name


def _squeeze_broadcast(a: Any, a_name: str, b: Any, b_name: str) -> tuple[Any, str, Any, str]:
    """A shared letter of size one in one operand only is broadcasting: drop it there."""
    sizes_a = dict(zip(a_name, a.shape, strict=True))
    sizes_b = dict(zip(b_name, b.shape, strict=True))
    for letter in set(a_name) & set(b_name):
        n, m = sizes_a[letter], sizes_b[letter]
        if n == m:
            continue
        if n == 1:
            a = lax.squeeze(a, (a_name.index(letter),))
            a_name = a_name.replace(letter, "")
        elif m == 1:
            b = lax.squeeze(b, (b_name.index(letter),))
            b_name = b_name.replace(letter, "")
        else:
            raise new_error(
                ValueError,
                f"einsum: label '{letter}' has size {n} in one operand and {m} in another: "
                f"shapes {a.shape} and {b.shape}.",
                "Axes with one letter are multiplied element by element: they have one size.",
                "Transpose an operand, or use another letter for an axis that is another one.",
            )
    # A letter dropped here that is contracted elsewhere is summed by the caller's reductions.
    return a, a_name, b, b_name


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[Any], Any]:
    """The contraction order that `einsum` would use, and a report that prints as text.

    >>> einsum_path("ij,jk", np.ones((2, 3)), np.ones((3, 4)))[0]
    [(0, 1)]
    """
    if isinstance(optimize, bool):
        optimize = (
            "optimal"
            if optimize
            else ([tuple(range(len(operands)))] if isinstance(subscripts, str) else "auto")
        )
    given = (subscripts, *operands)
    text, output, arrays = _opt_einsum().parser.parse_einsum_input(
        tuple(_shape_only(x) for x in given), shapes=False
    )
    return _opt_einsum().contract_path(
        f"{text}->{output}", *(x.shape for x in arrays), shapes=True, optimize=optimize
    )
