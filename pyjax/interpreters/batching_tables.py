"""Batching of primitives that users define: tables, and short forms of rules.

They are names of `pyjax.interpreters.batching`. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core.avals import abstractify
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.structural import reshape
from pyjax.interpreters.batch_dims import Dim, bdim_at_front, running_axis, same_on_batches
from pyjax.interpreters.rules import batches_unmapped, batching_rules
from pyjax.interpreters.written_rules import Rule, RuleView, WrittenRule, as_user_sees


class AxisData(NamedTuple):
    """The axis that vmap maps.

    Attributes:
      name: None if it has none.   size: of the axis.
      spmd_name: the mesh axes that cut it (`spmd_axis_name`), or None.
    """

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class _Written(WrittenRule):
    __slots__ = ()

    def batched(self, found: Any) -> tuple[list[Any], list[Dim]]:
        """What the rule returned: results, and where they are batched, as lists."""
        if not isinstance(found, (list, tuple)) or len(found) != 2:
            raise self._error(f"returned {found!r:.80}, no pair.")
        for part in found if self.primitive.multiple_results else ():
            # Arrays are iterable: a rule that forgot the list would give one result per row.
            if not isinstance(part, Iterable) or hasattr(part, "shape"):
                raise self._error(f"returned {part!r:.80}, no list.")
        outs, dims = map(self.as_list, found)
        if len(outs) != len(dims):
            raise self._error(f"returned {len(outs)} results and {len(dims)} batch dims.")
        for x, d in zip(outs, dims):
            if d is None:
                continue
            if isinstance(d, bool) or not isinstance(d, (int, np.integer)):
                raise self._error(f"gave the batch dim {d!r:.60}: it should be an int or `None`.")
            aval = abstractify(x)
            if not 0 <= d < aval.ndim:
                raise self._error(f"gave the batch dim {d} of {aval.str_short()}.")
        return outs, dims

    def _error(self, what: str) -> Exception:
        several = self.primitive.multiple_results
        return new_error(
            TypeError,
            f"The batching rule of {self.primitive} {what}",
            "vmap has to know which axis of each result has the examples, counted from 0; None "
            "where all examples have the same result",
            f"Write return {'[out, ...], [0, ...]' if several else 'out, 0'}.",
        )


class _Plain(_Written):
    """`(values, dims, **params) -> (out, its dim)`, or of sequences."""

    __slots__ = ()

    def __call__(self, axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return self.batched(self.written(tuple(args), tuple(dims), **params))


class _OfAxis(_Written):
    """`(axis_size, axis_name, None, values, dims, **params)`, the same."""

    __slots__ = ()

    def __call__(self, axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        name, _ = running_axis()
        return self.batched(self.written(axis_size, name, None, tuple(args), tuple(dims), **params))


class _OfAxisData(_Written):
    """`(AxisData, values, dims, **params)`, the same."""

    __slots__ = ()

    def __call__(self, axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        name, mesh_axes = running_axis()
        axis = AxisData(name, axis_size, mesh_axes or None)
        return self.batched(self.written(axis, tuple(args), tuple(dims), **params))


def _plain(primitive: Primitive, rule: Rule) -> Rule:
    def shown(args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        size = next(abstractify(x).shape[d] for x, d in zip(args, dims) if d is not None)
        return _seen(primitive, rule(size, list(args), list(dims), **params))

    return shown


def _of_axis(primitive: Primitive, rule: Rule) -> Rule:
    def shown(
        axis_size: int, axis_name: Any, main: Any, args: Any, dims: Any, **params: Any
    ) -> tuple[Any, Any]:
        return _seen(primitive, rule(axis_size, list(args), list(dims), **params))

    return shown


def _of_axis_data(primitive: Primitive, rule: Rule) -> Rule:
    def shown(axis_data: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return _seen(primitive, rule(axis_data.size, list(args), list(dims), **params))

    return shown


def _seen(primitive: Primitive, found: Any) -> tuple[Any, Any]:
    outs, dims = found
    return as_user_sees(primitive, outs), as_user_sees(primitive, dims)


class _AsksForAxis(RuleView):
    """Rules that are asked even if no operand is mapped: they may depend on the axis alone."""

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        super().__setitem__(primitive, rule)
        batches_unmapped.add(primitive)


# By primitive: `(values, dims, **params) -> (out, dim)`; a dim is None where nothing is mapped.
primitive_batchers = RuleView(batching_rules, _Plain, _plain)
# By primitive: `(axis_size, axis_name, None, values, dims, **params) -> (out, dim)`.
axis_primitive_batchers = _AsksForAxis(batching_rules, _OfAxis, _of_axis)
# By primitive: `(AxisData, values, dims, **params) -> (out, dim)`.
fancy_primitive_batchers = _AsksForAxis(batching_rules, _OfAxisData, _of_axis_data)


def defvectorized(prim: Primitive) -> None:
    """A primitive that does to batches of operands what it does to operands of one shape.

    >>> import pyjax.numpy as jnp
    >>> from pyjax import vmap
    >>> from pyjax.extend.core import Primitive
    >>> from pyjax.interpreters import batching
    >>> negated_p = Primitive("negated")
    >>> _ = negated_p.def_impl(lambda x: -x)
    >>> batching.defvectorized(negated_p)
    >>> vmap(negated_p.bind)(jnp.arange(3))
    Array([ 0, -1, -2], dtype=int32)
    """
    batching_rules[prim] = same_on_batches(prim)


def defbroadcasting(prim: Primitive) -> None:
    """`defvectorized` for a primitive whose operands broadcast as NumPy's do: one of fewer
    dimensions gets axes of size 1 behind its batch axis."""

    def rule(axis_size: int, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> Any:
        moved = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
        ndim = max(abstractify(x).ndim for x in moved)
        outs = prim.bind_all(*[_padded(x, ndim) for x in moved], **params)
        return outs, [0] * len(outs)

    batching_rules[prim] = rule


def _padded(x: Any, ndim: int) -> Any:
    """A batch of values with axes of size 1 in front of theirs."""
    size, *shape = abstractify(x).shape
    missing = ndim - 1 - len(shape)
    return reshape(x, (size, *[1] * missing, *shape)) if missing else x


def defreducer(prim: Primitive) -> None:
    """A primitive of one operand that takes the axes in its parameter `axes` away."""

    def rule(
        axis_size: int, args: Sequence[Any], dims: Sequence[Dim], *, axes: Any, **params: Any
    ) -> tuple[list[Any], list[Dim]]:
        (x,), (d,) = args, dims
        assert d is not None
        moved = tuple(int(a) for a in np.where(np.less(axes, d), axes, np.add(axes, 1)))
        outs = prim.bind_all(x, axes=moved, **params)
        return outs, [d - sum(a < d for a in moved)] * len(outs)

    batching_rules[prim] = rule
