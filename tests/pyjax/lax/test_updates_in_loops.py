"""Loops that update a few elements of an array, vectorized: values lane by lane, and no step that
walks through the whole array."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

N, LANES, STEPS = 40, 3, 9


def while_loop(x: Any, k: Any) -> Any:
    step = lambda c: (c[0] + 1, c[1].at[c[0]].set(c[1][c[0]] * 2 + 1))
    return lax.while_loop(lambda c: c[0] < k, step, (0, x))


def fori_loop(x: Any, k: Any) -> Any:
    return lax.fori_loop(0, k, lambda i, x: x.at[i].add(x[i + 1]), x)


def several_updates(x: Any, k: Any) -> Any:
    step = lambda i, x: x.at[i].set(3.0).at[i + 1].add(x[i]).at[i + 2].multiply(2.0)
    return lax.fori_loop(0, k, step, x)


def swapped_elements(x: Any, k: Any) -> Any:
    return lax.fori_loop(0, k, lambda i, x: x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), x)


def two_arrays(x: Any, k: Any) -> Any:
    def step(c: Any) -> Any:
        i, x, y = c
        return i + 1, x.at[i].set(y[i]), y.at[i + 1].set(x[i] + 1)

    return lax.while_loop(lambda c: c[0] < k, step, (0, x, 2 * x))


def sum_of_what_was_written(x: Any, k: Any) -> Any:
    def step(c: Any) -> Any:
        i, x, total = c
        x = x.at[i].set(jnp.sin(x[i]) * i)
        return i + 1, x, total + x[i] + x[i + 1]

    return lax.while_loop(lambda c: c[0] < k, step, (0, x, jnp.float32(0)))


def slices(x: Any, k: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        return lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i,), (3,)) + 1, (i + 1,))

    return lax.fori_loop(0, k, step, x)


def rows(x: Any, k: Any) -> Any:
    y = x.reshape(10, 4)
    return lax.fori_loop(0, jnp.minimum(k, 9), lambda i, y: y.at[i].set(y[i + 1] + 1), y)


def cond_of_two_updates(x: Any, k: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        one, other = lambda x: x.at[i].set(3.0), lambda x: x.at[i + 1].add(1.0)
        return lax.cond(x[i] > 0, one, other, x)

    return lax.fori_loop(0, k, step, x)


def cond_that_may_do_nothing(x: Any, k: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        return lax.cond(x[i + k] > 0, lambda x: x.at[i].set(-3.0), lambda x: x, x)

    return lax.fori_loop(0, STEPS, step, x)


def where(x: Any, k: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, x: jnp.where(i < k, x.at[i].set(3.0), x), x)


def scan_with_a_loop_inside(x: Any, k: Any) -> Any:
    def step(x: Any, i: Any) -> Any:
        inner = lambda s: (s[0] + 1, s[1].at[i + s[0]].add(1.0))
        return lax.while_loop(lambda s: s[0] < k % 3, inner, (0, x))[1], x[i]

    return lax.scan(step, x, jnp.arange(STEPS))


def out_of_bounds(x: Any, k: Any) -> Any:
    return lax.fori_loop(0, k, lambda i, x: x.at[i * 9 - 10].add(x[i]), x)


def truths(x: Any, k: Any) -> Any:
    return lax.fori_loop(0, k, lambda i, t: t.at[2 * i].set(~t[i]), x > 0)


def loop_in_a_loop(x: Any, k: Any) -> Any:
    def outer(c: Any) -> Any:
        i, x = c
        step = lambda j, x: x.at[i + j].add(x[i] + 1)
        return i + 1, lax.fori_loop(0, jnp.minimum(i, 3), step, x)

    return lax.while_loop(lambda c: c[0] < k, outer, (0, x))[1]


def loops_before_and_after_updates(x: Any, k: Any) -> Any:
    def outer(c: Any) -> Any:
        i, x, total = c
        x = x.at[i].multiply(2.0)
        s, x = lax.while_loop(
            lambda s: (s[0] < 20) & (s[1][s[0]] < 0.5),
            lambda s: (s[0] + 1, s[1].at[s[0]].add(-1.0)),
            (i, x),
        )
        return i + 1, x.at[s].set(x[i]), total + x[s]

    return lax.while_loop(lambda c: c[0] < k, outer, (0, x, jnp.float32(0)))


def counted_loop_in_a_loop(x: Any, k: Any) -> Any:
    def outer(c: Any) -> Any:
        i, x = c
        return i + 1, lax.fori_loop(0, 3, lambda j, x: x.at[i + j].add(x[j]), x)

    return lax.while_loop(lambda c: c[0] < k, outer, (0, x))[1]


def loop_in_a_branch(x: Any, k: Any) -> Any:
    def step(i: Any, x: Any) -> Any:
        many = lambda x: lax.fori_loop(0, k % 3, lambda j, x: x.at[i + j].add(1.0), x)
        return lax.cond(x[i] > 0, many, lambda x: x.at[i].set(0.5), x)

    return lax.fori_loop(0, STEPS, step, x)


PROGRAMS = {
    f.__name__: f
    for f in (
        while_loop,
        fori_loop,
        several_updates,
        swapped_elements,
        two_arrays,
        sum_of_what_was_written,
        slices,
        rows,
        cond_of_two_updates,
        cond_that_may_do_nothing,
        where,
        scan_with_a_loop_inside,
        out_of_bounds,
        truths,
        loop_in_a_loop,
        loops_before_and_after_updates,
        counted_loop_in_a_loop,
        loop_in_a_branch,
    )
}


def arguments() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(LANES, N)).astype(np.float32), np.array([7, 2, 5], np.int32)


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_lanes_are_what_they_are_alone(f: Callable[..., Any]) -> None:
    x, k = arguments()
    got = pyjax.tree.leaves(pyjax.jit(pyjax.vmap(f))(x, k))
    alone = [pyjax.tree.leaves(f(x[i], k[i])) for i in range(LANES)]
    for leaf, lanes in zip(got, zip(*alone)):
        np.testing.assert_array_equal(leaf, np.stack(lanes))


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_two_levels_of_lanes(f: Callable[..., Any]) -> None:
    x, k = arguments()
    x, k = np.stack([x, x + 1]), np.stack([k, k[::-1]])
    got = pyjax.tree.leaves(pyjax.jit(pyjax.vmap(pyjax.vmap(f)))(x, k))
    for i in range(2):
        expected = pyjax.tree.leaves(pyjax.vmap(f)(x[i], k[i]))
        for leaf, e in zip(got, expected):
            np.testing.assert_array_equal(leaf[i], e)


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_no_step_walks_through_the_array(f: Callable[..., Any]) -> None:
    text = pyjax.jit(pyjax.vmap(f)).lower(*arguments()).compile().as_text()
    assert whole_array_steps(text, LANES * N) == []


def whole_array_steps(text: str, elements: int) -> list[str]:
    """Instructions in bodies of loops that write arrays of so many elements and are no updates in
    place."""
    computations: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY")) and line.endswith("{"):
            name = line.removeprefix("ENTRY ").split(" ")[0]
            computations[name] = []
        elif line.startswith("  "):
            computations[name].append(line.strip())
    bodies = set(re.findall(r"body=(%[\w.-]+)", text))
    assert bodies
    found = []
    for body in bodies:
        for line in computations[body]:
            shape, opcode = re.match(r"(?:ROOT )?%\S+ = (\(.*?\)|\S+) ([\w-]+)\(", line).groups()
            if opcode in ("parameter", "tuple", "get-tuple-element", "while", "reshape"):
                continue
            large = [
                s
                for s in re.findall(r"\[([\d,]*)\]", shape)
                if s and np.prod([int(d) for d in s.split(",")]) == elements
            ]
            updates = ("dynamic-update-slice", "scatter")
            in_place = opcode in updates
            if opcode == "fusion":
                called = computations[re.search(r"calls=(%[\w.-]+)", line).group(1)]
                in_place = any(f" {update}(" in called[-1] for update in updates)
            if large and not in_place:
                found.append(line)
    return found


def test_the_gradient_of_a_single_update_keeps_no_array_per_step() -> None:
    """With one index, no update can hit another: nothing about that is kept for the way back."""

    def f(x: Any, j: Any) -> Any:
        return lax.fori_loop(0, STEPS, lambda i, x: x.at[i + j].set(jnp.sin(x[i])), x).sum()

    x, k = arguments()
    text = pyjax.jit(pyjax.grad(f)).lower(x[0], k[0]).compile().as_text()
    assert f"[{STEPS},{N}]" not in text
    got = pyjax.jit(pyjax.vmap(pyjax.grad(f)))(x, k)
    np.testing.assert_allclose(got, np.stack([pyjax.grad(f)(x[i], k[i]) for i in range(LANES)]))
    numeric = np.zeros(N)
    with pyjax.enable_x64(True):
        for n in range(N):
            step = np.zeros(N)
            step[n] = 1e-6
            numeric[n] = (f(x[0] + step, k[0]) - f(x[0] - step, k[0])) / 2e-6
    np.testing.assert_allclose(got[0], numeric, atol=1e-5)


def test_an_array_is_kept_by_a_flag_of_the_loop_that_updates_it():
    def proposal(x, steps):
        def step(carry, k):
            y, ok = carry
            return (y.at[k].set(steps[k]), ok & (steps[k] > 0)), None

        (y, ok), _ = lax.scan(step, (x, True), jnp.arange(4))
        return jnp.where(ok, y, x)

    x = jnp.arange(24.0).reshape(2, 12)
    steps = jnp.array([[1.0, 2.0, 3.0, 4.0], [1.0, -2.0, 3.0, 4.0]])
    expected = np.array(x)
    expected[0, :4] = steps[0]
    np.testing.assert_array_equal(pyjax.jit(pyjax.vmap(proposal))(x, steps), expected)
