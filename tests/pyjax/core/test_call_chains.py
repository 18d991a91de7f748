"""Who called the user's code that an equation comes from."""

from __future__ import annotations

import functools
import gc
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.core import source_info
from pyjax.core.call_chains import running_chain
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.source_info import Frame


def chain_of(eqn: JaxprEqn) -> list[tuple[str, int]]:
    """Function and line, counted from that of `def`, of an equation's places."""
    assert eqn.source is not None
    return [(f.function_name, f.line - f.code.co_firstlineno) for f in eqn.source.chain()]


def eqns_of(fun: Callable[..., Any], *args: Any) -> list[JaxprEqn]:
    return pyjax.make_jaxpr(fun)(*args).jaxpr.eqns


def sine(x: Any) -> Any:
    return jnp.sin(x)


def twice(x: Any) -> Any:
    y = sine(x)
    return y + sine(x)


def test_places_and_their_callers() -> None:
    first, second, third = eqns_of(twice, 1.0)
    assert chain_of(first) == [("sine", 1), ("twice", 1)]
    assert chain_of(second) == [("sine", 1), ("twice", 2)]
    assert chain_of(third) == [("twice", 2)]


def test_callers_end_at_the_function_that_is_traced() -> None:
    """It is used for other calls as well; who called it first means nothing to them."""

    def main() -> list[JaxprEqn]:
        return eqns_of(sine, 1.0)

    (eqn,) = main()
    assert chain_of(eqn) == [("sine", 1)]


def test_a_loop_shares_its_frames() -> None:
    def loop(x: Any) -> Any:
        for _ in range(1000):
            x = sine(x)
        for _ in range(1000):
            x = x * 2.0
        return x

    eqns = eqns_of(loop, 1.0)
    frames = [eqn.source for eqn in eqns]
    assert len({frame.caller for frame in frames[:1000] if frame is not None}) == 1
    assert len(set(frames[1000:])) == 1


def test_functions_of_the_library_are_left_out() -> None:
    def loss(x: Any) -> Any:
        return jnp.where(x > 0, sine(x), x).sum()

    def step(x: Any) -> Any:
        return pyjax.vmap(pyjax.grad(loss))(x)

    eqns = eqns_of(step, jnp.ones(3))
    chains = [chain_of(eqn) for eqn in eqns]
    assert all({name for name, _ in chain} <= {"sine", "loss", "step"} for chain in chains)
    assert [("sine", 1), ("loss", 1), ("step", 1)] in chains  # the cosine
    assert all(chain[-1] == ("step", 1) and len(chain) <= 3 for chain in chains)


def test_generators_have_the_caller_that_resumes_them() -> None:
    def parts(x: Any) -> Iterator[Any]:
        while True:
            x = sine(x)
            x = jnp.cos(x)
            yield x

    def f(x: Any) -> Any:
        values = parts(x)
        a = next(values)
        b = next(values)
        return a + b

    chains = [chain_of(eqn) for eqn in eqns_of(f, 1.0)]
    assert chains == [
        [("sine", 1), ("parts", 2), ("f", 2)],
        [("parts", 3), ("f", 2)],
        [("sine", 1), ("parts", 2), ("f", 3)],
        [("parts", 3), ("f", 3)],
        [("f", 4)],
    ]


def test_recursion() -> None:
    def deep(x: Any, n: int) -> Any:
        return sine(x) if n == 0 else deep(x, n - 1) + 1.0

    eqns = eqns_of(lambda x: deep(x, 50), 1.0)
    assert [len(chain_of(eqn)) for eqn in eqns] == [53, *range(51, 1, -1)]


def test_the_chain_goes_on_where_a_program_is_replayed() -> None:
    inner = pyjax.jit(twice)

    def loss(x: Any) -> Any:
        y = inner(x)
        return inner(y)

    def main() -> list[list[tuple[str, int]]]:
        inlined = pyjax.make_jaxpr(lambda x: pyjax.core.jaxpr_as_fun(closed)(x)[0])(1.0)
        return [chain_of(eqn) for eqn in inlined.jaxpr.eqns]

    closed = pyjax.make_jaxpr(loss)(1.0)
    assert [chain_of(eqn) for eqn in closed.jaxpr.eqns] == [[("loss", 1)], [("loss", 2)]]
    assert main() == [
        [("loss", 1), ("<lambda>", 0)],
        [("loss", 2), ("<lambda>", 0)],
    ]


@pytest.mark.parametrize("option, value", [("full", False), ("limit", 1), ("limit", 0)])
def test_no_callers_are_kept_if_nobody_asks(option: str, value: Any) -> None:
    names = {
        "full": "jax_include_full_tracebacks_in_locations",
        "limit": "jax_traceback_in_locations_limit",
    }
    before = getattr(pyjax.config, names[option])
    pyjax.config.update(names[option], value)
    try:
        assert chain_of(eqns_of(twice, 1.0)[0]) == [("sine", 1)]
    finally:
        pyjax.config.update(names[option], before)


class Big:
    pass


def test_variables_of_functions_are_let_go() -> None:
    alive: list[weakref.ref[Big]] = []

    def helper(x: Any) -> Any:
        big = Big()
        alive.append(weakref.ref(big))
        return jnp.sin(x)

    def f(x: Any) -> Any:
        y = helper(x)
        z = y + 1.0
        assert alive[0]() is None  # at the latest with the next operation
        return helper(z)

    eqns_of(f, 1.0)
    gc.collect()
    assert [ref() for ref in alive] == [None, None]


def test_an_exception_leaves_nothing_behind() -> None:
    def fails(x: Any) -> Any:
        jnp.sin(x)
        raise KeyError("of the user")

    with pytest.raises(KeyError):
        eqns_of(fails, 1.0)
    first, *_ = eqns_of(twice, 1.0)
    assert chain_of(first) == [("sine", 1), ("twice", 1)]


def test_running_chain() -> None:
    def inner() -> Frame | None:
        return running_chain()

    found = inner()
    assert found is not None
    names = [frame.function_name for frame in found.chain()]
    assert names[:2] == ["inner", "test_running_chain"]


def test_callables_that_lead_to_themselves_have_a_name_and_a_place() -> None:
    class Called:
        func: Any = None

        def __call__(self, x: Any) -> Any:
            return x + 1

    def one(x: Any) -> Any:
        return x + 1

    def other(x: Any) -> Any:
        return one(x)

    called = Called()
    called.func = called
    one.__wrapped__, other.__wrapped__ = other, one  # type: ignore[attr-defined]
    for fun in (called, functools.partial(functools.partial(called))):
        assert source_info.function_name(fun) == "Called"
        assert pyjax.jit(fun)(1.0) == 2
    assert source_info.function_name(functools.partial(functools.partial(one))) == "one"
    assert re.fullmatch(r"one at test_call_chains.py:\d+", source_info.function_location(one))
    assert pyjax.jit(one)(1.0) == 2 and not source_info.is_of_library(one)
