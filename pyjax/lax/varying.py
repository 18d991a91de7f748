"""Casts between types of values that along mesh axes vary, are the same on all devices, or are
summands of sums that are still to be made.

Inside of shard_map (with `check_vma=True`) types say what values are along mesh axes
(core/manual_types.py). `pvary` forgets that a value does not vary; its transpose sums, as
`psum_invariant` does, over the axes. That of a value that is `reduced` says that its cotangent is
such a sum, and makes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax._config import options
from pyjax.core import axis_env
from pyjax.core.errors import fail, new_error
from pyjax.core.manual_types import one_state
from pyjax.core.primitive import Primitive
from pyjax.core.structural import (
    preduced_p,
    pvary_p,
    reduced_vary_cast_p,
    unreduced_psum_p,
    vary_unreduced_cast_p,
)
from pyjax.core.tree_util import tree_map
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.varying import Axes, Variation, as_typed, varying_rules
from pyjax.lax.collectives import (
    check_bound,
    named_effects,
    psum_invariant_p,
    with_state,
)
from pyjax.lax.common import aval_of
from pyjax.lax.nary import define
from xla_backend.hlo.instruction import Instruction


def _pvary_transpose(cts: Sequence[Any], x: Any, *, axes: tuple[Any, ...]) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [psum_invariant_p.bind1(ct, axes=axes)]


def _pvary_lowering(ctx: LoweringContext, x: Instruction, *, axes: tuple[Any, ...]) -> Instruction:
    return x


define(
    "pvary",
    abstract_eval=lambda x, *, axes: x,
    jvp=LINEAR,
    transpose=_pvary_transpose,
    batching=lambda size, args, dims, *, axes: (pvary_p.bind_all(*args, axes=axes), list(dims)),
    lowering=_pvary_lowering,
    effects=named_effects,
    collective_batching=lambda name, size, args, dims, *, axes: (
        [_vary_along_the_others(args[0], name, axes)],
        list(dims),
    ),
)


def _vary_along_the_others(x: Any, name: Any, axes: tuple[Any, ...]) -> Any:
    rest = tuple(a for a in axes if a != name)
    return pvary_p.bind1(x, axes=rest) if rest else x


def _pvary_variation(
    operands: list[Axes], results: Sequence[Any], params: dict[str, Any]
) -> Variation:
    return operands, [operands[0] | axis_env.mesh_axes(params["axes"])]


varying_rules[pvary_p] = _pvary_variation


def _define_cast(primitive: Primitive, source: str, to: str, back: Primitive) -> None:
    """A cast of a value that along its axes is `source`.

    Args:
      back: its transpose.
    """
    name = primitive.name

    def abstract_eval(x: Any, *, axes: tuple[Any, ...]) -> Any:
        check_bound(axes)
        return with_state(name, x, axes, source, to)

    def transpose(cts: Sequence[Any], x: Any, *, axes: tuple[Any, ...]) -> list[Any]:
        (ct,) = cts
        return [ad.Zero(x.aval) if type(ct) is ad.Zero else back.bind1(ct, axes=axes)]

    def along_the_others(
        axis: Any, size: int, args: Any, dims: Any, *, axes: tuple[Any, ...]
    ) -> Any:
        rest = tuple(a for a in axes if a != axis)
        return primitive.bind_all(*args, axes=rest) if rest else list(args), list(dims)

    define(
        name,
        abstract_eval=abstract_eval,
        jvp=LINEAR,
        transpose=transpose,
        batching=lambda size, args, dims, **axes: (primitive.bind_all(*args, **axes), list(dims)),
        lowering=_pvary_lowering,
        effects=named_effects,
        collective_batching=along_the_others,
    )
    varying_rules[primitive] = as_typed


_define_cast(preduced_p, "invarying", "reduced", unreduced_psum_p)
_define_cast(vary_unreduced_cast_p, "varying", "unreduced", reduced_vary_cast_p)
_define_cast(reduced_vary_cast_p, "reduced", "varying", vary_unreduced_cast_p)

# By what a value is, and what it becomes.
_CASTS = {
    ("invarying", "varying"): pvary_p,
    ("invarying", "reduced"): preduced_p,
    ("varying", "unreduced"): vary_unreduced_cast_p,
    ("reduced", "varying"): reduced_vary_cast_p,
}


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """The same value, of another type of what it is along mesh axes: inside of shard_map.

    Operations cast to "varying" by themselves; a carry of a loop that begins with a value that is
    the same on all devices, and goes on with values that are not, needs it.

    Args:
      axis_name: a mesh axis, or a tuple of them, along which x is all the same kind of value.
      to: "varying": it may differ from device to device. "unreduced", of one that varies: those of
        the devices are summands of a sum that is made later, by `lax.psum` or `lax.psum_scatter`,
        or outside. "reduced", of one that is the same on all devices: its cotangent is unreduced.
    Raises:
      ValueError: x is not of a kind that can become that; or the axis is one of vmap.
      NameError: no such axis is bound, as outside of shard_map.

    >>> import pyjax
    >>> from pyjax import P, numpy as jnp
    >>> f = pyjax.shard_map(lambda x: pcast(x, "i", to="varying"), in_specs=P(), out_specs=P("i"),
    ...                     mesh=pyjax.sharding.AbstractMesh((2,), ("i",)))
    >>> f(jnp.arange(2)).tolist()
    [0, 1, 0, 1]
    """
    axes = axis_env.names_of(axis_name)
    if to not in ("reduced", "unreduced", "varying"):
        raise new_error(
            ValueError,
            f"Got unexpected `to` value {to!r} for pcast. Allowed `to` values are: 'reduced', "
            "'unreduced', 'varying'.",
        )
    check_bound(axes)
    silent = axis_env.outside_types(axes)
    axes = tuple(name for name in axes if name not in silent)
    if axis_env.mesh_axes(axes) != frozenset(axes):
        fail(
            ValueError,
            f"pcast over {axes} should be called under shard_map.",
            "these are axes of vmap, of which types say nothing.",
            "leave it out: a mapped function works on values of one position.",
        )
    if not options.check_vma.value or not axes:
        return x

    axes = axis_env.in_order(axes)

    def cast(v: Any) -> Any:
        aval = aval_of(v)
        state = one_state("jax.lax.pcast", aval, axes)
        primitive = _CASTS.get((state, to))
        if primitive is None:
            possible = [a for a, b in _CASTS if b == to]
            fail(
                ValueError,
                f"Unsupported pcast from={state}, to={to!r}: the value is of type "
                f"{aval.str_short()}, and the axes are {axes}.",
                f"what is {' or '.join(possible)} along an axis can become {to}.",
                "sum it first: lax.psum(x, axes)."
                if state == "unreduced"
                else f"leave it out: it is {to} already."
                if state == to
                else "cast it to varying first: lax.pcast(x, axes, to='varying')."
                if to == "unreduced"
                else "name only axes along which all devices have the same value.",
            )
        return primitive.bind1(v, axes=axes)

    return tree_map(cast, x)
