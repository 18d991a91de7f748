"""`debug_key_reuse`: a random key is used once, wherever it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import jit, lax, random, vmap
from pyjax.errors import KeyReuseError

normal = random.normal


@pytest.fixture(autouse=True)
def looked_for() -> Iterator[None]:
    with pyjax.debug_key_reuse(True):
        yield


def key() -> Any:
    return random.key(0)


def keys(n: int = 4) -> Any:
    return random.split(random.key(0), n)


def both(f: Callable[..., Any], g: Callable[..., Any], k: Any) -> None:
    f(k)
    g(k)


def swapping(k: Any, steps: int) -> Any:
    """Uses the first of two keys, and swaps them."""

    def body(pair: Any, _: Any) -> Any:
        return (pair[1], pair[0]), normal(pair[0])

    return lax.scan(body, (k[0], k[1]), None, length=steps)


def splitting(k: Any, _: Any) -> Any:
    k, use = random.split(k)
    return k, normal(use)


REUSES: dict[str, Callable[[], Any]] = {
    "bits": lambda: both(normal, normal, key()),
    "bits, other function": lambda: both(normal, random.uniform, key()),
    "split": lambda: both(random.split, normal, key()),
    "split twice": lambda: both(random.split, random.split, key()),
    "in jit": lambda: jit(lambda k: normal(k) + random.uniform(k))(key()),
    "into jit twice": lambda: both(jit(normal), jit(normal), key()),
    "through jit": lambda: both(normal, lambda k: normal(jit(lambda k: k)(k)), key()),
    "nested jit": lambda: jit(lambda k: jit(normal)(k) + jit(normal)(k))(key()),
    "element": lambda: both(lambda k: normal(k[0]), lambda k: normal(k[0]), keys()),
    "element from the end": lambda: both(lambda k: normal(k[1]), lambda k: normal(k[-3]), keys()),
    "slice and element": lambda: both(
        lambda k: vmap(normal)(k[1:3]), lambda k: normal(k[2]), keys()
    ),
    "element and all": lambda: both(lambda k: normal(k[3]), vmap(normal), keys()),
    "elements in jit": lambda: jit(lambda k: normal(k[1]) + normal(k[1]))(keys()),
    "index array": lambda: both(
        lambda k: vmap(normal)(k[jnp.array([0, 2])]), lambda k: normal(k[2]), keys()
    ),
    "reshaped": lambda: both(
        lambda k: normal(k.reshape(2, 2)[1, 0]), lambda k: normal(k[2]), keys()
    ),
    "stacked": lambda: both(
        lambda k: vmap(normal)(jnp.stack([k[0], k[1]])), lambda k: normal(k[1]), keys()
    ),
    "unpacked": lambda: both(lambda k: [normal(x) for x in k], lambda k: normal(k[2]), keys()),
    "scan constant": lambda: lax.scan(lambda c, _: (c + normal(key0), None), 0.0, None, length=2),
    "scan carry": lambda: lax.scan(lambda k, _: (k, normal(k)), key(), None, length=2),
    "scan, later round": lambda: swapping(keys(), 3),
    "scan xs": lambda: both(
        lambda k: lax.scan(lambda c, x: (c, normal(x)), 0, k), lambda k: normal(k[3]), keys(40)
    ),
    "scan ys": lambda: normal(lax.scan(lambda c, x: (c, (x, normal(x))[0]), 0, keys(40))[1][39]),
    "fori": lambda: lax.fori_loop(0, 3, lambda i, v: v + normal(key0), 0.0),
    "while": lambda: lax.while_loop(lambda v: v < 3, lambda v: v + random.uniform(key0), 0.0),
    "while condition": lambda: lax.while_loop(
        lambda v: random.uniform(key0) > v, lambda v: v + 1.0, 0.0
    ),
    "both and after": lambda: jit(lambda p, k: lax.cond(p, normal, random.uniform, k) + normal(k))(
        True, key()
    ),
    "one branch and after": lambda: jit(
        lambda p, k: lax.cond(p, normal, lambda k: 0.0, k) + normal(k)
    )(True, key()),
    "lanes": lambda: both(vmap(normal), vmap(random.uniform), keys()),
    "mapped, and the one key": lambda: both(
        lambda k: vmap(lambda x: normal(k) + x)(jnp.ones(3)), normal, key()
    ),
    "checkpoint": lambda: both(pyjax.checkpoint(normal), normal, key()),
}
key0 = None


@pytest.mark.parametrize("name", REUSES)
def test_reuse(name: str) -> None:
    global key0
    key0 = key()
    with pytest.raises(KeyReuseError, match=r"a random key.* is used twice: random_") as caught:
        REUSES[name]()
    text = str(caught.value)
    assert text.count("test_key_reuse.py:") >= 2  # both places
    assert "random.split(key)" in text and "random.clone(key)" in text


FINE: dict[str, Callable[[], Any]] = {
    "fold_in": lambda: [normal(random.fold_in(k, i)) for k in [key()] for i in range(3)],
    "fold_in after": lambda: both(normal, lambda k: normal(random.fold_in(k, 1)), key()),
    "clone": lambda: both(normal, lambda k: normal(random.clone(k)), key()),
    "words": lambda: both(random.key_data, random.key_data, key()),
    "elements": lambda: [normal(x) for k in [keys()] for x in (k[0], k[1], k[-1], k[2])],
    "the same element, used once": lambda: both(lambda k: k[0], lambda k: normal(k[0]), keys()),
    "unpacked": lambda: [normal(k) for k in keys()],
    "scan": lambda: [normal(lax.scan(splitting, key(), None, length=50)[0])],
    "scan xs": lambda: lax.scan(lambda c, k: (c, normal(k)), 0, keys(50)),
    "scan over unused": lambda: [vmap(normal)(lax.scan(lambda c, k: (c, k), 0, keys(40))[1])],
    "swaps": lambda: swapping(keys(), 2),
    "fori by index": lambda: lax.fori_loop(0, 4, lambda i, v, k=None: v + normal(key1[i]), 0.0),
    "computed index": lambda: jit(lambda k, i: normal(k[i.sum()]))(keys(), jnp.arange(30) % 2),
    "branches": lambda: lax.cond(True, normal, random.uniform, key()),
    "branches in jit": lambda: jit(lambda p, k: lax.cond(p, normal, random.uniform, k))(
        True, key()
    ),
    "lanes share": lambda: vmap(lambda x: normal(key1[0]) + x)(jnp.ones(3)),
    "grad": lambda: pyjax.grad(lambda x, k: x * normal(k))(1.0, key()),
    "grad of jit of checkpoint": lambda: pyjax.grad(
        jit(pyjax.checkpoint(lambda x, k: jnp.sin(x * normal(k))))
    )(1.0, key()),
    "grad of checkpoint": lambda: pyjax.grad(pyjax.checkpoint(lambda x, k: jnp.sin(x * normal(k))))(
        1.0, key()
    ),
    "raw keys are not followed": lambda: both(normal, normal, random.PRNGKey(0)),
    "poisson": lambda: random.poisson(key(), 3.0, (4,)),
    "binomial": lambda: random.binomial(key(), 10.0, 0.5, (4,)),
    "multinomial": lambda: random.multinomial(key(), 7, jnp.array([0.5, 0.5])),
    "gamma, beta, dirichlet": lambda: [
        random.gamma(key(), 2.0),
        random.beta(key(), 2.0, 1.0),
        random.dirichlet(key(), jnp.ones(3)),
    ],
    "permutation, choice": lambda: [
        random.permutation(key(), 10),
        random.choice(key(), 5, (3,), replace=False),
    ],
}
key1 = None


@pytest.mark.parametrize("name", FINE)
def test_no_reuse(name: str) -> None:
    global key1
    key1 = keys()
    FINE[name]()


def test_a_failed_call_uses_nothing() -> None:
    k = keys()
    with pytest.raises(KeyReuseError):
        jit(lambda k: normal(k[1]) + normal(k[0]) + normal(k[1]))(k)
    assert np.isfinite(normal(k[0])) and np.isfinite(normal(k[1]))


def test_places() -> None:
    k = key()

    @jit
    def draw(k: Any) -> Any:
        return normal(k)  # in draw

    draw(k)  # first
    with pytest.raises(KeyReuseError) as caught:
        lax.scan(lambda c, _: (c, draw(k)), 0, None, length=2)  # second
    text = str(caught.value)
    assert text.index("in iteration 0 of scan") < text.index("# second")
    assert text.index("# second") < text.index("it was used at") < text.index("# first")
    with pyjax.debug_key_reuse(False):
        assert draw(k) == draw(k)
