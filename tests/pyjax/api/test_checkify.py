"""checkify: what becomes an error, in which way of making programs, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import jit, lax, vmap
from pyjax.experimental import checkify
from pyjax.experimental.checkify import Error, all_checks

TABLE = jnp.arange(12.0).reshape(3, 4)
F32 = jnp.float32


def positive(x):
    checkify.check(x > 0, "must be positive: {x}", x=x)  # of the user
    return x * 2


def twice_checked(x):
    checkify.check(x > 0, "first")
    checkify.check(x > 1, "second {}", x)
    return x


def rechecked(x):
    error, y = jit(checkify.checkify(positive))(x)
    checkify.check_error(error)
    return y


@pyjax.custom_jvp
def log_with_jvp(x):
    return jnp.log(x)


log_with_jvp.defjvp(lambda p, t: (jnp.log(p[0]), t[0] / p[0]))


@pyjax.custom_vjp
def log_with_vjp(x):
    return jnp.log(x)


log_with_vjp.defvjp(lambda x: (jnp.log(x), x), lambda x, g: (g / x,))


def with_error(f: Callable[..., Any], x: Any) -> Any:
    """The error of a checked function that is differentiated."""

    def loss(x):
        error, y = checkify.checkify(f, errors=all_checks)(x)
        return y, error

    return pyjax.value_and_grad(loss, has_aux=True)(x)[0][1]


def checked(f: Callable[..., Any], *args: Any) -> Any:
    return checkify.checkify(f, errors=all_checks)(*args)


# A call, and what JAX makes of it: the class of the error that comes out, "raises" and that of the
# exception, or nothing.
CASES: dict[str, tuple[Callable[[], Any], str | None]] = {
    "ok": (lambda: checkify.checkify(positive)(F32(1)), None),
    "fail": (lambda: checkify.checkify(positive)(F32(-1)), "FailedCheckError"),
    "two a": (lambda: checkify.checkify(twice_checked)(F32(-1)), "FailedCheckError"),
    "two b": (lambda: checkify.checkify(twice_checked)(F32(0.5)), "FailedCheckError"),
    "jit in": (lambda: checkify.checkify(jit(twice_checked))(F32(0.5)), "FailedCheckError"),
    "jit out": (lambda: jit(checkify.checkify(twice_checked))(F32(0.5)), "FailedCheckError"),
    "not enabled": (lambda: checkify.checkify(positive, errors=checkify.nan_checks)(F32(-1)), None),
    "python bool": (
        lambda: checkify.checkify(lambda: checkify.check(False, "x"))(),
        "FailedCheckError",
    ),
    "npbool": (
        lambda: checkify.checkify(lambda: checkify.check(np.bool_(False), "x"))(),
        "raises TypeError",
    ),
    "vector pred": (
        lambda: checkify.checkify(lambda: checkify.check(jnp.ones(3) > 0, "x"))(),
        "raises TypeError",
    ),
    "float pred": (
        lambda: checkify.checkify(lambda: checkify.check(F32(1), "x"))(),
        "raises TypeError",
    ),
    "int pred": (lambda: checkify.checkify(lambda: checkify.check(1, "x"))(), "raises TypeError"),
    "fmt str": (
        lambda: checkify.checkify(lambda: checkify.check(True, "x {}", "a"))(),
        "raises TypeError",
    ),
    "fmt float": (
        lambda: checkify.checkify(lambda: checkify.check(True, "x {}", 1.0))(),
        "raises TypeError",
    ),
    "fmt missing": (
        lambda: checkify.checkify(lambda: checkify.check(False, "x {a}"))(),
        "raises KeyError",
    ),
    "check_error arg": (lambda: checkify.check_error(3), "raises TypeError"),
    "debug eager": (lambda: checkify.debug_check(jnp.asarray(False), "x"), None),
    "debug jit": (lambda: jit(lambda x: (checkify.debug_check(x > 0, "x"), x)[1])(-1.0), None),
    "debug checked": (
        lambda: checkify.checkify(lambda x: (checkify.debug_check(x > 0, "x"), x)[1])(F32(-1.0)),
        "FailedCheckError",
    ),
    "scan": (
        lambda: checkify.checkify(lambda xs: lax.scan(lambda c, x: (c, positive(x)), 0, xs))(
            jnp.arange(2.0, -2, -1)
        ),
        "FailedCheckError",
    ),
    "scan nan": (
        lambda: checked(
            lambda xs: lax.scan(lambda c, x: (c, jnp.log(x)), 0, xs), jnp.arange(2.0, -2, -1)
        ),
        "NaNError",
    ),
    "while body": (
        lambda: checkify.checkify(
            lambda x: lax.while_loop(lambda c: c > -5, lambda c: positive(c) - 3, x)
        )(F32(2.0)),
        "FailedCheckError",
    ),
    "while cond": (
        lambda: checkify.checkify(
            lambda x: lax.while_loop(lambda c: positive(c) > -5, lambda c: c - 3, x)
        )(F32(2.0)),
        "FailedCheckError",
    ),
    "while cond first": (
        lambda: checkify.checkify(
            lambda x: lax.while_loop(lambda c: positive(c) > -5, lambda c: c - 3, x)
        )(F32(-2.0)),
        "FailedCheckError",
    ),
    "while cond last": (
        lambda: checkify.checkify(
            lambda x: lax.while_loop(lambda c: positive(c) > 2, lambda c: c - 1, x)
        )(F32(3.0)),
        None,
    ),
    "fori": (
        lambda: checkify.checkify(lambda x: lax.fori_loop(0, 5, lambda i, c: positive(c) - 3, x))(
            F32(2.0)
        ),
        "FailedCheckError",
    ),
    "cond taken": (
        lambda: checkify.checkify(lambda x: lax.cond(x < 0, positive, lambda x: x, x))(F32(-2.0)),
        "FailedCheckError",
    ),
    "cond not taken": (
        lambda: checkify.checkify(lambda x: lax.cond(x > 0, positive, lambda x: x, x))(F32(-2.0)),
        None,
    ),
    "switch": (
        lambda: checked(
            lambda i, x: lax.switch(i, [positive, jnp.log, lambda x: x], x), jnp.int32(1), F32(-2.0)
        ),
        "NaNError",
    ),
    "map": (
        lambda: checkify.checkify(lambda x: lax.map(positive, x))(jnp.arange(3.0)),
        "FailedCheckError",
    ),
    "vmap in": (lambda: checkify.checkify(vmap(positive))(jnp.arange(3.0)), "FailedCheckError"),
    "vmap out": (lambda: vmap(checkify.checkify(positive))(jnp.arange(3.0)), "BatchedError"),
    "vmap out ok": (lambda: vmap(checkify.checkify(positive))(jnp.arange(1.0, 3.0)), None),
    "vmap out 2": (
        lambda: vmap(vmap(checkify.checkify(positive)))(jnp.arange(-1.0, 3.0).reshape(2, 2)),
        "BatchedError",
    ),
    "vmap of scan": (
        lambda: vmap(checkify.checkify(lambda x: lax.scan(lambda c, x: (c, positive(x)), 0, x)))(
            jnp.arange(-1.0, 3.0).reshape(2, 2)
        ),
        "BatchedError",
    ),
    "scan of vmap": (
        lambda: checkify.checkify(lambda x: lax.scan(lambda c, x: (c, vmap(positive)(x)), 0, x))(
            jnp.arange(-1.0, 3.0).reshape(2, 2)
        ),
        "FailedCheckError",
    ),
    "checkify vmap while": (
        lambda: checkify.checkify(
            vmap(lambda x: lax.while_loop(lambda c: c > -5, lambda c: positive(c) - 3, x))
        )(F32([2.0, -9])),
        "raises ValueError",
    ),
    "checkify vmap while nan": (
        lambda: checked(
            vmap(lambda x: lax.while_loop(lambda c: c > -5, lambda c: jnp.log(c) - 3, x)),
            F32([2.0, -9]),
        ),
        "raises ValueError",
    ),
    "checkify vmap fori": (
        lambda: checkify.checkify(
            vmap(lambda x: lax.fori_loop(0, 3, lambda i, c: positive(c) - 3, x))
        )(F32([2.0, 9])),
        "FailedCheckError",
    ),
    "vmap cond": (
        lambda: vmap(checkify.checkify(lambda x: lax.cond(x < 0, positive, lambda x: x, x)))(
            F32([-1, 1])
        ),
        "BatchedError",
    ),
    "checkify vmap cond": (
        lambda: checkify.checkify(vmap(lambda x: lax.cond(x < 0, positive, lambda x: x, x)))(
            F32([-1, 1])
        ),
        "FailedCheckError",
    ),
    "checkify vmap cond dead": (
        lambda: checkify.checkify(vmap(lambda x: lax.cond(x > 0, positive, lambda x: x, x)))(
            F32([-1, 1])
        ),
        "FailedCheckError",
    ),
    "grad checked": (lambda: pyjax.grad(lambda x: checkify.checkify(positive)(x)[1])(-1.0), None),
    "value_and_grad aux": (lambda: with_error(positive, -1.0), "FailedCheckError"),
    "checked grad": (lambda: checkify.checkify(pyjax.grad(positive))(-1.0), "FailedCheckError"),
    "jit checked grad": (
        lambda: jit(checkify.checkify(pyjax.grad(positive)))(-1.0),
        "FailedCheckError",
    ),
    "grad sqrt at 0": (
        lambda: checked(pyjax.grad(lambda x: jnp.sqrt(x)), 0.0),
        "DivisionByZeroError",
    ),
    "checked jvp": (
        lambda: checkify.checkify(lambda x: pyjax.jvp(positive, (x,), (1.0,)))(-1.0),
        "FailedCheckError",
    ),
    "cjvp": (lambda: checked(log_with_jvp, -1.0), "NaNError"),
    "grad cjvp checked": (lambda: with_error(log_with_jvp, -1.0), None),
    "checked grad cjvp": (lambda: checked(pyjax.grad(log_with_jvp), -1.0), "NaNError"),
    "cvjp": (lambda: checked(log_with_vjp, -1.0), "NaNError"),
    "grad cvjp checked": (lambda: with_error(log_with_vjp, -1.0), None),
    "grad cvjp value": (
        lambda: pyjax.grad(lambda x: checkify.checkify(log_with_vjp, errors=all_checks)(x)[1])(
            -4.0
        ),
        None,
    ),
    "checked grad cvjp": (lambda: checked(pyjax.grad(log_with_vjp), -1.0), "NaNError"),
    "remat": (lambda: checkify.checkify(pyjax.checkpoint(positive))(-1.0), "FailedCheckError"),
    "grad remat checked": (
        lambda: pyjax.grad(
            lambda x: checkify.checkify(
                pyjax.checkpoint(lambda x: jnp.sin(jnp.log(x))), errors=all_checks
            )(x)[1]
        )(-1.0),
        None,
    ),
    "checked grad remat": (
        lambda: checked(pyjax.grad(pyjax.checkpoint(lambda x: jnp.sin(jnp.log(x)))), -1.0),
        "NaNError",
    ),
    "nested": (lambda: rechecked(F32(-1)), "raises JaxRuntimeError"),
    "nested checked": (lambda: checkify.checkify(rechecked)(F32(-1)), "FailedCheckError"),
    "nested vmapped": (
        lambda: checkify.checkify(
            lambda x: checkify.check_error(vmap(checkify.checkify(positive))(x)[0])
        )(jnp.arange(3.0)),
        "FailedCheckError",
    ),
    "vmap check_error": (
        lambda: checkify.check_error(vmap(checkify.checkify(positive))(jnp.arange(3.0))[0]),
        "raises JaxRuntimeError",
    ),
    "throw": (lambda: checkify.checkify(positive)(F32(-1))[0].throw(), "raises JaxRuntimeError"),
    "throw ok": (lambda: checkify.checkify(positive)(F32(1))[0].throw(), None),
    "jit throw": (
        lambda: jit(lambda x: checkify.checkify(positive)(x)[0].throw())(F32(1)),
        "raises ValueError",
    ),
    "jit plain": (lambda: jit(positive)(1.0), "raises ValueError"),
    "scan plain": (
        lambda: lax.scan(lambda c, x: (c, positive(x)), 0, jnp.ones(3)),
        "raises ValueError",
    ),
    "cond plain": (lambda: lax.cond(True, positive, lambda x: x, 1.0), "raises ValueError"),
    "while plain": (lambda: lax.while_loop(lambda c: c < 5, positive, 1.0), "raises ValueError"),
    "vmap plain": (lambda: vmap(positive)(jnp.arange(3.0)), "raises JaxRuntimeError"),
    "vmap plain ok": (lambda: vmap(positive)(jnp.arange(1.0, 3.0)), None),
    "grad plain": (lambda: pyjax.grad(positive)(-1.0), "raises JaxRuntimeError"),
    "make_jaxpr": (lambda: pyjax.make_jaxpr(positive)(1.0) and None, None),
    "eval_shape": (lambda: pyjax.eval_shape(positive, 1.0) and None, "raises TypeError"),
    "lower": (lambda: jit(positive).lower(1.0) and None, "raises ValueError"),
    "dead check": (
        lambda: checkify.checkify(lambda x: (positive(x), x)[1])(F32(-1)),
        "FailedCheckError",
    ),
    "error through jit": (
        lambda: jit(lambda e: e)(checkify.checkify(positive)(F32(-1))[0]),
        "FailedCheckError",
    ),
    "tree_map": (
        lambda: pyjax.tree_util.tree_map(lambda x: x, checkify.checkify(positive)(F32(-1))[0]),
        "FailedCheckError",
    ),
    "init": (lambda: checkify.init_error, None),
    "div": (
        lambda: checkify.checkify(lambda x, y: x / y, errors=checkify.div_checks)(F32(1), F32(0)),
        "DivisionByZeroError",
    ),
    "div all": (lambda: checked(lambda x, y: x / y, F32(0), F32(0)), "DivisionByZeroError"),
    "div nan": (
        lambda: checkify.checkify(lambda x, y: x / y, errors=checkify.nan_checks)(F32(0), F32(0)),
        "NaNError",
    ),
    "div inf": (
        lambda: checkify.checkify(lambda x, y: x / y, errors=checkify.nan_checks)(F32(1), F32(0)),
        None,
    ),
    "idiv": (
        lambda: checked(lambda x, y: x // y, jnp.int32(1), jnp.int32(0)),
        "DivisionByZeroError",
    ),
    "irem": (lambda: checked(lambda x, y: x % y, jnp.int32(1), jnp.int32(0)), None),
    "frem": (lambda: checked(lambda x, y: x % y, F32(1), F32(0)), "NaNError"),
    "frem div": (
        lambda: checkify.checkify(lambda x, y: x % y, errors=checkify.div_checks)(F32(1), F32(0)),
        None,
    ),
    "nan arg reshape": (lambda: checked(lambda x: x.reshape(1), jnp.nan), "raises AttributeError"),
    "nan arg add": (lambda: checked(lambda x: x + 1, jnp.nan), None),
    "nan arg where": (lambda: checked(lambda x: jnp.where(jnp.isnan(x), 0.0, x), jnp.nan), None),
    "nan arg neg": (lambda: checked(lambda x: -x, jnp.nan), None),
    "nan arg max": (lambda: checked(lambda x: jnp.maximum(x, 0), jnp.nan), None),
    "nan arg square": (lambda: checked(lambda x: x**2, jnp.nan), None),
    "nan arg cube": (lambda: checked(lambda x: x**3, jnp.nan), None),
    "nan arg sort": (lambda: checked(lambda x: jnp.sort(x), jnp.full(3, jnp.nan)), None),
    "nan arg sum": (lambda: checked(lambda x: jnp.sum(x), jnp.full(3, jnp.nan)), "NaNError"),
    "nan arg exp2": (lambda: checked(lambda x: jnp.exp2(x), jnp.nan), None),
    "nan mean": (lambda: checked(lambda x: jnp.mean(x), jnp.full(3, jnp.nan)), "NaNError"),
    "nan where log": (
        lambda: checked(lambda x: jnp.where(x > 0, jnp.log(x), 0.0), -1.0),
        "NaNError",
    ),
    "inf-inf": (lambda: checked(lambda x: x - x, jnp.inf), None),
    "int ok": (lambda: checked(lambda x: x + 1, jnp.int32(1)), None),
    "complex nan": (
        lambda: checked(lambda x: x * x, jnp.complex64(complex(float("nan"), 0))),
        "NaNError",
    ),
    "std empty": (lambda: checked(lambda x: jnp.mean(x), jnp.zeros(0)), "DivisionByZeroError"),
    "gather": (lambda: checked(lambda i: TABLE[i], jnp.array([0, 3])), "OOBError"),
    "gather neg": (lambda: checked(lambda i: TABLE[i], jnp.array([0, -3])), None),
    "gather neg oob": (lambda: checked(lambda i: TABLE[i], jnp.array([0, -4])), "OOBError"),
    "gather 2": (lambda: checked(lambda i: TABLE[i, i], jnp.array([0, 3])), "OOBError"),
    "gather mode": (
        lambda: checked(lambda i: TABLE.at[i].get(mode="fill"), jnp.array([0, 3])),
        "OOBError",
    ),
    "gather clip": (
        lambda: checked(lambda i: TABLE.at[i].get(mode="clip"), jnp.array([0, 3])),
        "OOBError",
    ),
    "take": (lambda: checked(lambda i: jnp.take(TABLE, i, axis=0), jnp.array([0, 3])), "OOBError"),
    "take clip": (
        lambda: checked(lambda i: jnp.take(TABLE, i, axis=0, mode="clip"), jnp.array([0, 3])),
        "OOBError",
    ),
    "scalar index": (lambda: checked(lambda i: TABLE[i], jnp.int32(5)), "OOBError"),
    "static index": (lambda: checked(lambda x: x[3], TABLE), "OOBError"),
    "static negative": (lambda: checked(lambda x: x[::-1, -5], TABLE), "OOBError"),
    "static beyond int32": (lambda: checked(lambda x: x[1, 2**40, None], TABLE), "OOBError"),
    "static in bounds": (lambda: checked(lambda x: x[-3, 3], TABLE), None),
    "scalar index ok": (lambda: checked(lambda i: TABLE[i], jnp.int32(-3)), None),
    "jit index": (
        lambda: jit(checkify.checkify(lambda i: TABLE[i], errors=all_checks))(5),
        "OOBError",
    ),
    "at set": (lambda: checked(lambda i: TABLE.at[i].set(1.0), jnp.array([0, 3])), "OOBError"),
    "at set drop": (
        lambda: checked(lambda i: TABLE.at[i].set(1.0, mode="drop"), jnp.array([0, 3])),
        "OOBError",
    ),
    "at add": (lambda: checked(lambda i: TABLE.at[i].add(1.0), jnp.array([0, 3])), "OOBError"),
    "at mul": (lambda: checked(lambda i: TABLE.at[i].multiply(1.0), jnp.array([0, 3])), "OOBError"),
    "at min": (lambda: checked(lambda i: TABLE.at[i].min(1.0), jnp.array([0, 3])), "OOBError"),
    "at scalar": (lambda: checked(lambda i: TABLE.at[i].set(1.0), jnp.int32(3)), "OOBError"),
    "ds": (
        lambda: checked(lambda i: lax.dynamic_slice(TABLE, (i, 0), (2, 2)), jnp.int32(2)),
        "OOBError",
    ),
    "dus": (
        lambda: checked(
            lambda i: lax.dynamic_update_slice(TABLE, jnp.ones((2, 2)), (i, 0)), jnp.int32(2)
        ),
        "OOBError",
    ),
    "vmap index": (
        lambda: vmap(checkify.checkify(lambda i: TABLE[i], errors=all_checks))(jnp.array([0, 3])),
        "BatchedError",
    ),
    "checkify vmap index": (
        lambda: checked(vmap(lambda r, i: r[i]), TABLE, jnp.array([0, 3, 4])),
        "OOBError",
    ),
    "empty index": (lambda: checked(lambda i: TABLE[i], jnp.zeros(0, int)), None),
    "bool mask": (
        lambda: checked(lambda m: jnp.where(m[:, None], TABLE, 0), jnp.zeros(3, bool)),
        None,
    ),
    "bincount": (
        lambda: checked(lambda x: jnp.bincount(x, length=2), jnp.array([0, 3])),
        "OOBError",
    ),
    "segment_sum": (
        lambda: checked(
            lambda i: pyjax.ops.segment_sum(jnp.ones(2), i, num_segments=2), jnp.array([0, 3])
        ),
        "OOBError",
    ),
    "argmax": (lambda: checked(lambda x: jnp.argmax(x), TABLE), None),
    "sort": (lambda: checked(lambda x: jnp.argsort(x), TABLE), None),
    "median": (lambda: checked(lambda x: jnp.median(x), TABLE), None),
    "softmax": (lambda: checked(lambda x: pyjax.nn.softmax(x), TABLE), None),
    "softmax -inf": (
        lambda: checked(lambda x: pyjax.nn.softmax(x), jnp.full(3, -jnp.inf)),
        "NaNError",
    ),
    "logsumexp -inf": (
        lambda: checked(lambda x: pyjax.nn.logsumexp(x), jnp.full(3, -jnp.inf)),
        None,
    ),
    "var": (lambda: checked(lambda x: jnp.var(x), TABLE), None),
    "norm grad": (
        lambda: checked(pyjax.grad(lambda x: jnp.linalg.norm(x)), jnp.zeros(3)),
        "DivisionByZeroError",
    ),
    "randint": (
        lambda: checked(lambda k: pyjax.random.randint(k, (3,), 0, 10), pyjax.random.key(0)),
        None,
    ),
    "normal": (lambda: checked(lambda k: pyjax.random.normal(k, (3,)), pyjax.random.key(0)), None),
    "permutation": (
        lambda: checked(lambda k: pyjax.random.permutation(k, 5), pyjax.random.key(0)),
        None,
    ),
    "choice": (
        lambda: checked(lambda k: pyjax.random.choice(k, 5, (3,)), pyjax.random.key(0)),
        None,
    ),
    "interp": (
        lambda: checked(lambda x: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0)), F32(9)),
        None,
    ),
    "key format": (
        lambda: checkify.checkify(lambda k: checkify.check(False, "{}", k))(pyjax.random.key(0)),
        "FailedCheckError",
    ),
    "inner errors": (
        lambda: checkify.checkify(
            lambda x: checkify.checkify(jnp.log, errors=all_checks)(x)[1], errors=all_checks
        )(-1.0),
        "NaNError",
    ),
    "assoc scan": (
        lambda: checked(lambda x: lax.associative_scan(lambda a, b: a + b, x), TABLE),
        None,
    ),
    "cumsum": (lambda: checked(lambda x: jnp.cumsum(x), jnp.full(3, jnp.nan)), "NaNError"),
    "ifft": (lambda: checked(lambda x: jnp.fft.fft(x), jnp.full(3, jnp.nan)), "NaNError"),
    "einsum": (lambda: checked(lambda x: x @ x.T, jnp.full((3, 3), jnp.nan)), "NaNError"),
}


def error_in(result: Any) -> Error | None:
    leaves = pyjax.tree.leaves(result, is_leaf=lambda x: isinstance(x, Error))
    return next((x for x in leaves if isinstance(x, Error)), None)


def outcome(call: Callable[[], Any]) -> str | None:
    try:
        error = error_in(call())
        exception = None if error is None else error.get_exception()
    except Exception as raised:
        return f"raises {type(raised).__name__}"
    return None if exception is None else type(exception).__name__


@pytest.mark.parametrize("name", CASES)
def test_as_in_jax(name: str) -> None:
    call, expected = CASES[name]
    assert outcome(call) == expected


def test_more_than_in_jax() -> None:
    """Decompositions are looked at, and mapped loops of which each lane is checked."""
    assert outcome(lambda: checked(jnp.linalg.cholesky, -jnp.eye(2))) == "NaNError"
    loop = checkify.checkify(
        lambda x: lax.while_loop(lambda c: c > -5, lambda c: positive(c) - 3, x)
    )
    error, _ = vmap(loop)(jnp.asarray([2.0, -9.0]))
    text = error.get()
    assert text is not None
    assert "at mapped index 0: must be positive: -1.0" in text and "index 1" not in text


# A call with an error, and what its message says, line by line.
MESSAGES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "check": (
        lambda: checkify.checkify(jit(positive))(F32(-1)),
        (r"must be positive: -1.0 \(`check` failed\)", r"py:\d+ in positive: .*# of the user"),
    ),
    "nan": (
        lambda: checked(jit(lambda x: jnp.log(x) + 1), -1.0),
        ("nan generated by primitive: log", r"jnp.log\(x\)", "nan_checks", "operands"),
    ),
    "division": (
        lambda: checked(lambda x, y: x / y, F32(1), F32(0)),
        ("division by zero", "x / y", "div_checks", "jnp.where"),
    ),
    "index": (
        lambda: checked(lambda i: TABLE[1, i], jnp.asarray([0, 4])),
        (r"index 4 is out of bounds for axis 1 with size 4, in gather", "TABLE", "jnp.clip"),
    ),
    "negative index": (
        lambda: checked(lambda i: TABLE[i], jnp.asarray([-9])),
        (r"index -6 \(negative indices count from the end: -9\) is out of bounds for axis 0",),
    ),
    "function of the library, called before elsewhere": (
        lambda: (checked(jnp.median, TABLE), checked(lambda x: jnp.median(x) + 0, TABLE - jnp.nan))[
            1
        ],
        ("nan generated by", r"jnp.median\(x\) \+ 0"),
    ),
    "derivative": (
        lambda: checked(pyjax.grad(lambda x: jnp.sqrt(x)), 0.0),
        ("division by zero", r"jnp.sqrt\(x\)"),
    ),
    "lanes": (
        lambda: vmap(vmap(checkify.checkify(positive)))(jnp.asarray([[1.0, -1.0], [-2.0, 3.0]])),
        ("at mapped index 0, 1: must .* -1.0", "at mapped index 1, 0: must .* -2.0"),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    call, patterns = MESSAGES[name]
    error = error_in(call())
    assert error is not None
    text = error.get()
    assert text is not None and repr(error) == f"Error({text})"
    start = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, start)
        assert found, f"{pattern!r} is not in, or not in this order:\n{text}"
        start = found.end()
    with pytest.raises(checkify.JaxRuntimeError) as raised:
        error.throw()
    assert str(raised.value) in text and isinstance(raised.value, ValueError)


def test_a_check_in_a_plain_program() -> None:
    with pytest.raises(
        ValueError, match=r"(?s)not functionalized.*of the user.*checkify"
    ) as raised:
        jit(positive)(1.0)
    assert "jax_experimental_unsafe_xla_runtime_errors" in str(raised.value)


# What raises where the option lets programs raise.
RAISING: dict[str, tuple[Callable[[], Any], str]] = {
    "jit": (lambda: jit(positive)(F32(-1)), "-1.0"),
    "scan": (lambda: lax.scan(lambda c, x: (c, positive(x)), 0, jnp.asarray([1.0, -3.0])), "-3.0"),
    "while": (lambda: lax.while_loop(lambda c: c > -9, lambda c: positive(c) - 3, F32(2)), "-1.0"),
    "cond": (lambda: jit(lambda x: lax.cond(x < 0, positive, jnp.sin, x))(F32(-4)), "-4.0"),
    "vmap": (lambda: jit(vmap(positive))(jnp.asarray([1.0, -5.0, -6.0])), "-5.0"),
    "vmap of scan": (
        lambda: vmap(lambda xs: lax.scan(lambda c, x: (c, positive(x)), 0, xs))(
            jnp.asarray([[1.0, 2.0], [3.0, -7.0]])
        ),
        "-7.0",
    ),
    "grad": (lambda: jit(pyjax.grad(positive))(F32(-8)), "-8.0"),
    "checkpoint": (lambda: jit(pyjax.grad(pyjax.checkpoint(positive)))(F32(-8)), "-8.0"),
    "error": (lambda: jit(rechecked)(F32(-9)), "-9.0"),
}


@pytest.mark.parametrize("name", RAISING)
def test_programs_that_raise(name: str) -> None:
    call, value = RAISING[name]
    with options.experimental_unsafe_xla_runtime_errors(True):
        for _ in range(2):
            with pytest.raises(pyjax.errors.JaxRuntimeError) as raised:
                call()
            text = str(raised.value)
            assert text.startswith(f"must be positive: {value} (`check` failed)")
            assert "# of the user" in text
            assert isinstance(raised.value, checkify.JaxRuntimeError)
        assert jit(positive)(F32(2)) == 4
        assert jit(lambda x: lax.cond(x > 0, positive, jnp.sin, x))(0.0) == 0


def test_results_are_those_of_the_function() -> None:
    error, y = jit(checkify.checkify(positive, errors=all_checks))(F32(-3))
    assert y == -6 and error.get() is not None
    assert pyjax.grad(lambda x: checked(log_with_vjp, x)[1])(-4.0) == -0.25
    assert pyjax.grad(lambda x: checked(pyjax.checkpoint(jnp.sin), x)[1])(0.0) == 1


def test_nothing_is_compiled_again() -> None:
    f = checkify.checkify(jit(lambda x: lax.fori_loop(0, 3, lambda i, c: positive(c), x)))
    f(F32(1))
    with pyjax.assert_compiles(0):
        assert f(F32(-2))[0].get() is not None


def test_a_check_that_nobody_needs_is_kept() -> None:
    def f(x):
        positive(x)
        return x

    for g in (f, jit(f), pyjax.checkpoint(f), lambda x: lax.cond(x < 9, f, f, x)):
        assert checkify.checkify(g)(F32(-1))[0].get() is not None


def test_static_indices_out_of_bounds_are_clamped_as_before() -> None:
    for index in (3, -5, (1, 9), (slice(None, None, -1), -7), (2**40, None, 1)):
        read = jit(lambda x, i=index: x[i])
        expected = TABLE[2, None, 1] if index == (2**40, None, 1) else TABLE[index]
        np.testing.assert_array_equal(read(TABLE), expected)
        assert pyjax.grad(lambda x, read=read: read(x).sum())(TABLE).sum() == expected.size
    with pytest.raises(OverflowError):  # although a program was traced with it
        TABLE[2**40, None, 1]


def test_an_error_that_nothing_can_make_is_checked_in_a_compiled_program() -> None:
    assert jit(lambda x: checkify.check_error(checkify.checkify(jnp.sin)(x)[0]))(1.0) is None
