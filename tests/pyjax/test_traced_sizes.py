"""Arrays whose sizes are traced integers (option `dynamic_shapes`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
import pyjax.scipy.special
from pyjax import lax
from pyjax.errors import (
    ConcretizationTypeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

LENGTHS = (0, 1, 7, 1000, 100003)


@pytest.fixture(autouse=True)
def traced_sizes() -> Iterator[None]:
    with pyjax._config.options.dynamic_shapes(True):
        yield


def check(fun: Callable[..., Any], reference: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """One jitted function gives what NumPy does, shapes and dtypes too, for all arguments."""
    jitted = pyjax.jit(fun)
    for arguments in calls:
        got = pyjax.tree.leaves(jitted(*arguments))
        want = reference(*arguments)
        want = want if isinstance(want, (tuple, list)) else [want]
        assert len(got) == len(want)
        for g, w in zip(got, want):
            assert g.shape == np.shape(w)
            np.testing.assert_allclose(np.asarray(g), w, rtol=2e-5, atol=1e-5)
    assert jitted._cache_size() == 1


# -- what works ------------------------------------------------------------------------------------


def test_one_compilation_serves_all_lengths(caplog: pytest.LogCaptureFixture) -> None:
    @pyjax.jit
    def f(n: Any, x: Any) -> Any:
        y = jnp.arange(n) * x + jnp.ones(n)
        return y, y.sum(), jnp.where(y > 3, y, 0.0)[:5]

    with caplog.at_level(logging.WARNING), pyjax.log_compiles(True):
        f(3, 0.5)
        assert any("Finished compiling jit_f" in r.getMessage() for r in caplog.records)
        caplog.clear()
        for n in LENGTHS:
            y, total, head = f(n, 0.5)
            want = np.arange(n, dtype=np.float32) * np.float32(0.5) + 1
            np.testing.assert_array_equal(y, want)
            np.testing.assert_allclose(total, want.astype(np.float64).sum(), rtol=1e-5)
            np.testing.assert_array_equal(head, np.where(want > 3, want, 0)[:5])
            assert y.shape == (n,) and head.shape == (min(n, 5),)
    assert not caplog.records
    assert f._cache_size() == 1


CREATIONS = {
    "ones": (lambda n: jnp.ones(n), lambda n: np.ones(n)),
    "zeros": (lambda n: jnp.zeros((n, 3), int), lambda n: np.zeros((n, 3), int)),
    "full": (lambda n: jnp.full((2, n), n), lambda n: np.full((2, n), n)),
    "arange": (lambda n: jnp.arange(n), lambda n: np.arange(n)),
    "arange from": (lambda n: jnp.arange(2, n + 2), lambda n: np.arange(2, n + 2)),
    "arange by": (lambda n: jnp.arange(n, -n, -3), lambda n: np.arange(n, -n, -3)),
    "iota": (lambda n: lax.iota(np.float32, n), lambda n: np.arange(n)),
    "broadcasted_iota": (
        lambda n: lax.broadcasted_iota(np.int32, (3, n), 0),
        lambda n: np.arange(3)[:, None] + np.zeros((3, n), int),
    ),
    "broadcast_to": (
        lambda n: jnp.broadcast_to(jnp.arange(3), (n, 3)),
        lambda n: np.broadcast_to(np.arange(3), (n, 3)),
    ),
    "computed": (lambda n: jnp.ones(2 * n + 1), lambda n: np.ones(2 * n + 1)),
    "zeros_like": (lambda n: jnp.zeros_like(jnp.ones(n)), lambda n: np.zeros(n)),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_creation(name: str) -> None:
    fun, reference = CREATIONS[name]
    check(fun, reference, *[(n,) for n in (0, 1, 7, 1000)])


USES = {
    "mean": (lambda n: jnp.arange(n).mean(), lambda n: np.arange(n).mean()),
    "var": (lambda n: jnp.var(jnp.arange(n) * 0.1), lambda n: np.var(np.arange(n) * 0.1)),
    "max": (lambda n: (jnp.arange(n) - 3).max(), lambda n: np.arange(n).max() - 3),
    "all": (lambda n: (jnp.arange(n) < 5).all(), lambda n: (np.arange(n) < 5).all()),
    "size": (lambda n: jnp.ones((n, 4)).size * 2, lambda n: n * 8),
    "shape": (lambda n: jnp.ones(n) / jnp.ones(n).shape[0], lambda n: np.ones(n) / n),
    "over": (lambda n: jnp.ones((n, 3)).sum(0), lambda n: np.ones((n, 3)).sum(0)),
    "beside": (
        lambda n: (jnp.arange(n)[:, None] * jnp.arange(5)).sum(1, keepdims=True),
        lambda n: (np.arange(n)[:, None] * np.arange(5)).sum(1, keepdims=True),
    ),
    "square": (
        lambda n: jnp.tril(jnp.ones((n, n))).sum(0),
        lambda n: np.tril(np.ones((n, n))).sum(0),
    ),
    "transpose": (
        lambda n: (jnp.arange(n)[:, None] + jnp.arange(3)).T,
        lambda n: (np.arange(n)[:, None] + np.arange(3)).T,
    ),
    "reshape": (lambda n: jnp.arange(n).reshape(1, n, 1), lambda n: np.arange(n).reshape(1, n, 1)),
    "dot": (
        lambda n: jnp.dot(jnp.arange(n) * 0.01, jnp.ones(n)),
        lambda n: np.dot(np.arange(n) * 0.01, np.ones(n)),
    ),
    "matmul": (
        lambda n: (jnp.arange(n)[:, None] * jnp.ones(3)) @ jnp.arange(6.0).reshape(3, 2),
        lambda n: (np.arange(n)[:, None] * np.ones(3)) @ np.arange(6.0).reshape(3, 2),
    ),
    "outer": (
        lambda n: jnp.outer(jnp.arange(n), jnp.arange(n)).sum(1),
        lambda n: np.outer(np.arange(n), np.arange(n)).sum(1),
    ),
    "half": (
        lambda n: (jnp.arange(n) % 3).astype(jnp.bfloat16).sum().astype(np.float32),
        lambda n: (np.arange(n) % 3).sum().astype(jnp.bfloat16).astype(np.float32),
    ),
    "complex": (lambda n: (jnp.arange(n) * 1j).sum(), lambda n: (np.arange(n) * 1j).sum()),
    "custom rule": (
        lambda n: pyjax.nn.relu(jnp.arange(n) - 2.0),
        lambda n: np.maximum(np.arange(n) - 2.0, 0),
    ),
    "slices": (
        lambda n: (jnp.arange(n)[:3], jnp.arange(n)[:-2], jnp.ones((4, n))[:2, : n // 2]),
        lambda n: (np.arange(n)[:3], np.arange(n)[:-2], np.ones((4, n))[:2, : n // 2]),
    ),
}


@pytest.mark.parametrize("name", USES)
def test_use(name: str) -> None:
    fun, reference = USES[name]
    check(fun, reference, *[(n,) for n in (1, 2, 7, 300)])


SHAPES = ("()", "(1,)", "(3,)", "(n,)", "(1, 3)", "(n, 1)", "(n, 3)", "(3, n)", "(1, n)", "(n, n)",
          "(2, n, 3)")  # fmt: skip


def _fits(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two shapes broadcast; "n" is equal to itself only."""
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1]))


