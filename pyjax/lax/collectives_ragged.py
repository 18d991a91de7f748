"""Communication over a named axis of parts of different sizes, and from one position to another:
ragged_all_to_all, psend and precv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.axis_env import names_of
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import register_pytree_node, tree_flatten, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.rules import FullJvp
from pyjax.interpreters.varying import varying_rules
from pyjax.lax.arithmetic import add, max, min, mul, neg, sub
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.collectives import (
    AxisName,
    check_bound,
    named_effects,
    one_name,
    pmax,
    varying_after,
)
from pyjax.lax.collectives_gather import all_to_all
from pyjax.lax.collectives_groups import by_groups, checked_groups, group_size
from pyjax.lax.collectives_lowering import lowering_over_mesh
from pyjax.lax.collectives_lowering import ragged_all_to_all as ragged_all_to_all_lowering
from pyjax.lax.collectives_permute import ppermute
from pyjax.lax.common import dtype_of, shape_of
from pyjax.lax.compare import eq, full_value, ge, gt, lt, ne, select
from pyjax.lax.control_flow.cond import cond
from pyjax.lax.control_flow.loops import fori_loop
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import broadcasted_iota, iota
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import GatherDimensionNumbers, GatherScatterMode
from pyjax.lax.indexing.slicing import index_in_dim
from pyjax.lax.nary import define, expand_to
from pyjax.lax.reduce import reduce_or
from pyjax.lax.shape import reshape, transpose

INDEX = np.dtype(np.int32)


def _aval(operand: ShapedArray, output: ShapedArray, *sizes: Any, axis_name: Any, **_: Any) -> Any:
    check_bound(axis_name)
    return [output]


def _rows(operand: Array, positions: Array) -> Array:
    """operand[positions] along the first axis, clamped, for any shape of positions."""
    rest = shape_of(operand)[1:]
    index_rank = len(shape_of(positions))
    numbers = GatherDimensionNumbers(tuple(range(index_rank, index_rank + len(rest))), (0,), (0,))
    indices = reshape(positions, (*shape_of(positions), 1))
    return gather(operand, indices, numbers, (1, *rest), mode=GatherScatterMode.CLIP)


def _collective(name: Any, size: int, args: Any, dims: Any, *, axis_name: Any, **_: Any) -> Any:
    """What all positions receive: for each sender and slice, the rows that it covers."""
    if len(names := names_of(axis_name)) > 1:
        fail(
            NotImplementedError,
            f"ragged_all_to_all of positions along several axes {names}, one of which, {name!r}, "
            "is that of a vmap.",
            "rows go to positions that may differ along both.",
            "name one axis, or map over both in one vmap.",
        )
    operand, out, starts, counts, targets, _ = (
        bdim_at_front(x, d, size) for x, d in zip(args, dims)
    )
    starts, counts, targets = map(_signed, (starts, counts, targets))
    slices = shape_of(starts)[1] // size
    rows = shape_of(out)[1]
    if not shape_of(operand)[1]:
        return [out], [0]
    kind = dtype_of(starts)
    row = broadcasted_iota(kind, (size, rows), 1)

    def column(x: Array, sender: int, which: int) -> Array:
        """What `sender` says of its slice `which` for each receiver, beside each row."""
        mine = reshape(index_in_dim(x, sender, 0, keepdims=False), (size, slices))
        return expand_to(index_in_dim(mine, which, 1, keepdims=False), (size, rows), (0,))

    for sender in range(size):
        data = index_in_dim(operand, sender, 0, keepdims=False)
        for which in range(slices):
            within = sub(row, column(targets, sender, which))
            count = column(counts, sender, which)
            inside = bitwise_and(ge(within, full_value(within, 0)), lt(within, count))
            source = add(column(starts, sender, which), within)
            there = bitwise_and(
                ge(source, full_value(source, 0)),
                lt(source, full_value(source, shape_of(data)[0])),
            )
            found = _rows(data, source)
            covered = expand_to(bitwise_and(inside, there), shape_of(out), (0, 1))
            out = select(covered, found, out)
    return [out], [0]


def _signed(x: Array) -> Array:
    """Numbers of rows, in a type in which those next to them can be counted, too."""
    dtype = np.dtype(dtype_of(x))
    signed = np.promote_types(INDEX, f"i{dtype.itemsize}")
    if dtype.kind == "u" and dtype.itemsize == signed.itemsize:
        x = min(x, full_value(x, np.iinfo(signed).max))
    return convert_element_type(x, signed)


def _within(
    starts: Array, counts: Array, targets: Array, rows: int, places: int
) -> tuple[Array, Array, Array]:
    """Of rows that are to be sent those that there are, on both sides."""
    most, zero = np.iinfo(dtype_of(starts)).max, full_value(starts, 0)
    first, end = zero, counts
    for offsets, extent in ((starts, rows), (targets, places)):
        # Differences are those of numbers next to which they do not overflow.
        first = max(first, neg(max(offsets, full_value(offsets, -most))))
        near = max(offsets, full_value(offsets, extent - most))
        end = min(end, sub(full_value(offsets, extent), near))
    some = lt(first, end)
    kept = add(starts, first), sub(end, first), add(targets, first)
    starts, counts, targets = (select(some, x, zero) for x in kept)
    return starts, counts, targets


def _batching(
    axis_size: int, args: Any, dims: Any, *, axis_name: Any, axis_index_groups: Any
) -> Any:
    """One exchange for all lanes: their rows follow each other, and each receiver's slices are
    those of the first lane, then of the second.
    """
    operand, output, starts, sent, targets, received = (
        bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)
    )
    (rows, *rest), (places, *_) = shape_of(operand)[1:], shape_of(output)[1:]
    positions, slices = group_size(axis_name, axis_index_groups), shape_of(starts)[1]
    split = (axis_size, positions, slices // positions)
    starts, sent, targets, received = map(_signed, (starts, sent, targets, received))
    # Lanes have the rows behind those of one lane.
    starts, sent, targets = _within(starts, sent, targets, rows, places)

    def by_receiver(x: Array, step: int) -> Array:
        lane = broadcasted_iota(dtype_of(x), shape_of(x), 0)
        x = add(x, mul(lane, full_value(lane, step)))
        return reshape(transpose(reshape(x, split), (1, 0, 2)), (axis_size * slices,))

    out = ragged_all_to_all_p.bind1(
        reshape(operand, (axis_size * rows, *rest)),
        reshape(output, (axis_size * places, *rest)),
        by_receiver(starts, rows),
        by_receiver(sent, 0),
        by_receiver(targets, places),
        by_receiver(received, 0),
        axis_name=axis_name,
        axis_index_groups=axis_index_groups,
    )
    return [reshape(out, shape_of(output))], [0]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    outs = ragged_all_to_all_p.bind_all(*primals, **params)
    if all(type(t) is ad.Zero for t in tangents[:2]):
        return outs, [ad.Zero.from_primal_value(outs[0])]
    dense = [ad.instantiate_zeros(t) for t in tangents[:2]]
    return outs, ragged_all_to_all_p.bind_all(*dense, *primals[2:], **params)


def _transpose(
    cts: Sequence[Any],
    operand: Any,
    output: Any,
    starts: Any,
    sent: Any,
    targets: Any,
    received: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any,
) -> list[Any]:
    (ct,) = cts
    params = {"axis_name": axis_name, "axis_index_groups": axis_index_groups}
    found: list[Any] = [None] * 6
    if type(ct) is ad.Zero:
        for i, x in enumerate((operand, output)):
            found[i] = ad.Zero(x.aval) if ad.is_undefined_primal(x) else None
        return found
    exchanged = lambda x: all_to_all(
        x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True
    )
    there, back = exchanged(targets), exchanged(starts)
    if ad.is_undefined_primal(operand):
        zeros = _zeros(operand.aval.shape, ct)

        def sent_back(sizes: Array, arriving: Array) -> Array:
            return ragged_all_to_all_p.bind1(ct, zeros, there, sizes, back, arriving, **params)

        def one_by_one() -> Array:
            """Cotangents of a row that was sent twice are summed: of each slice by itself."""
            (count,) = shape_of(sent)
            number = iota(np.int32, count)

            def of_slice(which: Any) -> Array:
                mine = eq(number, expand_to(which, (count,), ()))
                one = select(mine, sent, full_value(sent, 0))
                return sent_back(exchanged(one), one)

            first = of_slice(np.int32(0))
            return fori_loop(1, count, lambda k, total: add(total, of_slice(k)), first)

        twice = pmax(_overlap(starts, sent), axis_name)
        found[0] = cond(
            ne(twice, full_value(twice, 0)), one_by_one, lambda: sent_back(received, sent)
        )
    if ad.is_undefined_primal(output):
        shape = operand.aval.shape if ad.is_undefined_primal(operand) else shape_of(operand)
        found[1] = ragged_all_to_all_p.bind1(
            _zeros(shape, ct), ct, starts, sent, targets, received, **params
        )
    return found


def _overlap(starts: Array, counts: Array) -> Array:
    """1, if some row is in two slices, else 0."""
    starts, counts = _signed(starts), _signed(counts)
    (count,) = shape_of(starts)
    if count < 2:
        return full_value(np.zeros((), INDEX), 0)
    square = (count, count)
    ends = add(starts, counts)
    begins_before = lt(expand_to(starts, square, (0,)), expand_to(ends, square, (1,)))
    meets = bitwise_and(begins_before, transpose(begins_before, (1, 0)))
    some = gt(counts, full_value(counts, 0))
    meets = bitwise_and(meets, expand_to(some, square, (0,)))
    meets = bitwise_and(meets, expand_to(some, square, (1,)))
    meets = bitwise_and(meets, np.logical_not(np.eye(count, dtype=bool)))
    return convert_element_type(reduce_or(meets, (0, 1)), INDEX)


def _zeros(shape: Sequence[int], like: Array) -> Array:
    return expand_to(np.zeros((), dtype_of(like)), tuple(shape), ())


ragged_all_to_all_p: Primitive = define(
    "ragged_all_to_all",
    abstract_eval=_aval,
    jvp=FullJvp(_jvp),
    transpose=_transpose,
    batching=_batching,
    lowering=lowering_over_mesh("ragged_all_to_all", ragged_all_to_all_lowering),
    effects=named_effects,
    collective_batching=by_groups(_collective),
)
varying_rules[ragged_all_to_all_p] = varying_after


def ragged_all_to_all(
    operand: Array,
    output: Array,
    input_offsets: Array,
    send_sizes: Array,
    output_offsets: Array,
    recv_sizes: Array,
    *,
    axis_name: AxisName,
    axis_index_groups: Any = None,
) -> Array:
    """Send slices of rows, of sizes that are known at run time, to the positions of a mapped axis.

    Args:
      operand: [rows, ...], what is sent from.   output: [other rows, ...], what is written to.
      input_offsets, send_sizes: int[n], where slice i begins in `operand`, and its number of rows.
        n is a multiple of the size of the axis; slice i goes to position i // (n / size).
      output_offsets: int[n], where slice i begins in the receiver's result.
      recv_sizes: int[n], how many rows arrive: `send_sizes` of the senders.
      axis_name: the mapped axis; or axes of a mesh, along which positions are counted row by row,
        the last name fastest.
      axis_index_groups: lists of positions, all of one size, which send to each other; then n is a
        multiple of that size.
    Returns:
      `output` with the rows that were received. Rows that are not in both arrays are not sent.
    Raises:
      ValueError: dtypes, ranks or lengths do not fit.   NameError: no map binds the axis.
      NotImplementedError: several axes, one of which is that of a vmap.
    Differentiable by operand and output.

    >>> import pyjax, pyjax.numpy as jnp
    >>> def send(x):
    ...     one = jnp.ones(1, int)
    ...     return ragged_all_to_all(x, jnp.zeros(4), one, 2 * one, 0 * one, 2 * one, axis_name="i")
    >>> pyjax.vmap(send, axis_name="i")(jnp.arange(3.0)[None]).tolist()
    [[1.0, 2.0, 0.0, 0.0]]
    """
    check_bound(axis_name)
    names = names_of(axis_name)
    name = names[0] if len(names) == 1 else names
    groups = checked_groups("ragged_all_to_all", name, axis_index_groups)
    size = group_size(name, groups)
    lists = {
        "input_offsets": input_offsets,
        "send_sizes": send_sizes,
        "output_offsets": output_offsets,
        "recv_sizes": recv_sizes,
    }
    lengths = {key: shape_of(x) for key, x in lists.items()}
    if len(set(lengths.values())) != 1 or len(lengths["send_sizes"]) != 1:
        fail(
            ValueError, f"ragged_all_to_all offsets and sizes must have one length, got {lengths}."
        )
    for key, x in lists.items():
        if np.dtype(dtype_of(x)).kind not in "iu":
            fail(ValueError, f"ragged_all_to_all {key} must be integer type, got {dtype_of(x)}.")
    if not lengths["send_sizes"][0] or lengths["send_sizes"][0] % size:
        fail(
            ValueError,
            f"ragged_all_to_all has {lengths['send_sizes'][0]} slices for an axis of size {size}.",
            "Each position gets the same number of slices.",
            "Add slices of size 0.",
        )
    if dtype_of(operand) != dtype_of(output) or shape_of(operand)[1:] != shape_of(output)[1:]:
        fail(
            ValueError,
            "ragged_all_to_all operand and output must have the same dtype and the same dimensions "
            f"but for the first, got {dtype_of(operand)}{list(shape_of(operand))} and "
            f"{dtype_of(output)}{list(shape_of(output))}.",
        )
    return ragged_all_to_all_p.bind1(
        operand, output, *lists.values(), axis_name=name, axis_index_groups=groups
    )


class SendToken:
    """What `psend` returns: the values under way, for the `precv` that takes them."""

    def __init__(self, leaves: Sequence[Any], axis_name: Any, perm: tuple[Any, ...]) -> None:
        self.leaves = tuple(leaves)
        self.axis_name = axis_name
        self.perm = perm


register_pytree_node(
    SendToken,
    lambda token: (token.leaves, (token.axis_name, token.perm)),
    lambda facts, leaves: SendToken(leaves, *facts),
)


def psend(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> SendToken:
    """Send x along a mapped axis; `precv` with the token that comes back receives it.

    Args:
      x: pytree of arrays.   axis_name: a mapped axis.
      perm: pairs (source, destination), each at most once.
    Returns:
      A token, which is a pytree: `lax.optimization_barrier` takes it.
    Raises:
      NameError: no map binds the axis.   ValueError: a source or destination is repeated.

    >>> import pyjax, pyjax.numpy as jnp
    >>> def exchange(x):
    ...     token = psend(x, "i", [(0, 1), (1, 0)])
    ...     return precv(token, pyjax.ShapeDtypeStruct(x.shape, x.dtype), "i", [(0, 1), (1, 0)])
    >>> pyjax.vmap(exchange, axis_name="i")(jnp.array([3.0, 5.0])).tolist()
    [5.0, 3.0]
    """
    check_bound(axis_name)
    moved = ppermute(x, axis_name, perm)
    return SendToken(tree_flatten(moved)[0], one_name(axis_name), _pairs(perm))


def _pairs(perm: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(s), int(d)) for s, d in perm))


def precv(token: Any, out_shape: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Receive what was sent with `psend`; see there.

    Args:
      token: what `psend` returned.
      out_shape: pytree of what has `shape` and `dtype`: those of what was sent.
      axis_name, perm: those of the `psend`.
    Returns:
      The values from the sources; zeros at positions that nobody sends to.
    Raises:
      TypeError: the token is not from a `psend`.
      ValueError: axis, permutation, shapes or dtypes are not those of what was sent.

    >>> def shift(x):
    ...     there = pyjax.ShapeDtypeStruct(x.shape, x.dtype)
    ...     return lax.precv(lax.psend(x, "i", [(0, 1)]), there, "i", [(0, 1)])
    >>> pyjax.vmap(shift, axis_name="i")(jnp.array([3.0, 5.0])).tolist()
    [0.0, 3.0]
    """
    check_bound(axis_name)
    if not isinstance(token, SendToken):
        fail(
            TypeError,
            f"precv got {type(token).__name__} for a token, and not what psend returned.",
            "All positions run one program here: what is received is what a psend in it sent.",
            "token = psend(x, axis_name, perm); precv(token, out_shape, axis_name, perm)",
        )
    if (one_name(axis_name), _pairs(perm)) != (token.axis_name, token.perm):
        fail(
            ValueError,
            f"precv along {axis_name!r} with {_pairs(perm)}, of a psend along "
            f"{token.axis_name!r} with {token.perm}.",
            "Senders and receivers must agree on who sends to whom.",
            "Pass both the same axis_name and perm.",
        )
    shapes, tree = tree_flatten(out_shape)
    wanted = [(tuple(s.shape), np.dtype(s.dtype)) for s in shapes]
    sent = [(tuple(shape_of(x)), np.dtype(dtype_of(x))) for x in token.leaves]
    if wanted != sent:
        fail(
            ValueError,
            f"precv of {wanted}, and psend sent {sent}.",
            fix="Pass shapes and dtypes of what was sent as out_shape.",
        )
    return tree_unflatten(tree, token.leaves)


__all__ = [
    "SendToken",
    "precv",
    "psend",
    "ragged_all_to_all",
    "ragged_all_to_all_p",
]
