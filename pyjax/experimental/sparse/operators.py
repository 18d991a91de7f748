"""Operators and methods of sparse arrays that go through sparsify, installed from tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyjax.numpy as jnp
from pyjax.core.avals import abstractify
from pyjax.experimental.sparse.base import JAXSparse
from pyjax.experimental.sparse.bcoo_array import BCOO
from pyjax.experimental.sparse.bcoo_layouts import bcoo_update_layout
from pyjax.experimental.sparse.bcsr import BCSR
from pyjax.experimental.sparse.transform import sparsify

# Operators without a reflected form, and those with one.
_ONE: dict[str, Callable[..., Any]] = {
    "abs": jnp.abs,
    "neg": jnp.negative,
    "pos": jnp.positive,
    "getitem": lambda x, index: x[index],
}
_TWO: dict[str, Callable[..., Any]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "truediv": jnp.true_divide,
    "matmul": jnp.matmul,
    "pow": lambda x, y: x**y,
    "eq": jnp.equal,
    "ne": jnp.not_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
}
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_METHODS: dict[str, Callable[..., Any]] = {
    "astype": lambda x, *args, **kwargs: x.astype(*args, **kwargs),
    "reshape": lambda x, *args, **kwargs: x.reshape(*args, **kwargs),
    "sum": lambda x, *args, **kwargs: jnp.sum(x, *args, **kwargs),
}


def _operand(x: Any) -> bool:
    """Whether a value is a sparse array or something like an array."""
    if isinstance(x, JAXSparse):
        return True
    try:
        abstractify(x)
    except TypeError:
        return hasattr(x, "__jax_array__")
    return True


def _method(name: str, fun: Callable[..., Any], doc: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return sparsify(lambda x: fun(x, *args, **kwargs), use_tracer=True)(self)

    return _called(method, name, doc)


def _binary(name: str, fun: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not _operand(other):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        if name == "pow" and not isinstance(other, JAXSparse) and not reflected:
            return sparsify(lambda x: x**other, use_tracer=True)(self)
        return sparsify(fun, use_tracer=True)(*operands)

    return method


def _called(method: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


def _update_layout(
    self: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """See `bcoo_update_layout`."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


def _iterated(self: Any) -> Iterator[Any]:
    """Rows, one after the other."""
    return (self[i] for i in range(len(self)))


def _install(kind: type, names: frozenset[str] | None = None) -> None:
    for name, fun in _ONE.items():
        if names is None or name in names:
            doc = f"The operator behind __{name}__, see `sparsify`."
            setattr(kind, f"__{name}__", _method(f"__{name}__", fun, doc))
    for name, fun in _TWO.items():
        if names is None or name in names:
            for prefix, reflected in (("", False), ("r", True)):
                if not (reflected and name in _COMPARISONS):
                    full = f"__{prefix}{name}__"
                    doc = f"The operator behind {full}, see `sparsify`."
                    setattr(kind, full, _called(_binary(name, fun, reflected), full, doc))
    for name, fun in _METHODS.items():
        if names is None or name in names:
            doc = f"As the method `{name}` of arrays; see `sparsify`."
            setattr(kind, name, _method(name, fun, doc))


_install(BCOO)
BCOO.update_layout = _called(_update_layout, "update_layout", _update_layout.__doc__ or "")  # type: ignore[attr-defined]
BCOO.__iter__ = _iterated  # type: ignore[attr-defined]
_install(BCSR, frozenset({"matmul"}))