@pytest.mark.parametrize("left", SHAPES)
def test_broadcasting(left: str) -> None:
    """Each pair of shapes that broadcast does, also under where and broadcast_to; others raise."""

    def shaped(text: str, n: Any, module: Any, scale: float) -> Any:
        shape = eval(text, {"n": n})
        value = module.full(shape, scale)
        if shape:
            axis = module.arange(n)[:, None] if text.endswith("n, 1)") else module.zeros(1)
            value = value + (axis if text == "(n, 1)" else 0)
        return value

    def combined(n: Any, module: Any, right: str) -> Any:
        a, b = shaped(left, n, module, 2.0), shaped(right, n, module, 3.0)
        total = a * b
        return total, module.where(a > 2, a, b), module.broadcast_to(a, total.shape)

    for right in SHAPES:
        fits = _fits(*(eval(text, {"n": "n"}) for text in (left, right)))
        jitted = pyjax.jit(lambda n, right=right: combined(n, jnp, right))
        if not fits:
            with pytest.raises((TypeError, ValueError, ConcretizationTypeError)):
                jitted(5)
            continue
        for n in (0, 5, 40):
            for got, want in zip(jitted(n), combined(n, np, right)):
                np.testing.assert_array_equal(got, np.asarray(want, np.float32))
                assert got.shape == want.shape


