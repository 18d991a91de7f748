"""NaNs, infinities, zero divisors and indices out of bounds: named with operation, line, variable,
iteration and lane, whatever the program was made by."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import jit, lax, vmap
from pyjax.errors import OutOfBoundsError


def error_of(call: Callable[[], Any], kind: type[Exception] = FloatingPointError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def assert_lines(text: str, *patterns: str) -> None:
    """The text has something for each pattern, in this order."""
    start = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, start)
        assert found, f"{pattern!r} is not in, or not in this order:\n{text}"
        start = found.end()


def takes_logarithms(x):
    y = x + 1
    z = jnp.log(y - 5)  # the culprit
    return z * 2


def rounds(x):
    def body(c, d):
        c = c - d
        root = jnp.sqrt(c)  # of what is left
        return c, root

    return lax.scan(body, x, jnp.ones(5))


def while_rounds(x):
    def body(v):
        i, a = v
        return i + 1, jnp.log(a) + 0.1  # repeatedly

    return lax.while_loop(lambda v: v[0] < 5, body, (0, x))


def counted(x):
    return lax.fori_loop(2, 8, lambda i, v: jnp.sqrt(v - i), x)


def half_line(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()  # whose gradient at 0 is nan


LANES = jnp.arange(8.0)[::-1]

# A call, and what its message says, line by line.
CASES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "eager": (
        lambda: takes_logarithms(jnp.asarray(1.0)),
        (r"encountered in log, .*log\(-3.0\) = nan", "# the culprit", "for `z`"),
    ),
    "jit": (
        lambda: jit(takes_logarithms)(LANES),
        (r"in log, .*element \[4\]: log\(-1.0\) = nan", "# the culprit", r"`jnp.log\(y - 5\)`"),
    ),
    "donated": (
        lambda: jit(takes_logarithms, donate_argnums=0)(jnp.arange(8.0)),
        (r"log\(-4.0\) = nan", "# the culprit"),
    ),
    "ahead of time": (
        lambda: jit(takes_logarithms).lower(LANES).compile()(LANES),
        (r"log\(-1.0\) = nan", "# the culprit"),
    ),
    "vmap": (
        lambda: vmap(takes_logarithms)(LANES.reshape(4, 2)),
        (r"element \[0\]: log\(-1.0\) = nan", "# the culprit", "in lane 2 of vmap over 4 lanes"),
    ),
    "vmap of jit": (
        lambda: vmap(jit(takes_logarithms))(LANES),
        ("# the culprit", "in lane 4 of vmap over 8 lanes"),
    ),
    "jit of vmap": (
        lambda: jit(vmap(takes_logarithms))(LANES),
        ("# the culprit", "in lane 4 of vmap over 8 lanes"),
    ),
    "vmap of vmap, square": (
        lambda: jit(vmap(vmap(jnp.log, axis_name="inner"), in_axes=1, axis_name="outer"))(
            jnp.ones((3, 3)).at[1, 2].set(-1.0)
        ),
        (r"log\(-1.0\)", "lane 1 of vmap 'inner' over 3", "lane 2 of vmap 'outer' over 3"),
    ),
    "scan": (
        lambda: rounds(jnp.asarray(2.5)),
        (r"sqrt\(-0.5\) = nan", "# of what is left", "for `root`", "iteration 2 of scan at .*scan"),
    ),
    "jit of vmap of scan": (
        lambda: jit(vmap(rounds))(jnp.asarray([9.0, 8.0, 3.5, 10.0])),
        ("# of what is left", "in iteration 3 of scan", "in lane 2 of vmap over 4 lanes"),
    ),
    "scan in reverse": (
        lambda: jit(lambda x: lax.scan(lambda c, a: (c, jnp.log(a)), 0, x, reverse=True))(
            jnp.asarray([1.0, 1.0, -1.0, 1.0])
        ),
        ("in iteration 2 of scan",),
    ),
    "while": (
        lambda: jit(while_rounds)(jnp.asarray(2.5)),
        (r"in log", "# repeatedly", "in iteration 3 of while_loop"),
    ),
    "vmap of while": (
        lambda: jit(vmap(while_rounds))(jnp.asarray([1e9, 2.5])),
        (r"in log", "# repeatedly", "in iteration 3 of while_loop", "in lane 1 of vmap over 2"),
    ),
    "fori": (
        lambda: jit(counted)(20.0),
        (r"in sqrt", r"in iteration 2 of fori_loop \(i = 4\)"),
    ),
    "fori with computed bounds": (
        lambda: jit(lambda n, x: lax.fori_loop(0, n, lambda i, v: jnp.sqrt(v - i), x))(9, 20.0),
        (r"in sqrt", r"in iteration 2 of fori_loop \(i = 2\)"),
    ),
    "map": (
        lambda: lax.map(lambda x: jnp.log(x), jnp.asarray([1.0, -2.0])),
        (r"log\(-2.0\) = nan", "in iteration 1 of scan"),
    ),
    "cond": (
        lambda: jit(lambda x: lax.cond(x > 0, jnp.sqrt, jnp.log, x))(-1.0),
        (r"log\(-1.0\) = nan", "in branch 0 of cond"),
    ),
    "loop in a loop": (
        lambda: jit(lambda x: lax.scan(lambda c, _: (c - 1.5, rounds(c)[1]), x, None, length=3))(
            7.0
        ),
        (r"sqrt\(-1.0\)", "in iteration 4 of scan", "in iteration 2 of scan"),
    ),
    "grad": (
        lambda: pyjax.grad(half_line)(jnp.zeros(3)),
        (
            r"in mul, .*mul\(0.0, inf\) = nan",
            "# whose gradient at 0 is nan",
            r"`jnp.sqrt\(x\)`",
            "in the backward pass of this line: transpose of mul, from the jvp of sqrt",
        ),
    ),
    "jit of grad": (
        lambda: jit(pyjax.grad(half_line))(jnp.zeros(3)),
        ("# whose gradient", "backward pass of this line: transpose of mul, from the jvp of sqrt"),
    ),
    "grad of jit": (
        lambda: pyjax.grad(jit(half_line))(jnp.zeros(3)),
        ("# whose gradient", "backward pass of this line: transpose of mul, from the jvp of sqrt"),
    ),
    "grad of checkpoint": (
        lambda: jit(pyjax.grad(pyjax.checkpoint(half_line)))(jnp.zeros(3)),
        ("# whose gradient", "backward pass of this line: transpose of mul, from the jvp of sqrt"),
    ),
    "jvp": (
        lambda: pyjax.jvp(jit(lambda x: jnp.sqrt(x)), (jnp.zeros(2),), (jnp.zeros(2),)),
        (r"mul\(0.0, inf\) = nan", r"jnp.sqrt\(x\)", "derivative of this line: jvp of sqrt"),
    ),
    "vmap of grad": (
        lambda: jit(vmap(pyjax.grad(half_line)))(jnp.asarray([1.0, 2.0, 0.0])),
        ("# whose gradient", "transpose of mul, from the jvp of sqrt", "in lane 2 of vmap over 3"),
    ),
    "grad of scan": (
        lambda: jit(
            pyjax.grad(
                lambda x: lax.scan(lambda c, y: (c - y, half_line(c)), x, jnp.ones(3))[1].sum()
            )
        )(2.0),
        ("# whose gradient", "transpose of mul, from the jvp of sqrt", "in iteration 2 of scan"),
    ),
    "an argument": (
        lambda: jit(takes_logarithms)(np.float32(np.nan)),
        (r"in add, .*add\(nan, 1.0\) = nan", "for `y`", "came in with argument 'x' of takes_loga"),
    ),
    "harmless ones elsewhere": (
        lambda: jit(lambda x: (jnp.where(x > 0, jnp.log(x), 0), jnp.sqrt(x - 1)))(-1.0),
        (r"sqrt\(-2.0\) = nan",),
    ),
    "a function of pyjax that an earlier line called": (
        lambda: [
            jnp.floor_divide(jnp.ones(3), 2.0),
            jnp.floor_divide(jnp.zeros(3), jnp.zeros(3)),  # this one
        ],
        (r"div\(0.0, 0.0\) = nan", "# this one"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_debug_nans(name: str) -> None:
    call, patterns = CASES[name]
    with pyjax.debug_nans(True):
        text = error_of(call)
    assert_lines(text, *patterns, "jax_debug_nans checks the results of every program")
    assert "pyjax.debug_nans(False)" in text


def test_debug_nans_looks_at_results_only() -> None:
    f = jit(lambda x: jnp.where(x > 0, jnp.log(x), 0))
    with pyjax.debug_nans(True):
        assert f(jnp.arange(-2.0, 2.0)).tolist() == [0, 0, 0, 0]
        assert "log(-2.0)" in error_of(lambda: jnp.log(jnp.arange(-2.0, 2.0)))
    with options.error_checking_behavior_nan("raise"):
        text = error_of(lambda: f(jnp.arange(-2.0, 2.0)))
    assert_lines(text, r"element \[0\]: log\(-2.0\) = nan", "error_checking_behavior_nan='raise'")


def test_operands_that_are_spread() -> None:
    x = jnp.ones((7, 3)).at[2, 1].set(jnp.nan)
    with pyjax.debug_nans(True):
        text = error_of(lambda: x + jnp.arange(3.0))
    assert_lines(text, r"element \[2, 1\]: add\(nan, 1.0\) = nan")


@pytest.mark.parametrize("seed", range(6))
def test_any_iteration_and_lane(seed: int) -> None:
    """The fault is planted: where it is, is known."""
    draw = np.random.default_rng(seed)
    steps, lanes = int(draw.integers(2, 9)), int(draw.integers(2, 9))
    step, lane = int(draw.integers(steps)), int(draw.integers(lanes))
    x = np.ones((lanes, steps), np.float32)
    x[lane, step] = -1.0
    in_axis = int(draw.integers(2))
    f = vmap(lambda row: lax.scan(lambda c, a: (c + jnp.log(a), c), 0.0, row), in_axes=in_axis)
    with pyjax.debug_nans(True):
        text = error_of(lambda: (jit(f) if seed % 2 else f)(x if in_axis == 0 else x.T))
    assert_lines(text, r"log\(-1.0\)", f"iteration {step} of scan", f"lane {lane} of vmap")


def test_lanes_that_have_stopped_are_no_fault() -> None:
    def left(x):
        return lax.while_loop(lambda v: v >= 1, lambda v: jnp.sqrt(v - 1) + 0 * v, x)

    def rooted(x):  # in a lane that has stopped, the root of less than zero
        return lax.while_loop(
            lambda v: v[0] < x, lambda v: (v[0] + 1, jnp.sqrt(x - v[0])), (0.0, x)
        )

    xs = jnp.asarray([1.0, 4.0, 2.0])
    with options.error_checking_behavior_nan("raise"), pyjax.debug_nans(True):
        assert np.isfinite(jit(vmap(rooted))(xs)[1]).all()
        assert np.isfinite(vmap(rooted)(xs)[1]).all()
        assert np.isfinite(jit(vmap(left))(xs)).all()
        bad = jit(vmap(lambda x: lax.while_loop(lambda v: v < x, lambda v: v + jnp.log(-x), 0.0)))
        assert_lines(error_of(lambda: bad(xs)), r"log\(-", "iteration 0", "lane 0 of vmap over 3")


def test_debug_infs() -> None:
    f = jit(lambda x: jnp.exp(x) + 1)
    with pyjax.debug_infs(True):
        text = error_of(lambda: f(jnp.asarray([1.0, 1000.0])))
        assert_lines(text, r"\(inf\) encountered in exp", r"exp\(x\)", "jax_debug_infs checks")
        assert "div(1.0, 0.0) = inf" in error_of(lambda: 1 / jnp.arange(3.0))
        assert "complex64" in error_of(lambda: jnp.ones(2, jnp.complex64) * jnp.inf)
        assert np.isnan(jnp.sqrt(-jnp.ones(1))).all()  # that is not asked for
    assert np.isinf(f(1000.0))


def test_options_off_leave_no_trace() -> None:
    f = jit(lambda x: jnp.log(x))
    with pyjax.debug_nans(True):
        error_of(lambda: f(-1.0))
    assert np.isnan(f(-1.0))
    with pyjax.debug_nans(True):
        error_of(lambda: f(-1.0))


def test_divisors() -> None:
    quotient = jit(lambda x, y: jnp.where(y > 0, x / y, 0))
    with options.error_checking_behavior_divide("raise"):
        assert quotient(1.0, 2.0) == 0.5
        text = error_of(lambda: quotient(jnp.ones(3), jnp.arange(3.0)[::-1]))
        assert_lines(text, r"division by zero .* in div.*element \[2\]: div\(1.0, 0.0\)", "x / y")
        for call in (
            lambda: jnp.arange(3) // jnp.arange(3),
            lambda: jnp.arange(3) % jnp.arange(3),
            lambda: jnp.fmod(jnp.arange(3), jnp.arange(3)),
            lambda: lax.rem(1.0, 0.0),
        ):
            assert "division by zero" in error_of(call)
        text = error_of(
            lambda: jit(lambda x: lax.scan(lambda c, a: (c % a, c), 5, x))(jnp.asarray([3, 2, 0]))
        )
        assert_lines(text, r"rem\(0, 0\)", "c % a", "iteration 2 of scan")
        text = error_of(lambda: vmap(jit(lambda a, b: a // b))(jnp.ones(3), jnp.asarray([1, 0, 2])))
        assert_lines(text, "division by zero", "lane 1 of vmap over 3 lanes")
        assert "x ** 0.5" in error_of(lambda: jit(pyjax.grad(lambda x: x**0.5 / x))(0.0))
    assert (jnp.arange(3) % jnp.arange(3)).tolist() == [0, 0, 0]


TABLE = jnp.arange(12.0).reshape(3, 4)


def _read(x, i):
    return x[i]


def _one_at(x, i):
    return x.at[i].set(1.0)


INDEXING: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "rows": (
        lambda: jit(_read)(TABLE, jnp.asarray([0, 5, 1])),
        (
            r"index 5 is out of bounds for axis 0 with size 3.*gather.*index \[1\] of \[3\]",
            r"x\[i\]",
        ),
    ),
    "columns": (
        lambda: jit(lambda x, i: x[:, i])(TABLE, jnp.asarray([0, -5])),
        (r"index -1 is out of bounds for axis 1 with size 4.*so -5 was asked for",),
    ),
    "computed": (lambda: jit(_read)(TABLE, 7), (r"index 7 .* axis 0 with size 3", r"x\[i\]")),
    "static": (lambda: TABLE[3], (r"index 3 .* axis 0 with size 3", r"TABLE\[3\]")),
    "static and negative": (lambda: TABLE[1, -9], (r"axis 1 with size 4.*-9 was asked for",)),
    "static in jit": (lambda: jit(lambda x: x[:, 4])(TABLE), (r"index 4 .* axis 1 with size 4",)),
    "eager": (lambda: TABLE[jnp.asarray([0, 3])], (r"index 3 .* axis 0", r"TABLE\[jnp")),
    "update": (lambda: _one_at(TABLE, jnp.asarray([1, 3])), (r"index 3 .* scatter",)),
    "static update": (lambda: _one_at(TABLE, 7), (r"index 7 .* axis 0 with size 3", r"x.at\[i\]")),
    "update in jit": (lambda: jit(_one_at)(TABLE, 3), (r"index 3 .* axis 0", r"x.at\[i\]")),
    "lane": (
        lambda: jit(vmap(_read))(TABLE, jnp.asarray([0, 3, 4])),
        (r"index 4 is out of bounds for axis 0 with size 4", "in lane 2 of vmap over 3 lanes"),
    ),
    "lane of an update": (
        lambda: vmap(lambda row, i: row.at[i].add(1.0))(TABLE, jnp.asarray([1, 9, 3])),
        (r"index 9 is out of bounds for axis 0 with size 4", "in lane 1 of vmap over 3 lanes"),
    ),
    "round": (
        lambda: lax.scan(lambda c, i: (c, TABLE[i, i]), 0, jnp.arange(5)),
        (r"index 3 .* axis 0 with size 3", r"TABLE\[i, i\]", "in iteration 3 of scan"),
    ),
    "window": (
        lambda: lax.dynamic_slice(TABLE, (0, 3), (2, 2)),
        (r"index 3 .* axis 1 with size 4.*2 elements are taken",),
    ),
    "window of an update": (
        lambda: lax.dynamic_update_slice(TABLE, jnp.ones((2, 2)), (2, 0)),
        (r"index 2 .* axis 0 with size 3.*dynamic_update_slice",),
    ),
    "take": (lambda: jnp.take(TABLE, jnp.asarray([5]), axis=1), (r"index 5 .* axis 1",)),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indices(name: str) -> None:
    call, patterns = INDEXING[name]
    call()  # clamped, filled or dropped
    with options.error_checking_behavior_oob("raise"):
        for _ in range(2):
            text = error_of(call, OutOfBoundsError)
            assert_lines(text, *patterns, "error_checking_behavior_oob='raise'", "use an index fr")
        assert TABLE[2, -4] == 8 and TABLE[jnp.asarray([0, -3])].shape == (2, 4)
        assert isinstance(OutOfBoundsError("index"), IndexError)
    call()


# What is out of bounds, and was asked for.
ASKED_FOR: dict[str, Callable[[Any], Any]] = {
    "get fill": lambda i: TABLE.at[i].get(mode="fill"),
    "get fill value": lambda i: TABLE.at[i].get(fill_value=0.0),
    "get clip": lambda i: TABLE.at[i].get(mode="clip"),
    "get clip of one": lambda i: TABLE.at[i[0]].get(mode="clip"),
    "get clip, static": lambda i: TABLE.at[7].get(mode="clip"),
    "get wrap": lambda i: TABLE.at[i].get(mode="wrap"),
    "take fill": lambda i: jnp.take(TABLE, i, axis=0, mode="fill"),
    "take fill value": lambda i: jnp.take(TABLE, i, axis=0, fill_value=1.0),
    "take clip": lambda i: jnp.take(TABLE, i, axis=0, mode="clip"),
    "take along": lambda i: jnp.take_along_axis(TABLE, i[:, None], 0, mode="clip"),
    "set drop": lambda i: TABLE.at[i].set(1.0, mode="drop"),
    "set clip": lambda i: TABLE.at[i].set(1.0, mode="clip"),
    "set drop, static": lambda i: TABLE.at[7].set(1.0, mode="drop"),
    "add drop": lambda i: TABLE.at[i].add(1.0, mode="drop"),
    "apply drop": lambda i: TABLE.at[i].apply(jnp.sin, mode="drop"),
    "mapped": lambda i: vmap(lambda k: TABLE.at[k].get(mode="clip"))(i),
    "nonzero": lambda i: jnp.nonzero(i, size=9, fill_value=99),
    "bincount": lambda i: jnp.bincount(i, length=3),
    "segment_sum": lambda i: pyjax.ops.segment_sum(jnp.ones(2), i, num_segments=3),
    "one_hot": lambda i: pyjax.nn.one_hot(i, 3),
}


@pytest.mark.parametrize("name", ASKED_FOR)
def test_indices_out_of_bounds_that_were_asked_for(name: str) -> None:
    call, far = ASKED_FOR[name], jnp.asarray([7, 1])
    expected = pyjax.tree.leaves(call(far))
    with options.error_checking_behavior_oob("raise"):
        for run in (call, jit(call)):
            for x, y in zip(pyjax.tree.leaves(run(far)), expected, strict=True):
                np.testing.assert_array_equal(x, y)


def test_a_broken_promise_is_an_error() -> None:
    far = jnp.asarray([7, 1])
    with options.error_checking_behavior_oob("raise"):
        for call in (
            lambda: TABLE.at[far].get(mode="promise_in_bounds"),
            lambda: TABLE.at[far].set(1.0, mode="promise_in_bounds"),
            lambda: TABLE.at[far].get(),
            lambda: TABLE.at[7].add(1.0),
            lambda: jnp.take_along_axis(TABLE, far[:, None], 0),
        ):
            assert "axis 0 with size 3" in error_of(call, OutOfBoundsError)


def test_faults_on_several_threads() -> None:
    """Each thread finds its own fault, in one program that they share."""
    f = jit(lambda x: lax.scan(lambda c, a: (c, jnp.log(a)), 0, x)[1])

    def look(number: int) -> str:
        with pyjax.debug_nans(True):
            for _ in range(4):
                text = error_of(lambda: f(jnp.ones(8).at[number].set(-1.0 - number)))
                assert f"log(-{1.0 + number})" in text and f"in iteration {number} of scan" in text
            assert f(jnp.ones(8)).tolist() == [0.0] * 8
        return text

    start = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: (start.wait(), look(k))[1], range(8)))
    assert len(set(found)) == 8
    assert np.isnan(f(-jnp.ones(8))).all()  # here nothing is looked for


def test_callbacks_on_several_threads() -> None:
    def look(number: int) -> int:
        calls: list[float] = []
        f = jit(lambda x: jnp.log(-_calls_back("io", calls)(x) - number))
        with pyjax.debug_nans(True):
            assert f"log(-{1.0 + number})" in error_of(lambda: f(1.0))
        return len(calls)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(8))) == [1] * 8


def test_faults_in_tasks() -> None:
    """Tasks of one thread, the outer one waiting for the inner, each with options of its own."""
    f = jit(lambda x: jnp.log(x) + 0)

    async def inner(x: float) -> str:
        with pyjax.debug_nans(True):
            await asyncio.sleep(0)
            return error_of(lambda: f(x))

    async def outer(x: float) -> list[str]:
        with options.error_checking_behavior_nan("raise"):
            texts = [await asyncio.create_task(inner(x - k)) for k in range(3)]
            return [*texts, error_of(lambda: f(x))]

    async def both() -> list[list[str]]:
        return await asyncio.gather(outer(-1.0), outer(-9.0))

    for x, texts in zip((1.0, 9.0), asyncio.run(both())):
        assert [f"log(-{x + k})" in texts[k] for k in range(3)] == [True] * 3
        assert f"log(-{x})" in texts[3]


def test_prints_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        pyjax.debug.print("x = {}", x)
        return lax.scan(
            lambda c, a: (pyjax.debug.print("a"), (c, jnp.log(a)))[1], x, x * jnp.ones(2)
        )

    with pyjax.debug_nans(True):
        error_of(lambda: jit(f)(-1.0))
    assert capsys.readouterr().out.split("\n") == ["x = -1.0", "a", "a", ""]


def test_a_donated_argument_goes_if_all_is_well() -> None:
    f = jit(lambda x: x + 1, donate_argnums=0)
    with pyjax.debug_nans(True):
        x = jnp.ones(3)
        assert f(x).tolist() == [2, 2, 2] and x.is_deleted()
        y = jnp.asarray([1.0, jnp.inf])
        error_of(lambda: jit(lambda x: x - x, donate_argnums=0)(y))
        assert not y.is_deleted()


def _calls_back(kind: str, calls: list[float]) -> Callable[..., Any]:
    """A function that Python takes part in; it writes down its operands, and counts."""

    def host(x):
        calls.append(float(x))
        return np.float32(x if kind == "pure" else len(calls))

    shape = pyjax.ShapeDtypeStruct((), np.float32)
    if kind == "pure":
        return lambda x: pyjax.pure_callback(host, shape, x)
    return lambda x: pyjax.experimental.io_callback(host, shape, x, ordered=kind == "ordered")


# Programs that make a NaN after, before and within what Python takes part in; and what the
# function is called with.
WITH_CALLS: dict[str, tuple[Callable[..., Callable[..., Any]], int, str]] = {
    "after": (lambda f: lambda x: jnp.log(-f(x) - 1), 1, "in log"),
    "before": (lambda f: lambda x: f(x) + jnp.log(x - 9), 1, "in log"),
    "jit": (lambda f: jit(lambda x: jit(lambda y: jnp.log(-f(y)))(x) + 1), 1, "in log"),
    "scan": (
        lambda f: lambda x: lax.scan(lambda c, a: (jnp.sqrt(2.5 - f(c + a)), a), x, jnp.ones(5)),
        5,
        "in sqrt.*(?s:.*)in iteration 2 of scan",
    ),
    "while": (
        lambda f: (
            lambda x: lax.while_loop(
                lambda c: c[0] < 4, lambda c: (c[0] + 1, jnp.sqrt(2.5 - f(c[1]))), (0, x)
            )
        ),
        4,
        "in sqrt.*(?s:.*)in iteration 2 of while_loop",
    ),
    "cond": (
        lambda f: lambda x: lax.cond(x > 0, lambda y: jnp.log(-f(y)), jnp.sin, x),
        1,
        "in log(?s:.*)in branch 1 of cond",
    ),
}


@pytest.mark.parametrize("kind", ["io", "ordered"])
@pytest.mark.parametrize("name", WITH_CALLS)
@pytest.mark.parametrize("option", ["debug_nans", "error_checking_behavior_nan"])
def test_callbacks_with_side_effects_are_called_once(option: str, name: str, kind: str) -> None:
    """The search for a fault takes what they returned, call by call."""
    make, times, pattern = WITH_CALLS[name]
    calls: list[float] = []
    f = jit(make(_calls_back(kind, calls)))
    value: Any = True if option == "debug_nans" else "raise"
    with getattr(options, option)(value):
        text = error_of(lambda: f(1.0))
    assert re.search(pattern, text), text
    assert len(calls) == times


def test_pure_callbacks_are_not_called_again() -> None:
    calls: list[float] = []
    pure = _calls_back("pure", calls)
    with pyjax.debug_nans(True):
        text = error_of(lambda: jit(lambda x: jnp.log(-pure(x)))(1.0))
        assert "in log" in text and calls == [1.0]
        calls.clear()
        loop = jit(lambda x: lax.scan(lambda c, a: (c + a, jnp.log(1.5 - pure(c))), x, jnp.ones(3)))
        assert "in iteration 2 of scan" in error_of(lambda: loop(0.0))
        assert calls == [0.0, 1.0, 2.0]


def test_a_search_never_calls_what_it_cannot_repeat() -> None:
    """Nobody has written down what callbacks of a program that was compiled before returned."""
    calls: list[float] = []
    f = _calls_back("io", calls)
    compiled = jit(lambda x: jnp.log(-f(x))).lower(1.0).compile()
    with pyjax.debug_nans(True):
        assert "nan" in error_of(lambda: compiled(1.0))
    assert calls == [1.0]


def test_callbacks_that_run_programs() -> None:
    def host(x):
        return np.asarray(jit(lambda y: inner(y) + 1)(x))

    calls: list[float] = []
    inner = _calls_back("io", calls)
    shape = pyjax.ShapeDtypeStruct((), np.float32)
    f = jit(lambda x: jnp.log(-pyjax.experimental.io_callback(host, shape, x)))
    with pyjax.debug_nans(True):
        assert "log(-2.0)" in error_of(lambda: f(jnp.float32(3)))
    assert calls == [3.0]
