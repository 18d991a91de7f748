"""Callbacks into Python from compiled programs."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest

import pyjax.numpy
from pyjax import grad, jit, lax, vmap
from pyjax.lax.callbacks import debug_callback, debug_print, io_callback, pure_callback

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def sine(x):
    return np.sin(np.asarray(x))


def call(x, **options):
    return pure_callback(sine, pyjax.ShapeDtypeStruct(x.shape, x.dtype), x, **options)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_pure_callback(wrap):
    np.testing.assert_allclose(wrap(lambda x: call(x) * 2)(X), 2 * np.sin(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "seen"),
    [("expand_dims", (1,)), ("broadcast_all", (3,)), ("legacy_vectorized", ())],
)
def test_what_is_not_mapped_of_a_callback_in_vmap(method, seen):
    shapes = []

    def scaled(x, k):
        shapes.append((np.shape(x), np.shape(k)))
        return np.asarray(x) * np.asarray(k)

    f = lambda x, k: pure_callback(
        scaled, pyjax.ShapeDtypeStruct((), np.float32), x, k, vmap_method=method
    )
    result = vmap(f, (0, None))(pyjax.numpy.arange(3.0), 2.0)
    assert result.tolist() == [0, 2, 4]
    assert shapes == [((3,), seen)]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_pure_callback_vmap(method):
    np.testing.assert_allclose(
        jit(vmap(lambda x: call(x, vmap_method=method)))(X), np.sin(X), rtol=1e-6
    )


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_results_of_64_bits_are_refused(dtype):
    with pytest.raises(ValueError, match="jax_enable_x64"):
        pure_callback(lambda: 1, pyjax.ShapeDtypeStruct((), dtype))


def test_callback_inside_scan_and_cond():
    def step(c, x):
        return lax.cond(c > 0, lambda c: c + call(x)[0], lambda c: c + 1, c), c

    carry, _ = jit(lambda xs: lax.scan(step, np.float32(0), xs))(X)
    np.testing.assert_allclose(carry, 1 + np.sin(3), rtol=1e-6)


def test_debug_callback_sees_values_in_loops_and_under_grad():
    seen = []

    def f(x):
        def body(i, c):
            debug_callback(lambda i, c: seen.append((int(i), float(c))), i, c)
            return c * x

        return lax.fori_loop(0, 3, body, x)

    assert float(jit(grad(f))(np.float32(2))) == 4 * 2**3
    assert seen == [(0, 2.0), (1, 4.0), (2, 8.0)]


def test_debug_print(capsys):
    jit(lambda x: debug_print("x = {x}, {}", 3, x=x[0, 1]))(X)
    assert capsys.readouterr().out == "x = 1.0, 3\n"


def test_debug_callback_under_vmap():
    seen = []
    vmap(lambda x: debug_callback(lambda v: seen.append(float(v)), x))(X[0])
    assert sorted(seen) == [0, 1, 2]


def test_io_callback_runs_though_its_result_is_unused():
    log = []

    def f(x):
        io_callback(lambda v: log.append(float(v)), None, x[0, 1])
        return x

    jit(f)(X)
    assert log == [1.0]


def test_exception_reaches_the_caller():
    def bad(x):
        raise KeyError("from the callback")

    with pytest.raises(
        pyjax.errors.JaxRuntimeError, match=r"KeyError: .from the callback"
    ) as caught:
        np.asarray(jit(lambda x: pure_callback(bad, x, x))(X))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "test_callbacks.py" in str(caught.value) and "in bad" in str(caught.value)


def test_an_eager_debug_callback_raises_its_own_exception():
    with pytest.raises(ZeroDivisionError):
        debug_callback(lambda x: 1 / 0, X)


FLOAT = pyjax.ShapeDtypeStruct((), np.float32)


@pytest.mark.parametrize(
    "result, text",
    [
        (
            lambda x: x.astype(np.int32),
            "returned int32[] as value 0, but float32[] was declared",
        ),
        (
            lambda x: np.zeros(3, np.float32),
            "returned float32[3] as value 0, but float32[] was",
        ),
        (lambda x: (x, x), "returned 2 arrays, but 1 were declared"),
        (lambda x: None, "returned 0 arrays, but 1 were declared"),
    ],
)
def test_results_are_as_declared(result, text):
    with pytest.raises(pyjax.errors.JaxRuntimeError, match=re.escape(text)):
        np.asarray(jit(lambda x: pure_callback(result, FLOAT, x))(1.0))


def test_results_are_of_the_declared_structure_whatever_the_functions_is():
    found = pure_callback(lambda x: {"y": [x]}, {"y": [FLOAT]}, [np.float32(2)])
    assert found == {"y": [2]}
    assert float(pure_callback(np.float64, FLOAT, np.float32(2))) == 2


def test_debug_print_shows_arrays_in_containers_and_what_is_no_array(capsys):
    jit(lambda x: pyjax.debug.print("{} {} {x:.1f}", {"a": x}, "text", x=x))(np.float32(2.25))
    pyjax.effects_barrier()
    assert capsys.readouterr().out == "{'a': Array(2.25, dtype=float32)} text 2.2\n"


def test_debug_print_has_the_print_options_of_its_caller(capsys):
    def f(x):
        with np.printoptions(precision=2, suppress=True):
            pyjax.debug.print("{}", x)

    jit(f)(np.array([1.2345, 1e-7], np.float32))
    pyjax.effects_barrier()
    assert capsys.readouterr().out == "[1.23 0.  ]\n"


def test_debug_functions_in_two_calls(capsys):
    seen = []
    pyjax.debug.callback(ordered=True)(seen.append, 3)
    pyjax.debug.print(ordered=True)("x: {x}", x=4)
    assert seen == [3] and capsys.readouterr().out == "x: 4\n"


def test_errors():
    with pytest.raises(ValueError, match="do not support JVP"):
        grad(lambda x: lax.reduce_sum(call(x), (0, 1)))(X)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        vmap(call)(X)
    with pytest.raises(pyjax.errors.JaxRuntimeError, match=r"returned float32\[9\]"):
        declared = pyjax.ShapeDtypeStruct((2,), np.float32)
        np.asarray(pure_callback(lambda x: np.zeros(9), declared, X))


def test_effects_have_happened_after_the_barrier():
    seen = []

    @jit
    def f(x):
        debug_callback(lambda v: seen.append(float(v)), x)
        return lax.fori_loop(0, 2, lambda i, x: (debug_callback(seen.append, i), x + i)[1], x)

    f(3.0)
    pyjax.effects_barrier()
    assert sorted(map(float, seen)) == [0, 1, 3]


class Counter:
    """Calls itself equal to all of its kind."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter)

    def __hash__(self) -> int:
        return 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x) + np.float32(self.by)

    def method(self, x: np.ndarray) -> np.ndarray:
        return self(x)


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize("call", [pure_callback, io_callback])
def test_an_eager_call_of_the_same_callback_compiles_once(call):
    ten = Counter(10)
    for callback in (ten, ten.method):
        assert call(callback, ONES, ONES).tolist() == [11] * 3
        with pyjax.assert_compiles(0):
            for _ in range(3):  # a method is another object each time
                same = ten.method if callback is not ten else ten
                assert call(same, ONES, ONES).tolist() == [11] * 3