def test_reductions_of_nothing() -> None:
    check(
        lambda n: (jnp.ones(n).sum(), jnp.ones(n).prod(), jnp.zeros((3, n)).sum(1)),
        lambda n: (0.0, 1.0, np.zeros(3)),
        (0,),
    )


def test_several_sizes() -> None:
    check(
        lambda n, m: (jnp.arange(n)[:, None] * jnp.arange(m)).sum(0),
        lambda n, m: (np.arange(n)[:, None] * np.arange(m)).sum(0),
        (2, 3), (3, 2), (0, 4), (4, 0), (40, 50),
    )  # fmt: skip


def test_size_computed_from_an_array() -> None:
    check(
        lambda x: jnp.arange((x > 0).sum()) + x.max(),
        lambda x: np.arange((x > 0).sum()) + x.max(),
        (np.arange(5.0),), (np.arange(5.0) - 2,), (np.full(5, -1.0),),
    )  # fmt: skip


def test_size_computed_from_an_array_of_traced_size() -> None:
    check(
        lambda n: jnp.ones(jnp.arange(n).sum()),
        lambda n: np.ones(np.arange(n).sum()),
        (0,), (1,), (6,),
    )  # fmt: skip


def test_operations_on_known_shapes_beside() -> None:
    """Before, between and after; closed-over arrays, arguments and numbers as results."""
    table = np.arange(40.0, dtype=np.float32)
    check(
        lambda n, x: (jnp.sort(x)[0] * jnp.ones(n)[:, None] * table, n, 2.5, x,
                      jnp.cumsum(x * jnp.ones(n).sum())),
        lambda n, x: (np.sort(x)[0] * np.ones(n)[:, None] * table, n, 2.5, x, np.cumsum(x * n)),
        (3, np.arange(5.0) + 1), (0, np.arange(5.0)), (20, -np.arange(5.0)),
    )  # fmt: skip


def test_keys_pass_through() -> None:
    key = pyjax.random.key(3)
    same, noise = pyjax.jit(lambda n, k: (k, pyjax.random.normal(k) * jnp.ones(n)))(3, key)
    assert same.dtype == key.dtype
    np.testing.assert_allclose(noise, np.full(3, pyjax.random.normal(key)))


def test_jitted_functions_inside_have_sizes_of_their_own() -> None:
    ones = pyjax.jit(jnp.ones)
    check(
        lambda n, m: (ones(n) + ones(n), ones(m)),
        lambda n, m: (2 * np.ones(n), np.ones(m)),
        (2, 3), (5, 0),
    )  # fmt: skip


def test_derivatives_and_lanes_inside() -> None:
    check(
        lambda n, x: pyjax.grad(lambda x: (jnp.arange(n) * jnp.sin(x)).sum())(x),
        lambda n, x: np.arange(n).sum() * np.cos(x),
        (5, 2.0), (0, 2.0), (100, -1.0),
    )  # fmt: skip
    check(
        lambda n, x: pyjax.vmap(lambda x: (jnp.arange(n) * x).sum())(x),
        lambda n, x: np.arange(n).sum() * x,
        (5, np.ones(3)), (10, np.arange(3.0)),
    )  # fmt: skip


def test_derivatives_and_lanes_outside() -> None:
    f = pyjax.jit(lambda n, x: (jnp.arange(n) * x).sum())
    assert float(pyjax.grad(f, argnums=1)(4, 2.0)) == 6.0
    assert pyjax.vmap(f, in_axes=(None, 0))(4, jnp.arange(3.0)).tolist() == [0.0, 6.0, 12.0]


