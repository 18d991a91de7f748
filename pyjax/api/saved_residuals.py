"""What reverse-mode differentiation of a function keeps. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.checkpoint_policies import name_p
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.api.vjp import vjp
from pyjax.core.jaxpr import Literal
from pyjax.core.signatures import positional_names
from pyjax.core.source_info import summarize_source
from pyjax.core.tree_util import keystr, tree_flatten_with_path, tree_leaves


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """(aval, where it comes from) of each value that the backward pass of `f` is given.

    >>> import pyjax.numpy as jnp
    >>> [aval.str_short() for aval, _ in saved_residuals(lambda x: jnp.sin(x), 1.0)]
    ['float32[]']
    """

    def kept(args: Any, kwargs: Any) -> list[Any]:
        return tree_leaves(vjp(lambda *xs: f(*xs, **kwargs), *args)[1])

    closed = make_jaxpr(kept)(args, kwargs)
    jaxpr = closed.jaxpr
    paths = [path for path, _ in tree_flatten_with_path((args, kwargs))[0]]
    positional = positional_names(f)
    names = {
        v: f"from the argument {_argument(p, positional)}" for v, p in zip(jaxpr.invars, paths)
    }
    names |= dict.fromkeys(jaxpr.constvars, "from a constant")
    for eqn in jaxpr.eqns:
        where = summarize_source(eqn.source)
        what = f"named '{eqn.params['name']}'" if eqn.primitive is name_p else None
        for v in eqn.outvars:
            names[v] = f"{what or f'output of {eqn.primitive.name}'} from {where}"
    found: dict[Any, tuple[Any, str]] = {}
    for v in jaxpr.outvars:
        if type(v) is Literal:
            found[id(v)] = (v.aval, "from a literal")
        else:
            found[v] = (v.aval, names[v])
    return list(found.values())


def _argument(path: Any, positional: Sequence[str]) -> str:
    keyword, place, *rest = path
    if keyword.idx == 1:
        return f"{place.key}{keystr(tuple(rest))}"
    if place.idx < len(positional):
        return f"{positional[place.idx]}{keystr(tuple(rest))}"
    return f"args{keystr((place, *rest))}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what reverse-mode differentiation of `f` keeps at these arguments: types and sources.

    >>> import pyjax.numpy as jnp
    >>> print_saved_residuals(lambda x: jnp.sum(x) * 2.0, jnp.ones(3))
    """
    for aval, source in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {source}")


__all__ = ["print_saved_residuals", "saved_residuals"]
