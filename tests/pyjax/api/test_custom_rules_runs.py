"""How often the Python code of custom rules runs: at each call, as in JAX, since a rule may close
over what has changed; programs that are traced once run none of it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp

CALLS = 5
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda f: f(1.0),
    "jit": lambda f: pyjax.jit(f)(1.0),
    "grad": lambda f: pyjax.grad(f)(1.0),
    "jit of grad": lambda f: pyjax.jit(pyjax.grad(f))(1.0),
    "grad of jit": lambda f: pyjax.grad(pyjax.jit(f))(1.0),
    "vmap": lambda f: pyjax.vmap(f)(jnp.ones(2)),
    "jit of vmap of grad": lambda f: pyjax.jit(pyjax.vmap(pyjax.grad(f)))(jnp.ones(2)),
    "scan": lambda f: pyjax.lax.scan(lambda c, _: (f(c), None), 1.0, None, length=3),
}
# As counted in JAX, at the first and at a second time: function and rule of custom_jvp; function,
# forward and backward rule of custom_vjp.
RUNS: dict[str, tuple[list[int], list[int]]] = {
    "eager": ([5, 0, 5, 0, 0], [5, 0, 5, 0, 0]),
    "jit": ([5, 0, 5, 0, 0], [0, 0, 0, 0, 0]),
    "grad": ([5, 5, 5, 5, 5], [5, 5, 5, 5, 5]),
    "jit of grad": ([5, 5, 5, 5, 5], [5, 5, 5, 5, 5]),
    "grad of jit": ([10, 5, 10, 5, 5], [0, 0, 0, 0, 0]),
    "vmap": ([5, 0, 5, 0, 0], [5, 0, 5, 0, 0]),
    "jit of vmap of grad": ([5, 5, 5, 5, 5], [5, 5, 5, 5, 5]),
    "scan": ([5, 0, 5, 0, 0], [5, 0, 5, 0, 0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_runs_as_often_as_in_jax(name: str) -> None:
    runs: Counter[str] = Counter()

    @pyjax.custom_jvp
    def f(x: Any) -> Any:
        runs["jvp function"] += 1
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        runs["jvp rule"] += 1
        return f(*primals), jnp.cos(primals[0]) * tangents[0]

    @pyjax.custom_vjp
    def g(x: Any) -> Any:
        runs["vjp function"] += 1
        return jnp.sin(x)

    def g_fwd(x: Any) -> Any:
        runs["forward"] += 1
        return g(x), x

    def g_bwd(x: Any, ct: Any) -> Any:
        runs["backward"] += 1
        return (jnp.cos(x) * ct,)

    g.defvjp(g_fwd, g_bwd)

    def many(h: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            for _ in range(CALLS):
                x = h(x)
            return x

        return call

    functions = [many(f), many(g)]
    for expected in RUNS[name]:
        runs.clear()
        for function in functions:
            TRANSFORMS[name](function)
        kinds = ["jvp function", "jvp rule", "vjp function", "forward", "backward"]
        assert [runs[kind] for kind in kinds] == expected