def test_threads_share_a_program() -> None:
    from concurrent.futures import ThreadPoolExecutor

    f = pyjax.jit(lambda n: jnp.arange(n).sum())

    def run(n: int) -> int:
        with pyjax._config.options.dynamic_shapes(True):
            return int(f(n))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(200))) == [n * (n - 1) // 2 for n in range(200)]


def test_checks_of_programs_pass() -> None:
    with pyjax._config.options.enable_checks(True):
        check(
            lambda n: ((jnp.arange(n)[:, None] * jnp.ones(3)).sum(0), jnp.ones(n).sum()),
            lambda n: ((np.arange(n)[:, None] * np.ones(3)).sum(0), n),
            (0,), (33,),
        )  # fmt: skip


def test_constants_are_folded_beside() -> None:
    with pyjax._config.options.eager_constant_folding(True):
        check(
            lambda n: jnp.ones(n) * jnp.sum(jnp.arange(3)) + jnp.ones(n).shape[0],
            lambda n: np.full(n, 3.0 + n),
            (0,), (33,),
        )  # fmt: skip


def test_text_names_the_size() -> None:
    text = str(pyjax.make_jaxpr(lambda n: jnp.ones(n) * 2)(3))
    assert "dimension[dimension=n] a" in text and "f32[n]" in text


def test_off_there_are_none() -> None:
    with pyjax._config.options.dynamic_shapes(False):
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values"):
            pyjax.jit(jnp.ones)(3)


# -- what does not: each error has four parts ------------------------------------------------------

REFUSED: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "operation": (lambda n: jnp.sort(jnp.ones(n)), NotImplementedError, "sort of an array whose"),
    "concatenate": (
        lambda n: jnp.concatenate([jnp.ones(n), jnp.ones(2)]),
        NotImplementedError,
        "concatenate of an array whose size is traced",
    ),
    "inside": (
        lambda n: lax.fori_loop(0, 3, lambda i, c: c + jnp.ones(n).sum(), 0.0),
        NotImplementedError,
        "with an operation inside of it on an array whose size is traced",
    ),
    "size inside": (
        lambda n: (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x.shape[0], 0))(jnp.ones(n)),
        NotImplementedError,
        "with a size that is traced inside of it",
    ),
    "lowered with a loop": (
        lambda n: pyjax.scipy.special.gammainc(2.0, jnp.arange(n) + 1.5),
        NotImplementedError,
        "while .* has no form with sizes",
    ),
    "two sizes": (
        lambda n: jnp.ones(n) + jnp.ones(n + 1),
        TypeError,
        r"\(n,\), \(size1,\).*same traced integer",
    ),
    "known size": (
        lambda n: jnp.ones(n) + jnp.ones(3),
        TracerBoolConversionError,
        "Whether the size n of a traced array is 3",
    ),
    "python number": (
        lambda n: range(jnp.ones(n).shape[0]),
        TracerIntegerConversionError,
        "The size n of a traced array is used as a Python integer",
    ),
    "len": (lambda n: len(jnp.ones(n)), TracerIntegerConversionError, "The size n of"),
    "if": (
        lambda n: 1 if jnp.ones(n).shape[0] < 3 else 2,
        TracerBoolConversionError,
        "Attempted boolean conversion",
    ),
    "index": (lambda n: jnp.ones(n)[0], NotImplementedError, "Index 0 into an array whose size"),
    "reversal": (lambda n: jnp.ones(n)[::-1], NotImplementedError, r"Index slice\(None, None, -1"),
    "reshape": (
        lambda n: jnp.ones((n, 4)).reshape(n, 2, 2),
        TypeError,
        "only dimensions of size 1 can be added and dropped",
    ),
    "reshape -1": (lambda n: jnp.ones((n, 2)).reshape(-1), TypeError, "-1 for an array of a"),
    "arange": (lambda n: jnp.arange(0.5, n), ConcretizationTypeError, "no integer has a traced"),
    "effects": (
        lambda n: (pyjax.debug.print("{}", n), jnp.ones(n))[1],
        NotImplementedError,
        "has side effects",
    ),
    "many sizes": (
        lambda n: sum(jnp.ones(n + i).sum() for i in range(9)),
        NotImplementedError,
        "9 different traced sizes",
    ),
    "mapped": (
        lambda n: pyjax.vmap(lambda k: jnp.ones(k))(n + jnp.arange(3)),
        TypeError,
        "Shapes must be 1D sequences",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    fun, kind, message = REFUSED[name]
    with pytest.raises(kind, match=f"(?s){message}") as caught:
        pyjax.jit(fun)(4)
    text = str(caught.value)
    assert "static_argnums" in text or "same traced integer" in text or "\n" in text


def test_negative_size() -> None:
    f = pyjax.jit(lambda n: jnp.ones(n))
    with pytest.raises(ValueError, match=r"(?s)The size n of an array in .* is -3.*jnp.maximum"):
        f(-3)
    assert f(2).shape == (2,)


def test_no_module_of_its_own() -> None:
    with pytest.raises(NotImplementedError, match="compiled in parts"):
        pyjax.jit(jnp.ones).lower(3)


def test_faults_are_not_looked_for() -> None:
    with (
        pyjax.debug_nans(True),
        pytest.raises(NotImplementedError, match=r"(?s)to look for faults.*Take back debug_nans"),
    ):
        pyjax.jit(lambda n: jnp.ones(n).sum())(3)
