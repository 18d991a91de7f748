"""`check_tracer_leaks` names the line that made a tracer, and what holds it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.errors import TracerLeakError
from tests.sampling import sampled

STORE: dict[str, Any] = {}
LATEST = None


@pytest.fixture(autouse=True)
def this_module_is_seen() -> Iterator[None]:
    """Holders are looked for among what the garbage collector sees (see conftest.py)."""
    gc.unfreeze()
    yield
    gc.freeze()


class Model:
    def __init__(self) -> None:
        self.hidden = None

    def __call__(self, x):
        self.hidden = jnp.sin(x)  # kept here
        return self.hidden * 2


class Slotted:
    __slots__ = ("value",)


def leak_of(run: Callable[[], Any]) -> str:
    with pyjax.check_tracer_leaks(True), pytest.raises(TracerLeakError) as caught:
        run()
    return str(caught.value)


def run_jit(f):
    pyjax.jit(f)(1.0)


def run_vmap(f):
    pyjax.vmap(f)(jnp.ones(3))


def run_grad(f):
    pyjax.grad(f)(1.0)


def run_jvp(f):
    pyjax.jvp(f, (1.0,), (1.0,))


def run_scan(f):
    lax.scan(lambda c, a: (f(c), None), 1.0, None, length=2)


RUNS = [run_jit, run_vmap, run_grad, run_jvp, run_scan]


@sampled("run", RUNS, every=3, ids=lambda f: f.__name__)
def test_attribute(run: Callable[..., Any]) -> None:
    model = Model()
    text = leak_of(lambda: run(model))
    assert "Leaked trace" in text and "# kept here" in text
    assert f"held by the attribute 'hidden' of an object of class {__name__}.Model" in text


@sampled("run", RUNS, every=3, ids=lambda f: f.__name__)
def test_list_that_a_function_closes_over(run: Callable[..., Any]) -> None:
    leaked: list[Any] = []

    def f(x):
        y = x * 3  # made here
        leaked.append(y)
        return x * 2.0

    text = leak_of(lambda: run(f))
    assert "# made here" in text
    assert "held by element 0 of a list, the variable 'leaked' that " in text
    assert "closes over" in text


def test_entry_of_a_global_dictionary() -> None:
    def f(x):
        STORE["inner"] = [jnp.cos(x)]
        return x

    try:
        text = leak_of(lambda: run_jit(f))
    finally:
        STORE.clear()
    assert f"element 0 of a list, entry 'inner' of a dict, the global 'STORE' of {__name__}" in text


def test_global() -> None:
    def f(x):
        global LATEST
        LATEST = x + 1
        return x

    text = leak_of(lambda: run_jit(f))
    assert f"held by the global 'LATEST' of {__name__}" in text


def test_closure_slot_argument_and_class() -> None:
    kept = None

    def f(x):
        nonlocal kept
        kept = x
        return x + 1

    text = leak_of(lambda: run_jit(f))
    assert "an argument" in text and "held by the variable 'kept' that" in text

    slotted = Slotted()

    def g(x):
        slotted.value = x * 2
        return x

    assert "the attribute 'value' of an object of class" in leak_of(lambda: run_jit(g))
    kept = slotted = None

    def h(x):
        Model.last = x * 2
        return x

    text = leak_of(lambda: run_jit(h))
    del Model.last
    assert "the attribute 'last' of the class Model" in text


def test_local_variable_of_a_running_function() -> None:
    def outer():
        box = []
        run_jit(lambda x: box.append(x + 1) or x)

    assert "element 0 of a list, the variable 'box' that" in leak_of(outer)

    def other(box):
        run_jit(lambda x, box=box: box.add(id(x)) or x)  # a number is no leak

    with pyjax.check_tracer_leaks(True):
        other(set())


def test_nothing_leaks() -> None:
    def f(x):
        y = {"a": [jnp.sin(x)]}
        y["self"] = y  # a cycle
        return lax.cond(x > 0, lambda: y["a"][0], lambda: x)

    with pyjax.check_tracer_leaks(True):
        for run in RUNS:
            run(f)
        pyjax.jit(pyjax.grad(pyjax.checkpoint(f)))(1.0)
        pyjax.hessian(f)(1.0)
        pyjax.jit(pyjax.vmap(pyjax.grad(f)))(jnp.ones(2))
        with pytest.raises(ZeroDivisionError):
            pyjax.jit(lambda x: 1 / 0)(1.0)
    assert pyjax.jit(lambda x: STORE.setdefault("x", x) is x)(1.0)  # nobody looks
    STORE.clear()
