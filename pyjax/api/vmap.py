"""vmap: vectorise a function over an axis of its arguments. Layer: api."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.flat import check_callable, check_leaves, wraps
from pyjax.core.avals import MeshArray, abstractify
from pyjax.core.debug_info import DebugInfo, arg_names
from pyjax.core.errors import new_error
from pyjax.core.refs import is_ref
from pyjax.core.source_info import function_name
from pyjax.core.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters import batching
from pyjax.interpreters.flat_function import FlatFunction
from pyjax.interpreters.ref_checks import check_aliases
from pyjax.interpreters.splits import names_of


def vmap(
    fun: Callable[..., Any],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """Map a function over an axis of its arguments, as one vectorised computation.

    Args:
      fun: function of pytrees of arrays.
      in_axes: the axis to map, for all positional arguments (an integer), per argument (a tuple),
        or per leaf (a pytree prefix inside the tuple); None: not mapped. Keyword arguments are
        mapped over their leading axis.
      out_axes: where the mapped axis goes in the output: an integer or a pytree prefix of the
        output; None where the output does not depend on the mapped axis.
      axis_name: a name by which collectives (lax.psum, lax.axis_index) in `fun` refer to the axis.
      axis_size: size of the axis, needed when nothing is mapped.
      spmd_axis_name: the mesh axis (or axes) along which a shard_map or with_sharding_constraint
        in `fun` cuts the axis.
    Returns:
      The batched function.
    Raises:
      ValueError: sizes differ, an axis does not exist, `in_axes` does not fit the arguments.

    >>> import pyjax.numpy as jnp
    >>> vmap(lambda x, y: x + y, in_axes=(0, None))(jnp.arange(3), 10).tolist()
    [10, 11, 12]
    """
    del sum_match
    check_callable(fun)
    mesh_axes = () if spmd_axis_name is None else spmd_axis_name
    mesh_axes = mesh_axes if isinstance(mesh_axes, tuple) else (mesh_axes,)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) in (int, tuple)):
        raise new_error(
            TypeError,
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes}.",
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(a) is int for a in tree_flatten(axes)[0]):
            raise new_error(
                TypeError,
                f"vmap {what} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes}.",
            )
    name = function_name(fun)
    doc = (
        f"Vectorized version of {name}. Takes similar arguments as {name} but with additional "
        "array axes, over which it is mapped."
    )

    @wraps(fun, "", doc)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise new_error(
                ValueError,
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got {len(in_axes)=}, "
                f"{len(args)=}",
                "Arguments by keyword are mapped over axis 0.",
                "One entry for each positional argument; None for those that are not mapped.",
            )
        leaves, in_tree = tree_flatten((args, kwargs))
        if type(in_axes) is int and not kwargs:
            dims: list[Any] = [in_axes] * len(leaves)
        else:
            dims = _flatten_in_axes(in_tree, in_axes)
        check_leaves("vmap", [x for x, d in zip(leaves, dims) if d is not None], (args, kwargs))
        if _shaped_nodes and any(map(is_shaped_node, nodes_of((args, kwargs)))):
            leaves, in_tree = tree_flatten(_without_axes((args, kwargs), dims))
        size = _mapped_axis_size(fun, args, kwargs, leaves, dims, axis_size)
        dims = [
            d + abstractify(x).ndim if d is not None and d < 0 else d for x, d in zip(leaves, dims)
        ]
        split = any(type(getattr(x, "aval", None)) is MeshArray for x in leaves)
        if split:
            _check_split_alike(leaves, dims, mesh_axes)
        flat = FlatFunction(fun, in_tree, kwargs=True)
        debug = DebugInfo("vmap", fun, in_tree)
        if any(map(is_ref, leaves)):
            check_aliases(debug, [None if d is None else x for x, d in zip(leaves, dims)])
        outs, out_dims = batching.batch_with_dims(
            flat, leaves, dims, size, axis_name, debug, mesh_axes
        )
        assert flat.out_tree is not None
        wanted = _flatten_out_axes(flat.out_tree, out_axes)
        placed = []
        along = batching.split_along(leaves, dims) if split else None
        for i, (x, have, want) in enumerate(zip(outs, out_dims, wanted)):
            if want is None and have is not None:
                raise new_error(
                    ValueError,
                    _mapped_output(flat.out_tree, i, out_axes),
                    "The output differs between the mapped elements, so it needs an axis.",
                    "Use an integer in out_axes for it.",
                )
            placed.append(batching.match_bdim(x, size, have, want, i, along))
        result = tree_unflatten(flat.out_tree, placed)
        return _with_axes(result, wanted, size) if _shaped_nodes else result

    return vmap_f


def _check_split_alike(
    leaves: Sequence[Any], dims: Sequence[Any], mesh_axes: tuple[Any, ...]
) -> None:
    """Along axes of type Explicit all mapped dimensions are split alike, what is not mapped is not
    split along the same axes, and `spmd_axis_name` names no others.

    Raises:
      ValueError: they are not.
    """
    avals = [(abstractify(x), d) for x, d in zip(leaves, dims) if d is not None]
    found = [None if a.split is None else a.split.entries[d] for a, d in avals]
    for entry in found:
        if entry != found[0]:
            raise new_error(
                ValueError,
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
                f"inconsistent axis specs: {found[0]} vs {entry}",
                f"the arguments are {', '.join(a.str_short() for a, _ in avals)}",
                "lay one of them out as the others before: jax.sharding.reshard(x, P(...)).",
            )
    along = () if not found or found[0] is None else found[0]
    along = along if isinstance(along, tuple) else (along,)
    if mesh_axes and along and along != mesh_axes:
        raise new_error(
            ValueError,
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is allowed. "
            f"Got spmd_axis_name={mesh_axes} and arrays sharded on explicit_mesh_axis={along}",
            f"the arguments are {', '.join(a.str_short() for a, _ in avals)}",
            "leave spmd_axis_name out: types say along which axes they are split.",
        )
    for x, dim in zip(leaves, dims):
        aval = abstractify(x)
        if dim is None and aval.split is not None and {*names_of(aval.split.entries)} & {*along}:
            raise new_error(
                ValueError,
                "Unmapped values passed to vmap cannot be sharded along the mesh axis you are "
                f"vmapping over. Got type: {aval.str_short(True)}, in_axes: None and vmapped mesh "
                f"axis: {along}",
                "each device has some of what is mapped, and is to have all of what is not",
                "lay it out as a whole one along that axis before: jax.sharding.reshard(x, P(...))",
            )


# -- nodes of pytrees that know the shape of what they stand for ----------------------------------

# `(node, axis) -> node as one lane sees it, holding the mapped arrays`, and
# `(node, axis, size) -> node with the axis`.
_shaped_nodes: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def register_shaped_node(
    kind: type, without_axis: Callable[[Any, int], Any], with_axis: Callable[[Any, int, int], Any]
) -> None:
    """Say how pytrees of a class change when an axis of their arrays is mapped.

    All leaves of such a node are mapped at one axis, or none.

    Args:
      without_axis: `(node, axis) -> node` of the same leaves that calls itself smaller.
      with_axis: `(node, axis, size) -> node` of leaves that have one more axis.
    """
    _shaped_nodes[kind] = (without_axis, with_axis)


def is_shaped_node(x: Any) -> bool:
    return type(x) in _shaped_nodes


def nodes_of(tree: Any) -> list[Any]:
    """Leaves, with nodes that know their shape among them."""
    return tree_flatten(tree, is_shaped_node)[0]


def _without_axes(tree: Any, dims: Sequence[Any]) -> Any:
    nodes, outer = tree_flatten(tree, is_shaped_node)
    axes = iter(dims)
    changed = []
    for node in nodes:
        own = [next(axes) for _ in range(tree_structure(node).num_leaves)]
        if is_shaped_node(node) and own[0] is not None:
            node = _shaped_nodes[type(node)][0](node, own[0])
        changed.append(node)
    return tree_unflatten(outer, changed)


def _with_axes(tree: Any, dims: Sequence[Any], size: int) -> Any:
    nodes, outer = tree_flatten(tree, is_shaped_node)
    axes = iter(dims)
    changed = []
    for node in nodes:
        own = [next(axes) for _ in range(tree_structure(node).num_leaves)]
        if is_shaped_node(node) and own[0] is not None:
            node = _shaped_nodes[type(node)][1](node, own[0], size)
        changed.append(node)
    return tree_unflatten(outer, changed)


def _flatten_in_axes(in_tree: PyTreeDef, in_axes: Any) -> list[Any]:
    example = tree_unflatten(in_tree, list(range(in_tree.num_leaves)))
    try:
        return broadcast_prefix((in_axes, 0), example, _is_axis_none)
    except ValueError as error:
        args_tree = tree_structure(example[0])
        raise new_error(
            ValueError,
            f"vmap in_axes specification must be a tree prefix of the corresponding value, got "
            f"specification {in_axes} for value tree {args_tree}.\n  {error}",
        ) from None


def _is_axis_none(x: Any) -> bool:
    return x is None


def _flatten_out_axes(out_tree: PyTreeDef, out_axes: Any) -> list[Any]:
    if type(out_axes) is int or out_axes is None:
        return [out_axes] * out_tree.num_leaves
    example = tree_unflatten(out_tree, list(range(out_tree.num_leaves)))
    try:
        return broadcast_prefix(out_axes, example, _is_axis_none)
    except ValueError as error:
        raise new_error(
            ValueError,
            "vmap out_axes specification must be a tree prefix of the corresponding value, got "
            f"specification {out_axes} for value tree {out_tree}.\n  {error}",
        ) from None


def _mapped_output(out_tree: PyTreeDef, index: int, out_axes: Any) -> str:
    example = tree_unflatten(out_tree, list(range(out_tree.num_leaves)))
    path = tree_flatten_with_path(example)[0][index][0]
    return (
        f"at vmap out_axes{keystr(path)}, got axis spec None but output was batched (out_axes is "
        f"{out_axes})"
    )


def _mapped_axis_size(
    fun: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    leaves: list[Any],
    dims: list[Any],
    axis_size: int | None,
) -> int:
    if not leaves and axis_size is None:
        raise new_error(
            ValueError,
            "vmap wrapped function must be passed at least one argument containing an array or "
            f"axis_size must be specified, got empty *args={args} and **kwargs={kwargs}",
        )
    sizes: list[int | None] = []
    for x, d in zip(leaves, dims):
        if d is None:
            sizes.append(None)
            continue
        shape = abstractify(x).shape
        if not -len(shape) <= d < len(shape):
            least = d + 1 if d >= 0 else -d
            raise new_error(
                ValueError,
                f"vmap was requested to map its argument along axis {d}, which implies that its "
                f"rank should be at least {least}, but is only {len(shape)} (its shape is {shape})",
                f"The argument is {abstractify(x).str_short()}, in_axes says {d}.",
                "Name an axis that it has, or None in in_axes for what is not mapped.",
            )
        sizes.append(shape[d])
    found = [s for s in sizes if s is not None]
    if axis_size is not None:
        found.append(axis_size)
    if not found:
        raise new_error(
            ValueError,
            "vmap must have at least one non-None value in in_axes or axis_size must be specified",
            "How often the function is applied is the size of a mapped axis.",
            "Map an argument (in_axes=0), or pass axis_size.",
        )
    if all(s == found[0] for s in found):
        return found[0]
    raise new_error(
        ValueError, _inconsistent_sizes(fun, args, kwargs, leaves, dims, sizes, axis_size)
    )


def _inconsistent_sizes(
    fun: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    leaves: list[Any],
    dims: list[Any],
    sizes: list[int | None],
    axis_size: int | None,
) -> str:
    places = [f"argument {p}" for p in arg_names(fun, tree_structure((args, {})))]
    places += [f"kwargs{keystr(p)}" for p, _ in tree_flatten_with_path(kwargs)[0]]
    counts: Counter[int] = Counter(s for s in sizes if s is not None)
    lines = ["vmap got inconsistent sizes for array axes to be mapped:"]
    if axis_size is not None:
        lines.append(f"  * the axis_size argument is {axis_size};")
    for size, count in counts.most_common():
        holders = [
            f"axis {d} of {place} of type {abstractify(x).str_short()}"
            for x, d, s, place in zip(leaves, dims, sizes, places)
            if s == size
        ]
        head = "one axis had" if count == 1 else f"{count} axes had"
        lines.append(f"  * {head} size {size}: {', '.join(holders)};")
    lines[-1] = lines[-1][:-1]
    return "\n".join(lines)
