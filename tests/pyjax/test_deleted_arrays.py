"""Whatever uses an array that was deleted or donated says so, with shape, dtype and what to do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def large() -> pyjax.Array:
    """Too large to become a constant inside a program."""
    return jnp.arange(100.0)


def custom_vjp_of(x: pyjax.Array) -> Callable[..., Any]:
    @pyjax.custom_vjp
    def f(y):
        return y * x

    f.defvjp(lambda y: (y * x, y), lambda residual, g: (g * x,))
    return f


def custom_jvp_of(x: pyjax.Array) -> Callable[..., Any]:
    @pyjax.custom_jvp
    def f(y):
        return y * x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * x))
    return f


def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    return pyjax.grad(lambda y: f(y).sum())


# name: what is made with an array, and called before and after it is deleted.
CLOSURES: dict[str, Callable[[pyjax.Array], Callable[..., Any]]] = {
    "jit": lambda x: pyjax.jit(lambda y: y + x),
    "jit, several results": lambda x: pyjax.jit(lambda y: (y + x, y * 2)),
    "jit, donating": lambda x: pyjax.jit(lambda y: y * 2 + x, donate_argnums=0),
    "jit of grad": lambda x: pyjax.jit(gradient(lambda y: y * x)),
    "jit of scan": lambda x: pyjax.jit(
        lambda y: lax.scan(lambda c, _: (c + x, None), y, None, length=3)[0]
    ),
    "jit of fori_loop": lambda x: pyjax.jit(lambda y: lax.fori_loop(0, 3, lambda i, c: c + x, y)),
    "jit of checkpoint": lambda x: pyjax.jit(gradient(pyjax.checkpoint(lambda y: jnp.sin(y * x)))),
    "jit of custom_vjp": lambda x: pyjax.jit(gradient(custom_vjp_of(x))),
    "custom_jvp": lambda x: gradient(custom_jvp_of(x)),
    "vmap": lambda x: pyjax.vmap(lambda y: y + x[0]),
    "scan": lambda x: lambda y: lax.scan(lambda c, _: (c + x, None), y, None, length=3)[0],
    "cond": lambda x: lambda y: lax.cond(True, lambda y: y + x, lambda y: y, y),
    "vjp": lambda x: pyjax.vjp(lambda y: y * x, large())[1],
    "linearize": lambda x: pyjax.linearize(lambda y: y * x, large())[1],
    "ahead of time": lambda x: pyjax.jit(lambda y: y + x).lower(large()).compile(),
    "callback": lambda x: pyjax.jit(
        lambda y: pyjax.pure_callback(
            lambda v: np.asarray(v) + np.asarray(x), pyjax.ShapeDtypeStruct((100,), np.float32), y
        )
    ),
}


@pytest.mark.parametrize("end", ["deleted", "donated"])
@pytest.mark.parametrize("name", CLOSURES)
def test_functions_that_close_over_it(name: str, end: str) -> None:
    x = large()
    f = CLOSURES[name](x)
    f(large())
    if end == "deleted":
        x.delete()
    else:
        pyjax.jit(lambda x: x + 1, donate_argnums=0)(x)
    with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[100\]"):
        f(large())


STAGES: dict[str, Callable[[Any], Any]] = {
    "before tracing": lambda f: f,
    "traced": lambda f: f.trace(large()),
    "lowered": lambda f: f.lower(large()),
    "compiled": lambda f: f.lower(large()).compile(),
}


@pytest.mark.parametrize("stage", STAGES)
def test_deletion_between_the_stages(stage: str) -> None:
    x = large()
    reached = STAGES[stage](pyjax.jit(lambda y: y + x))
    x.delete()
    with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[100\]"):
        for step in ("lower", "compile"):
            if stage != "before tracing" and hasattr(reached, step):
                reached = getattr(reached, step)()
        reached(large())


def test_a_small_constant_is_part_of_the_program() -> None:
    x = jnp.arange(3.0)
    f = pyjax.jit(lambda y: y + x)
    f(x)
    x.delete()
    np.testing.assert_array_equal(f(np.ones(3, np.float32)), [1, 2, 3])
    with pytest.raises(RuntimeError, match="deleted"):
        f(np.ones(1, np.float32))  # traces again


USES: dict[str, Callable[[pyjax.Array], Any]] = {
    "operator": lambda x: x + 1,
    "function": jnp.sin,
    "index": lambda x: x[0],
    "update": lambda x: x.at[0].set(1.0),
    "stack": lambda x: jnp.stack([x, x]),
    "array of arrays": lambda x: jnp.array([x, x]),
    "copy": jnp.copy,
    "device_put": lambda x: pyjax.device_put(x, pyjax.devices()[0]),
    "device_get": pyjax.device_get,
    "jit": lambda x: pyjax.jit(lambda y: y + 1)(x),
    "jit, donating": lambda x: pyjax.jit(lambda y: y + 1, donate_argnums=0)(x),
    "grad": lambda x: pyjax.grad(jnp.sum)(x) + x,
    "NumPy": np.asarray,
    "NumPy function": np.sin,
    "NumPy operator": lambda x: np.ones(100) + x,
    "DLPack": np.from_dlpack,
    "memoryview": memoryview,
    "bytes": bytes,
    "item": lambda x: x.item(3),
    "tolist": lambda x: x.tolist(),
    "tobytes": lambda x: x.tobytes(),
    "iteration": list,
    "str": str,
    "format": lambda x: f"{x}",
    "pickle": pickle.dumps,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "address": lambda x: x.unsafe_buffer_pointer(),
    "block_until_ready": lambda x: x.block_until_ready(),
}


@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    x = large()
    x.delete()
    with pytest.raises(RuntimeError, match=r"deleted with shape=float32\[100\]"):
        USES[name](x)


def test_the_message() -> None:
    x = large()

    @pyjax.jit
    def shifted(y):
        return y + x

    shifted(x)
    x.delete()
    with pytest.raises(RuntimeError) as error:
        shifted(large())
    what, where, why, fix = str(error.value).split("\n  ")
    assert what.startswith("Array has been deleted with shape=float32[100]: shifted at ")
    assert what.endswith("closes over it")
    assert "test_deleted_arrays.py" in where
    assert ".delete()" in why and "donate_argnums" in why
    assert "keep the function's result" in fix
    assert "deleted" in repr(x)


def test_keys() -> None:
    key = pyjax.random.key(0)
    key.delete()
    with pytest.raises(RuntimeError, match=r"deleted with shape=key<fry>\[\]"):
        pyjax.random.normal(key)


def test_donated_to_where_it_is() -> None:
    """The memory goes on in another array, and the first one stays usable, as in JAX."""
    x = jnp.arange(3.0)
    y = pyjax.device_put(x, donate=True)
    assert y is not x and not x.is_deleted()
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
