"""Functions are traced once per kind of arguments, whoever asks for the trace, and what is
remembered of them goes with them."""

from __future__ import annotations

import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, tree_util, vmap
from pyjax.interpreters import traced_function
from tests.threads import together
from xla_backend.process import bounded_cache

X = jnp.arange(4.0)
Counted = tuple[Callable[..., Any], list[int]]


def counted(fun: Callable[..., Any]) -> Counted:
    """A function of its own, and a list that grows by one whenever its body runs."""
    runs: list[int] = []

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return fun(*args, **kwargs)

    return wrapper, runs


def total(x: Any) -> Any:
    return (x * x).sum()


def step(carry: Any, x: Any) -> Any:
    return carry * 0.5 + x, carry


def times(fun: Callable[..., Any], use: Callable[[Any], Any]) -> int:
    f, runs = counted(fun)
    use(f)
    use(f)
    return len(runs)


# Two times the same; and, for those that return arrays, with the same result.
ONCE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "jit": (total, lambda f: jit(f)(X)),
    "jit with options": (total, lambda f: (jit(f)(X), jit(f, keep_unused=True)(X + 1))),
    "jit and its stages": (total, lambda f: (jit(f)(X), jit(f).lower(X).compile()(X))),
    "jit inside of jit": (total, lambda f: jit(lambda x: jit(f)(x) + jit(f)(x * 2))(X)),
    "grad of jit": (total, lambda f: grad(jit(f))(X)),
    "grad of grad of jit": (total, lambda f: grad(lambda x: grad(jit(f))(x).sum())(X)),
    "jit of grad of jit": (total, lambda f: jit(grad(jit(f)))(X)),
    "vmap of jit": (jnp.sin, lambda f: vmap(jit(f))(X)),
    "make_jaxpr": (total, lambda f: pyjax.make_jaxpr(f)(X)),
    "eval_shape": (total, lambda f: pyjax.eval_shape(f, X)),
    "shapes, jaxpr and jit": (
        total,
        lambda f: (pyjax.eval_shape(f, X), pyjax.make_jaxpr(f)(X), jit(f)(X)),
    ),
    "checkpoint": (total, lambda f: pyjax.checkpoint(f)(X)),
    "grad of checkpoint": (total, lambda f: grad(pyjax.checkpoint(f))(X)),
    "scan": (step, lambda f: lax.scan(f, 0.0, X)),
    "grad of scan": (step, lambda f: grad(lambda x: lax.scan(f, x, X)[0])(1.0)),
    "fori_loop": (lambda i, c: c * 2.0 + i, lambda f: lax.fori_loop(0, 3, f, 1.0)),
    "while_loop": (lambda c: c * 2, lambda f: lax.while_loop(lambda c: c < 9, f, 1)),
    "condition of while_loop": (
        lambda c: c < 9,
        lambda f: lax.while_loop(f, lambda c: c * 2, 1),
    ),
    "cond": (jnp.sin, lambda f: lax.cond(True, f, jnp.cos, 1.0)),
    "both branches": (jnp.sin, lambda f: lax.cond(True, f, f, 1.0)),
    "switch": (jnp.sin, lambda f: lax.switch(1, [jnp.cos, f, f], 1.0)),
    "reduce": (
        lambda a, b: a * b + 0.0 * a,
        lambda f: lax.reduce(X, np.float32(1), f, (0,)),
    ),
    "reduce_window": (
        lambda a, b: a * b + 0.0 * a,
        lambda f: lax.reduce_window(X, np.float32(1), f, (2,), (1,), "VALID"),
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_twice_the_same_traces_once(name):
    fun, use = ONCE[name]
    assert times(fun, use) == 1


@pytest.mark.parametrize("name", ONCE)
def test_the_second_result_is_the_first(name):
    fun, use = ONCE[name]
    f, _ = counted(fun)
    first, second = (tree_util.tree_leaves(use(f)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        if isinstance(a, pyjax.Array):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_other_arguments_trace_again():
    f, runs = counted(lambda *args, **kwargs: sum(tree_util.tree_leaves((args, kwargs))))
    calls: list[Callable[[], Any]] = [
        lambda: jit(f)(X),
        lambda: jit(f)(1.0),
        lambda: jit(f)(np.float32(1)),
        lambda: jit(f)(1),
        lambda: jit(f)((X,)),
        lambda: jit(f)(x=X),
        lambda: jit(f)([X]),
        lambda: jit(f)(X, X),
    ]
    for call in calls + calls:
        call()
    assert len(runs) == len(calls)


def test_options_that_affect_tracing_trace_again():
    f, runs = counted(lambda x: x * 2)
    for _ in range(2):
        assert jit(f)(np.ones(2)).dtype == np.float32
        with pyjax.enable_x64(True):
            assert jit(f)(np.ones(2)).dtype == np.float64
    assert len(runs) == 2


def test_named_axes_trace_again():
    f, runs = counted(lambda x: lax.psum(x, "i"))
    for size in (2, 3, 2, 3):
        assert vmap(jit(f), axis_name="i")(jnp.ones(size)).tolist() == [size] * size
    assert len(runs) == 2


# Values that Python calls equal, and that programs tell apart.
ALIKE: list[Any] = [1, 1.0, True, np.int32(1), np.int64(1), np.float32(1), np.bool_(True), 1 + 0j]
STATIC = {
    "jit": lambda f, v: jit(f, static_argnums=1)(X, v),
    "jit by name": lambda f, v: jit(f, static_argnames="v")(X, v=v),
    "make_jaxpr": lambda f, v: pyjax.make_jaxpr(f, static_argnums=1)(X, v),
    "checkpoint": lambda f, v: pyjax.checkpoint(f, static_argnums=1)(X, v),
    "checkpoint, last": lambda f, v: pyjax.checkpoint(f, static_argnums=(-1,))(X, v),
}


@pytest.mark.parametrize("name", STATIC)
def test_static_values_that_are_equal_are_not_the_same(name):
    kinds: list[type] = []

    def f(x: Any, v: Any) -> Any:
        kinds.append(type(v))
        return x * v

    for v in ALIKE + ALIKE:
        STATIC[name](f, v)
    assert kinds == [type(v) for v in ALIKE]


def test_a_static_argument_is_not_a_traced_one():
    f, runs = counted(lambda x, n: x + n)
    assert float(jit(f)(1.0, 2)) == float(jit(f, static_argnums=1)(1.0, 2)) == 3.0
    assert float(jit(f, static_argnums=0)(1.0, 2)) == 3.0
    assert len(runs) == 3


@pytest.mark.parametrize("use", [pyjax.make_jaxpr, pyjax.checkpoint])
def test_static_arguments_without_a_hash_trace_each_time(use):
    f, runs = counted(lambda x, sizes: x[: sizes[0]])
    for _ in range(2):
        use(f, static_argnums=1)(X, [2])
    assert len(runs) == 2


# -- functions ------------------------------------------------------------------------------------


def test_closures_made_anew_trace_anew():
    runs = []

    def use(k: float) -> float:
        def f(x: Any) -> Any:
            runs.append(k)
            return x * k

        return float(jit(f)(2.0)) + float(lax.map(f, jnp.ones(1))[0])

    assert [use(k) for k in (1.0, 2.0, 2.0)] == [3.0, 6.0, 6.0]
    assert runs == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_objects_that_call_themselves_equal_are_different_functions():
    class Scale:
        def __init__(self, k: Any) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Scale) and self.k == other.k

        def __hash__(self) -> int:
            return hash(self.k)

        def __call__(self, x: Any) -> Any:
            return jnp.copysign(x, self.k)

    assert [float(jit(Scale(k))(1.0)) for k in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]


def test_a_function_that_is_wrapped_is_another_one():
    """`functools.wraps` copies what hangs on a function."""

    def f(x: Any) -> Any:
        return x + 1

    jit(f)(1.0)

    @functools.wraps(f)
    def g(x: Any) -> Any:
        return x + 2

    assert float(jit(g)(1.0)) == 3.0


def test_a_reloaded_function_traces_again():
    """Reloaders give a function that others hold a new body."""
    f = types.FunctionType((lambda x: x + 1).__code__, {})
    assert float(jit(f)(1.0)) == 2.0
    f.__code__ = (lambda x: x + 5).__code__
    assert float(jit(f)(1.0)) == 6.0


def test_an_object_that_cannot_be_held_weakly_traces_each_time():
    runs = []

    class Slots:
        __slots__ = ()

        def __call__(self, x: Any) -> Any:
            runs.append(1)
            return x + 1

    f = Slots()
    assert float(jit(f)(1.0)) == float(jit(f)(1.0)) == 2.0
    assert len(runs) == 2


# -- tracers do not stay --------------------------------------------------------------------------


USES_AT_THREE = {
    "jit": lambda f: jit(f)(3.0),
    "checkpoint": lambda f: pyjax.checkpoint(f)(3.0),
    "map": lambda f: lax.map(f, jnp.full(1, 3.0))[0],
    "cond": lambda f: lax.cond(True, f, f, 3.0),
    "fori_loop": lambda f: lax.fori_loop(0, 1, lambda i, c: f(c), 3.0),
    "while_loop": lambda f: lax.while_loop(lambda c: c[0] < 1, lambda c: (1, f(c[1])), (0, 3.0))[1],
}


@pytest.mark.parametrize("name", USES_AT_THREE)
def test_a_trace_with_a_tracer_in_it_is_not_remembered(name):
    held = {}

    def f(x: Any) -> Any:
        return x * held["scale"]

    def at_three(scale: Any) -> Any:
        held["scale"] = scale
        return USES_AT_THREE[name](f)

    for scale in (2.0, 5.0):
        assert float(pyjax.jvp(at_three, (scale,), (1.0,))[1]) == 3.0
        assert float(jit(lambda s: at_three(s))(scale)) == 3 * scale
        assert float(vmap(at_three)(jnp.full(2, scale))[1]) == 3 * scale
    held["scale"] = 7.0
    assert float(jit(f)(3.0)) == 21.0


# -- what is remembered goes ----------------------------------------------------------------------

RELEASES = {
    "jit": lambda f: jit(f)(X),
    "grad of jit": lambda f: grad(lambda x: jit(f)(x).sum())(X),
    "jit of grad": lambda f: jit(grad(lambda x: f(x).sum()))(X),
    "make_jaxpr": lambda f: pyjax.make_jaxpr(f)(X),
    "eval_shape": lambda f: pyjax.eval_shape(f, X),
    "checkpoint": lambda f: grad(lambda x: pyjax.checkpoint(f)(x).sum())(X),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), X, X),
    "map": lambda f: lax.map(f, jnp.stack([X, X])),
    "cond": lambda f: lax.cond(True, f, f, X),
    "fori_loop": lambda f: lax.fori_loop(0, 2, lambda i, c: f(c), X),
    "while_loop": lambda f: lax.while_loop(lambda c: c[1] < 9, f, X + 1),
    "linear_transpose": lambda f: pyjax.linear_transpose(f, X)(X),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_function_and_its_arrays_go(name):
    def use() -> list[weakref.ref]:
        data = np.arange(1.0, 5.0, dtype=np.float32)
        constant = jnp.arange(1.0, 5.0)

        def f(x: Any) -> Any:
            return x * data * constant

        RELEASES[name](f)
        return [weakref.ref(f), weakref.ref(constant), weakref.ref(data)]

    refs = use()
    pyjax.compilation_barrier()  # what is to be compiled knows who called it
    pyjax.clear_caches()  # programs of eager operations hold no function, but constants
    gc.collect()
    assert [r() for r in refs] == [None, None, None]


def test_a_function_goes_without_clear_caches():
    gc.collect()
    before = len(traced_function._traces)

    def use() -> list[weakref.ref]:
        def f(x: Any) -> Any:
            return x * constant if x.ndim else f(x[None])  # it refers to itself

        constant = jnp.arange(100.0)
        jit(f)(1.0)
        lax.map(f, jnp.ones((1, 100)))
        return [weakref.ref(f), weakref.ref(constant)]

    refs = use()
    gc.collect()
    assert refs[0]() is None
    gc.collect()  # its programs, which refer to themselves, go after it
    assert refs[1]() is None
    assert len(traced_function._traces) == before


def test_a_program_knows_the_name_of_a_function_that_is_gone():
    def make() -> Any:
        def scale(x: Any) -> Any:
            return x * 2

        return jit(scale).trace(X).jaxpr.jaxpr.debug_info, weakref.ref(scale)

    debug, ref = make()
    gc.collect()
    assert ref() is None
    assert "scale at test_traced_once.py" in debug.describe()
    assert debug.names() == ()


def test_traces_are_bounded():
    assert traced_function.TRACES.entries < 10_000
    f, runs = counted(lambda x, n: x + n)
    limit = traced_function.TRACES.entries
    try:
        traced_function.TRACES.entries = 16
        for n in range(40):
            pyjax.make_jaxpr(f, static_argnums=1)(1.0, n)
        assert len(traced_function._traces.of(f)) <= 16
        assert len(traced_function.TRACES) <= 16
    finally:
        traced_function.TRACES.entries = limit
    pyjax.make_jaxpr(f, static_argnums=1)(1.0, 39)
    assert len(runs) == 40
    pyjax.make_jaxpr(f, static_argnums=1)(1.0, 0)
    assert len(runs) == 41


def test_clear_caches_drops_traces():
    f, runs = counted(total)
    for clear in (pyjax.clear_caches, jit(f).clear_cache):
        jit(f)(X)
        clear()
        jit(f)(X)
    assert len(runs) == 3
    assert bounded_cache.statistics()["traces"]["entries"] >= 1


def test_threads_that_trace_the_same_function():
    """All go on with one trace, and none waits for another, whose function may wait for it."""
    tracing = threading.Barrier(4, timeout=30)

    def f(x: Any) -> Any:
        tracing.wait()  # all are tracing it at the same time
        return x * 2

    results = together(*[lambda: pyjax.make_jaxpr(f)(1.0)] * 4)
    assert len(set(map(id, results))) == 1
    assert float(jit(f)(4.0)) == 8.0


def test_a_function_that_raises_is_traced_again():
    fail = [True]

    def f(x: Any) -> Any:
        if fail:
            raise ValueError("not yet")
        return x + 1

    with pytest.raises(ValueError, match="not yet"):
        jit(f)(1.0)
    fail.clear()
    assert float(jit(f)(1.0)) == 2.0


def test_functions_applied_to_elements_take_no_arrays_from_outside():
    w = jnp.asarray(3.0)
    with pytest.raises(
        NotImplementedError, match=r"uses arrays from outside.*\n.*test_traced"
    ) as e:
        X.at[jnp.array([1, 2])].apply(lambda v: v * w)
    assert "pass scalars as Python numbers" in str(e.value)
