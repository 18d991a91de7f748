"""Why something was traced or compiled: one line for each kind of miss, the programs that a block
compiles, and what listeners hear of it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import jit, monitoring
from tests.threads import together

TRACED, COMPILED = "TRACING CACHE MISS", "COMPILATION CACHE MISS"
HERE = r"test_why_compiled.py:\d+ in"


class Miss(NamedTuple):
    """Two calls, of which the second finds no program, and what is said of that."""

    first: Callable[[Callable[..., Any]], Any]
    second: Callable[[Callable[..., Any]], Any]
    reason: str
    kind: str = TRACED


def in_axis(f: Callable[..., Any]) -> Any:
    return pyjax.vmap(lambda x: f(x), axis_name="i")(np.ones((2, 3), np.float32))


X = np.ones(3, np.float32)
CPU = pyjax.devices("cpu")
MISSES = {
    "first call": Miss(lambda f: None, lambda f: jit(f)(X), "first call of this function"),
    "shape": Miss(
        lambda f: jit(f)({"w": [X]}),
        lambda f: jit(f)({"w": [X[:2]]}),
        "argument x['w'][0]: float32[3] -> float32[2]",
    ),
    "dtype": Miss(
        lambda f: jit(f)((X, X)),
        lambda f: jit(f)((X, X.astype(np.int8))),
        "argument x[1]: float32[3] -> int8[3]",
    ),
    "weak type": Miss(
        lambda f: jit(f)(2.0),
        lambda f: jit(f)(np.float32(2)),
        "argument x: float32[] (weakly typed) -> float32[]",
    ),
    "several arguments": Miss(
        lambda f: jit(f)(X, X),
        lambda f: jit(f)(X[:1], X[:2]),
        "argument x: float32[3] -> float32[1]; argument n: float32[3] -> float32[2]",
    ),
    "static value": Miss(
        lambda f: jit(f, static_argnums=1)(X, 2),
        lambda f: jit(f, static_argnums=1)(X, 3),
        "static argument n: 2 -> 3",
    ),
    "static type": Miss(
        lambda f: jit(f, static_argnums=1)(X, 2),
        lambda f: jit(f, static_argnums=1)(X, 2.0),
        "static argument n: 2 (int) -> 2.0 (float)",
    ),
    "static by name": Miss(
        lambda f: jit(f, static_argnames="n")(X),
        lambda f: jit(f, static_argnames="n")(X, n=4),
        "static argument n=: left out -> 4",
    ),
    "tree": Miss(
        lambda f: jit(f)({"w": X}),
        lambda f: jit(f)({"w": X, "b": [X, None]}),
        "structure of argument x: {'w': *} -> {'b': [*, None], 'w': *}",
    ),
    "argument left out": Miss(
        lambda f: jit(f)(X, X),
        lambda f: jit(f)(X),
        "structure of argument n: * -> left out",
    ),
    "by name": Miss(
        lambda f: jit(f)(X),
        lambda f: jit(f)(x=X),
        "structure of argument x: * -> left out; structure of argument x=: left out -> *",
    ),
    "option": Miss(
        lambda f: jit(f)(X),
        lambda f: pyjax.enable_x64(True)(jit(f))(X),
        "option jax_enable_x64: False -> True",
    ),
    "named axes": Miss(
        lambda f: jit(f)(X),
        lambda f: in_axis(jit(f)),
        "named axes: none -> i=2",
    ),
    "committed": Miss(
        lambda f: jit(f)(jnp.asarray(X)),
        lambda f: jit(f)(pyjax.device_put(X, CPU[0])),
        "argument x: not committed -> committed to cpu:0",
        COMPILED,
    ),
    "donated": Miss(
        lambda f: jit(f)(jnp.asarray(X), jnp.asarray(X)),
        lambda f: jit(f, donate_argnums=1)(jnp.asarray(X), jnp.asarray(X)),
        "argument n: not donated -> donated",
        COMPILED,
    ),
    "compiler options": Miss(
        lambda f: jit(f)(X),
        lambda f: jit(f, compiler_options={"xla_cpu_enable_fast_math": True})(X),
        "compiler_options: {} -> {'xla_cpu_enable_fast_math': 'True'}",
        COMPILED,
    ),
    "another jit": Miss(
        lambda f: jit(f)(X),
        lambda f: jit(f, static_argnums=1)(X),
        "the program was forgotten (clear_cache, or room for others), or a jit of the same "
        "function with other static arguments made it: keep one",
        COMPILED,
    ),
    "traced only": Miss(
        lambda f: pyjax.make_jaxpr(f)(X),
        lambda f: jit(f)(X),
        "it was traced before, but not compiled",
        COMPILED,
    ),
}


def fresh() -> Callable[..., Any]:
    """A function that nobody has traced, with code of its own."""
    names: dict[str, Any] = {"pyjax": pyjax}
    exec("def loss(x, n=2): return pyjax.tree.map(lambda leaf: leaf * 3.5 + 1, x)", names)
    return names["loss"]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.WARNING, "pyjax"):
        yield lambda: [r.getMessage() for r in caplog.records]


def of_loss(lines: list[str], start: str) -> list[str]:
    return [line for line in lines if line.startswith(start) and "loss" in line]


@pytest.mark.parametrize("name", MISSES)
def test_each_kind_of_miss_has_one_line(name: str, lines: Any, caplog: Any) -> None:
    miss, f = MISSES[name], fresh()
    miss.first(f)
    with pyjax.explain_cache_misses(True), pyjax.log_compiles(True):
        miss.second(f)
    found = of_loss(lines(), TRACED) + of_loss(lines(), COMPILED)
    (line,) = found
    pattern = rf"{miss.kind} at {HERE} .* for loss at <string>:1: {re.escape(miss.reason)}"
    assert re.fullmatch(pattern, line), line
    if name != "named axes":  # within vmap, it is not compiled for itself
        (line,) = of_loss(lines(), "Finished compiling")
        place = rf"Finished compiling jit_loss for cpu:0 in [\d.]+ s, called at {HERE} .*: "
        assert re.fullmatch(place + re.escape(miss.reason), line), line


@pytest.mark.parametrize("name", MISSES)
def test_what_was_traced_is_no_miss(name: str, lines: Any) -> None:
    miss, f = MISSES[name], fresh()
    miss.second(f)
    with pyjax.explain_cache_misses(True):
        miss.second(f)
    assert of_loss(lines(), TRACED) == []


def test_a_function_that_a_loop_makes_anew(lines: Any) -> None:
    with pyjax.explain_cache_misses(True):
        for _ in range(2):

            def loss(x: Any) -> Any:
                return x * 7.5

            jit(loss)(X)
    first, second = of_loss(lines(), TRACED)
    assert first.endswith("first call of this function")
    assert "another one that the same line made was traced before: make it once" in second


def test_the_closest_earlier_call_is_compared(lines: Any) -> None:
    f = jit(fresh())
    f(X, X)
    f(X, X.astype(np.int32))
    f(X[:1], X[:1])
    with pyjax.explain_cache_misses(True):
        f(X, X[:2].astype(np.int32))
    (line,) = of_loss(lines(), TRACED)
    assert line.endswith("argument n: int32[3] -> int32[2]")


def test_nothing_is_said_without_the_options(lines: Any) -> None:
    jit(fresh())(X)
    assert lines() == []


# -- assert_compiles -------------------------------------------------------------------------------


def test_assert_compiles() -> None:
    f, x = jit(fresh()), jnp.asarray(X)
    with pyjax.assert_compiles(1):
        f(x)
        f(x)
    with pyjax.assert_compiles(0):
        f(x)
    # Programs of any length would do, and are not counted on.
    g, y = jit(fresh()), jnp.ones(5)
    with pyjax.assert_compiles(2), pyjax.assert_compiles(2):
        g(x)
        g(y)


def test_assert_compiles_lists_what_was_compiled_and_why() -> None:
    f, x, y = jit(fresh()), jnp.ones(3), jnp.ones(4)
    f(x)
    with pytest.raises(AssertionError) as caught, pyjax.assert_compiles(0):
        f(y)
        pyjax.lax.reduce_precision(y, 6, 11)
    text = str(caught.value)
    assert text.startswith("assert_compiles(0): 2 programs were compiled.\n  test_why_compiled.py:")
    assert re.search(
        rf"jit_loss, called at {HERE} \w+: argument x: float32\[3\] -> float32\[4\]\n", text
    )
    assert re.search(rf"jit_reduce_precision, called at {HERE} \w+: first reduce_precision ", text)
    assert "Call it with arguments of the same kinds" in text
    with pytest.raises(AssertionError, match=r"(?s)assert_compiles\(1\): no programs.*before"):
        with pyjax.assert_compiles(1):
            f(y)


def test_assert_compiles_lets_exceptions_pass() -> None:
    with pytest.raises(ZeroDivisionError), pyjax.assert_compiles(5):
        1 / 0
    with pyjax.assert_compiles(0):  # nothing is left of it
        pass


def test_assert_compiles_counts_for_its_thread() -> None:
    f, x = jit(fresh()), jnp.asarray(X)
    with pyjax.assert_compiles(0):
        together(lambda: f(x))


# -- listeners -------------------------------------------------------------------------------------

STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "loss",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "jit(loss)",
    "/jax/core/compile/backend_compile_duration": "jit(loss)",
}


@pytest.fixture
def heard() -> Iterator[list[tuple[Any, ...]]]:
    """Scalars, durations and time spans of the stages, in order."""
    found: list[tuple[Any, ...]] = []

    def listen(what: str) -> Callable[..., None]:
        def listener(event: str, *values: float, **kwargs: Any) -> None:
            if event in STAGES:
                found.append((what, event, kwargs["fun_name"], values))

        return listener

    scalar, duration, span = listen("scalar"), listen("duration"), listen("span")
    monitoring.register_scalar_listener(scalar)
    monitoring.register_event_duration_secs_listener(duration)
    monitoring.register_event_time_span_listener(span)
    yield found
    monitoring.unregister_scalar_listener(scalar)
    monitoring.unregister_event_duration_listener(duration)
    monitoring.unregister_event_time_span_listener(span)


def shape_of(heard: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [what[:3] for what in heard]


def test_listeners_hear_of_each_stage(heard: list[tuple[Any, ...]]) -> None:
    """As the reference records them: the begin of a stage, how long it took, begin and end."""

    def loss(x: Any) -> Any:
        return x @ x.T

    f, x = jit(loss), np.ones((2, 3), np.float32)
    begin = time.time()
    f(x)
    end = time.time()
    expected = [
        (what, event, name)
        for event, name in STAGES.items()
        for what in ("scalar", "duration", "span")
    ]
    assert shape_of(heard) == expected
    for (_, _, _, (start,)), (_, _, _, (took,)), (_, _, _, span) in zip(*[iter(heard)] * 3):
        assert begin <= start == span[0] <= span[1] <= end
        assert took == span[1] - span[0]
    heard.clear()
    f(x)
    assert heard == []


def test_listeners_hear_of_the_outermost_function_only(heard: list[tuple[Any, ...]]) -> None:
    inner = jit(fresh())

    def outer(x: Any) -> Any:
        return inner(x) * 2

    jit(outer).trace(X)
    assert shape_of(heard) == [
        (what, "/jax/core/compile/jaxpr_trace_duration", "outer")
        for what in ("scalar", "duration", "span")
    ]


@pytest.mark.parametrize("how", ["make_jaxpr", "eval_shape"])
def test_listeners_hear_of_traces_that_are_asked_for(how: str, heard: list[Any]) -> None:
    getattr(pyjax, how)(fresh())(X) if how == "make_jaxpr" else pyjax.eval_shape(fresh(), X)
    assert [event for what, event, *_ in heard if what == "duration"] == [next(iter(STAGES))]


def test_listeners_hear_of_single_operations(heard: list[tuple[Any, ...]]) -> None:
    pyjax.lax.reduce_precision(np.ones((2, 3, 5), np.float32), 7, 13)
    durations = [(event, name) for what, event, name, _ in heard if what == "duration"]
    assert durations == [(event, "jit(reduce_precision)") for event in [*STAGES][1:]]
