"""einsum and matmul against NumPy on random expressions and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyjax
import pyjax.numpy as jnp

SIZES = dict(zip("abcde", (2, 3, 4, 2, 1)))


@st.composite
def expressions(draw: Any) -> str:
    inputs = draw(st.lists(st.text("abcde", min_size=0, max_size=3), min_size=1, max_size=4))
    used = sorted(set("".join(inputs)))
    kept = draw(st.lists(st.sampled_from(used), unique=True, max_size=3)) if used else []
    return f"{','.join(inputs)}->{''.join(kept)}"


@settings(max_examples=60, deadline=None)
@given(expressions(), st.sampled_from(["auto", False, True, "greedy"]))
def test_random_expressions(text: str, optimize: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([SIZES[c] for c in term]).astype(np.float32)
        for term in text.split("->")[0].split(",")
    ]
    got = jnp.einsum(text, *arrays, optimize=optimize)
    np.testing.assert_allclose(np.asarray(got), np.einsum(text, *arrays), rtol=2e-4, atol=2e-4)


FORMS = ["ij,jk", "ii", "...ij,...jk->...ik", "i...,i...->...", "ij->ji", "bij,bjk->bik", "i,j"]


@pytest.mark.parametrize("text", FORMS)
def test_implicit_output_and_ellipsis(text: str) -> None:
    rng = np.random.default_rng(1)
    arrays = []
    for term in text.split("->")[0].split(","):
        shape = [2] if "..." in term else []
        letters = term.replace("...", "")
        shape = (
            ([3] if term.startswith("...") else [])
            + [2] * len(letters)
            + ([3] if term.endswith("...") else [])
        )
        arrays.append(rng.standard_normal(shape).astype(np.float32))
    want = np.einsum(text, *arrays)
    np.testing.assert_allclose(np.asarray(jnp.einsum(text, *arrays)), want, rtol=1e-4, atol=1e-5)
    jitted = pyjax.jit(lambda *xs: jnp.einsum(text, *xs))(*arrays)
    np.testing.assert_allclose(np.asarray(jitted), want, rtol=1e-4, atol=1e-5)


def test_operands_with_axis_lists() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    got = jnp.einsum(a, [0, 1], b, [1, 2], [0, 2])
    np.testing.assert_array_equal(np.asarray(got), np.full((2, 4), 3.0))


def test_preferred_element_type_and_path() -> None:
    a = jnp.ones((2, 3), "int8")
    assert jnp.einsum("ij,kj->ik", a, a, preferred_element_type="int32").dtype == jnp.int32
    path, text = jnp.einsum_path("ij,jk,kl->il", *[np.ones((2, 2))] * 3)
    assert [len(p) for p in path] == [2, 2]
    assert "ij,jk,kl->il" in str(text)


def test_gradient() -> None:
    a, b = np.ones((2, 3), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)
    grad = pyjax.grad(lambda x: jnp.einsum("ij,jk->", x, b))(a)
    np.testing.assert_allclose(np.asarray(grad), np.broadcast_to(b.sum(1), (2, 3)))


def test_size_mismatch_is_an_error() -> None:
    with pytest.raises((ValueError, TypeError), match="label 'j'"):
        jnp.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 5)))


MATMUL = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((3,), (6, 5, 3, 4)),
    ((1, 5, 2, 3), (6, 1, 3, 4)),
    ((7, 1, 2, 3), (3,)),
    ((1, 1, 2, 3), (1, 3, 2)),
]


@pytest.mark.parametrize("left, right", MATMUL)
def test_matmul_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in (left, right))
    np.testing.assert_allclose(np.asarray(jnp.matmul(a, b)), a @ b, rtol=1e-4, atol=1e-5)


def test_subscripts_are_parsed_once(monkeypatch):
    """For operands of so many dimensions, whatever their sizes."""
    parser, parsed = opt_einsum.parser, []
    real = parser.parse_einsum_input

    def parse(*args, **kwargs):
        parsed.append(args[0][0])
        return real(*args, **kwargs)

    monkeypatch.setattr(parser, "parse_einsum_input", parse)
    for n in (2, 3):
        x = np.arange(n * n, dtype=np.float32).reshape(n, n)
        assert jnp.einsum("...q -> ...", x).tolist() == x.sum(-1).tolist()
    assert jnp.einsum("...q -> ...", x[0]) == x[0].sum()
    assert parsed == ["...q -> ..."] * 2
