"""What compiling makes and does not keep is gone when it has ended: the cycle collector has nothing
to find."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.first_code import first_code
from xla_backend.targets.cpu.work_queue import reap


def _network(number: float) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(weights: list[Any], x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w) * number
        return jnp.mean(jax_softmax(x))

    jax_softmax = pyjax.nn.softmax
    weights = [np.full((24, 24), 0.1, np.float32)] * 3
    return pyjax.grad(loss), (weights, np.ones((9, 24), np.float32))


def _loop(number: float) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(carry: Any, x: Any) -> Any:
        state, count = carry
        new = lax.cond(count % 2 == 0, lambda s: s + x, lambda s: s * number, state)
        return (new, count + 1), new.sum()

    return lambda x: lax.scan(step, (x[0], 0), x), (np.ones((20, 7), np.float32),)


def _sorted(number: float) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    function = lambda x: jnp.sort(jnp.round(x * number)).cumsum()[jnp.arange(7)]
    return function, (np.arange(100, dtype=np.float32),)


@pytest.mark.parametrize("tiers", [nullcontext, first_code])
@pytest.mark.parametrize("make", [_network, _loop, _sorted])
def test_garbage_of_compiling(make, tiers):
    pyjax.config.update("jax_enable_compilation_cache", False)
    try:
        with tiers():
            garbage = _garbage(make)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        pyjax.config.update("jax_enable_compilation_cache", True)
    assert not garbage


def _garbage(make):
    kept = []
    for number in (1.25, 1.5):  # the first one loads what is needed
        function, arguments = make(number)
        kept.append(pyjax.jit(function))
        reap()  # a program of an earlier test that ran last, with all that it was made of
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        kept[-1](*arguments)
        pyjax.compilation_barrier()
        gc.collect()
        gc.set_debug(0)
        garbage = Counter(type(x).__qualname__ for x in gc.garbage if _is_ours(type(x).__module__))
        gc.garbage.clear()
    return garbage


def _is_ours(module: str) -> bool:
    return module.startswith(("xla_backend", "pyjax"))