@pytest.mark.parametrize("call", [pure_callback, io_callback])
def test_callbacks_that_call_themselves_equal_are_called_each(call):
    counters = [Counter(by) for by in range(4)]
    for _ in range(2):
        for counter in counters:
            assert call(counter, ONES, ONES).tolist() == [counter.by + 1] * 3
            assert call(counter.method, ONES, ONES).tolist() == [counter.by + 1] * 3


def test_structures_of_arguments_that_are_merely_equal_are_told_apart():
    def keys(values):
        return np.asarray([type(k) is bool for k in values], np.int32)

    declared = np.zeros(1, np.int32)
    assert [int(pure_callback(keys, declared, {k: ONES})[0]) for k in (1, True, 1)] == [0, 1, 0]


def test_two_calls_of_a_callback_in_a_program_are_two_calls():
    made = iter(range(10))
    scalar = np.float32(0)
    draw = lambda: np.float32(next(made))
    f = jit(lambda: [pure_callback(draw, scalar) for _ in range(3)])
    assert sorted(map(float, f())) == [0, 1, 2]


def test_a_callback_goes_with_its_last_program():
    def callback(x):
        return np.asarray(x)

    gone = weakref.ref(callback)
    pure_callback(callback, ONES, ONES)
    del callback
    pyjax.clear_caches()
    gc.collect()
    assert gone() is None
