"""Wrapped functions (`interpreters/linear_util.py`) of pytrees, and their arguments. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyjax.core.avals import aval_described
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import UnhashableStaticError, new_error
from pyjax.core.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters.linear_util import (
    Store,
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)


@transformation_with_aux2
def flatten_fun(f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any) -> list[Any]:
    """A function of flat values out of one of `(args, kwargs)`, whose structure is `in_tree`;
    its auxiliary output is the structure of the result.

    >>> from pyjax.extend import linear_util
    >>> from pyjax.tree_util import tree_flatten
    >>> leaves, tree = tree_flatten(((1, 2), {}))
    >>> fun, out_tree = flatten_fun(linear_util.wrap_init(lambda x, y: {"sum": x + y}), tree)
    >>> fun.call_wrapped(*leaves), out_tree()
    ([3], PyTreeDef({'sum': *}))
    """
    args, kwargs = tree_unflatten(in_tree, leaves)
    outs, out_tree = tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return outs


@transformation_with_aux2
def flatten_fun_nokwargs(
    f: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any
) -> list[Any]:
    """`flatten_fun`, where `in_tree` is the structure of the tuple of arguments."""
    outs, out_tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
    store.store(out_tree)
    return outs


@transformation2
def _with_fixed(
    f: Callable[..., Any], fixed: tuple[tuple[int, Any], ...], *dynamic: Any, **kwargs: Any
) -> Any:
    args = list(dynamic)
    for position, value in fixed:  # ascending: inserting keeps later ones right
        args.insert(position, value)
    return f(*args, **kwargs)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """A function of the arguments at `dyn_argnums` alone, with the others as they are; and these
    arguments.

    Raises:
      UnhashableStaticError: another argument has no hash, unless that is not required.
    """
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    dynamic = {i % len(args) for i in numbers}
    fixed = tuple((i, x) for i, x in enumerate(args) if i not in dynamic)
    if require_static_args_hashable:
        for i, x in fixed:
            try:
                hash(x)
            except TypeError as error:
                raise new_error(
                    UnhashableStaticError,
                    f"argument {i} has type {type(x).__name__}, which is not hashable: {error}",
                    "functions are compared with what is fixed of their arguments",
                    "pass a hashable value (a tuple instead of a list)",
                ) from error
    return _with_fixed(f, fixed), tuple(args[i] for i in sorted(dynamic))


def donation_vector(
    donate_argnums: Iterable[int],
    donate_argnames: Iterable[str],
    in_tree: PyTreeDef,
    kws: bool = True,
) -> tuple[bool, ...]:
    """For each leaf of the arguments, whether it is donated.

    Args:
      in_tree: the structure of `(args, kwargs)`; without `kws` that of the tuple of arguments.

    >>> from pyjax.tree_util import tree_structure
    >>> donation_vector((1,), ("k",), tree_structure(((1, [2, 3]), {"k": 4, "z": 5})))
    (False, True, True, True, False)
    """
    numbers, names = set(donate_argnums), set(donate_argnames)
    tree = tree_unflatten(in_tree, range(in_tree.num_leaves))
    args, kwargs = tree if kws else (tree, {})
    donated = [(i in numbers, x) for i, x in enumerate(args)]
    donated += [(name in names, kwargs[name]) for name in sorted(kwargs)]
    return tuple(d for d, x in donated for _ in tree_flatten(x)[0])


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """What a prefix of a structure says of each leaf; None counts as a leaf.

    Args:
      name: of what the prefix says, for messages.
      kws: `treedef` is of `(args, kwargs)`, and the prefix speaks of `args`.
      tupled_args: the message says that arguments are a tuple.
    Raises:
      ValueError: it is not a prefix.

    >>> from pyjax.tree_util import tree_structure
    >>> flatten_axes("axes", tree_structure((1, {"a": 2, "b": 3})), (0, None))
    [0, None, None]
    """
    example = tree_unflatten(treedef, list(range(treedef.num_leaves)))
    prefix = (axis_tree, None) if kws else axis_tree
    try:
        return broadcast_prefix(prefix, example, lambda x: x is None)
    except ValueError as error:
        hint = " Arguments are a tuple, also a single one." if tupled_args else ""
        raise new_error(
            ValueError,
            f"{name} specification must be a tree prefix of the corresponding value, got "
            f"{axis_tree} for {treedef}.{hint}\n  {error}",
        ) from None


def rebase_donate_argnums(
    donate_argnums: Iterable[int], static_argnums: Iterable[int]
) -> tuple[int, ...]:
    """Positions of donated arguments among those that are not static.

    Raises:
      ValueError: an argument is both.

    >>> rebase_donate_argnums((0, 2, 3), (1,))
    (0, 1, 2)
    """
    donated, static = sorted(donate_argnums), sorted(static_argnums)
    if set(donated) & set(static):
        raise new_error(
            ValueError,
            f"`static_argnums` {static} and `donate_argnums` {donated} cannot intersect: static "
            "arguments have no buffer to donate.",
        )
    return tuple(d - sum(s < d for s in static) for d in donated)


def shaped_abstractify(x: Any) -> Any:
    """The aval of a value, or of what describes one (avals, objects with shape and dtype).

    Raises:
      TypeError: anything else.
    """
    return aval_described(x)


def safe_map(f: Callable[..., Any], *sequences: Iterable[Any]) -> list[Any]:
    """`map` over sequences of one length, as a list.

    Raises:
      ValueError: lengths differ.

    >>> safe_map(lambda a, b: a + b, [1, 2], [3, 4])
    [4, 6]
    """
    return [f(*items) for items in zip(*sequences, strict=True)]


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
) -> DebugInfo:
    """What messages say of a function and of its arguments.

    >>> def f(x, y): ...
    >>> debug_info("jit", f, (1, [2, 3]), {}).arg_names
    ('x', 'y[0]', 'y[1]')
    """
    dynamic = tuple(x for i, x in enumerate(args) if i not in static_argnums)
    names = {k: v for k, v in kwargs.items() if k not in static_argnames}
    return DebugInfo(traced_for, fun, tree_structure((dynamic, names)), static_argnums)
