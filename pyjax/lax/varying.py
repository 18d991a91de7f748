"""Casts between types of values that vary along mesh axes, and those that do not.

Inside of shard_map (with `check_vma=True`) types say along which mesh axes values may vary. `pvary`
forgets that a value does not; its transpose sums, as `psum_invariant` does, over the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax._config import options
from pyjax.core import axis_env
from pyjax.core.errors import fail, new_error
from pyjax.core.structural import pvary, pvary_p
from pyjax.core.tree_util import tree_map
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.varying import Axes, Variation, varying_rules
from pyjax.lax.collectives import (
    check_bound,
    named_effects,
    names_of,
    psum_invariant_p,
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


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """The same value, of the type of those that vary along mesh axes: inside of shard_map.

    Operations cast by themselves; a carry of a loop that begins with a value that is the same on
    all devices, and goes on with values that are not, needs it.

    Args:
      axis_name: a mesh axis, or a tuple of them.   to: "varying".
    Raises:
      ValueError: x varies along an axis already; or the axis is one of vmap.
      NameError: no such axis is bound, as outside of shard_map.
      NotImplementedError: `to` is "reduced" or "unreduced".

    >>> import pyjax
    >>> from pyjax import P, numpy as jnp
    >>> f = pyjax.shard_map(lambda x: pcast(x, "i", to="varying"), in_specs=P(), out_specs=P("i"),
    ...                     mesh=pyjax.sharding.AbstractMesh((2,), ("i",)))
    >>> f(jnp.arange(2)).tolist()
    [0, 1, 0, 1]
    """
    axes = names_of(axis_name)
    if to in ("reduced", "unreduced"):
        fail(
            NotImplementedError,
            f"pcast(..., to={to!r}) is not supported.",
            "types say along which axes values vary, not over which a sum is still to be made.",
            "sum over the axis: lax.psum(x, axis_name).",
        )
    if to != "varying":
        raise new_error(
            ValueError,
            f"Got unexpected `to` value {to!r} for pcast. Allowed `to` values are: 'varying'.",
        )
    check_bound(axes)
    if axis_env.mesh_axes(axes) != frozenset(axes):
        fail(
            ValueError,
            f"pcast over {axes} should be called under shard_map.",
            "these are axes of vmap, of which types say nothing.",
            "leave it out: a mapped function works on values of one position.",
        )
    if not options.check_vma.value:
        return x

    def cast(v: Any) -> Any:
        already = axis_env.in_order(aval_of(v).vma & frozenset(axes))
        if already:
            fail(
                ValueError,
                f"Unsupported pcast from=varying, to='varying': {aval_of(v).str_short()} varies "
                f"along {already} already.",
                fix="leave it out, or name only the axes along which the value does not vary.",
            )
        return pvary(v, axes)

    return tree_map(cast, x)
