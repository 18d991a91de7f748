"""Sizes that are not known at the export: expressions, programs, calls, and what is refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import export, lax
from pyjax.core.symbolic_dims import OPERATIONS, bounds, evaluate, operation
from tests.sampling import sampled

A, B = export.symbolic_shape("a, b")
SIZES = [{"a": 4, "b": 5}, {"a": 1, "b": 7}, {"a": 3, "b": 1}, {"a": 1, "b": 1}]


def struct(*shape: Any, dtype: Any = np.float32) -> pyjax.ShapeDtypeStruct:
    return pyjax.ShapeDtypeStruct(shape, dtype)


def arrays(structs: Any, sizes: dict[str, int]) -> list[np.ndarray]:
    made = []
    for s in structs:
        shape = [evaluate(d, sizes) for d in s.shape]
        ramp = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        made.append(((ramp - 3) / 7).astype(s.dtype))
    return made


# -- programs --------------------------------------------------------------------------------------

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: jnp.sin(x) * 2 + 1, (struct(A, B),)),
    "broadcast": (lambda x, y: x + y, (struct(A, B), struct(B))),
    "reshape": (lambda x: x.reshape(-1) * 2, (struct(A, B),)),
    "reshape to sizes": (lambda x: x.reshape(x.shape[1], x.shape[0]), (struct(A, B),)),
    "transpose": (lambda x: x.T, (struct(A, B),)),
    "sum": (lambda x: x.sum(0), (struct(A, B),)),
    "softmax": (pyjax.nn.softmax, (struct(A, B),)),
    "products": (lambda x, y: jnp.tanh(x @ y), (struct(A, B), struct(B, 3))),
    "sizes of results": (lambda x: jnp.concatenate([x, x]), (struct(A, 2 * B + 1),)),
    "slices": (lambda x: x[:, :3], (struct(B, 5),)),
    "first": (lambda x: x[0], (struct(B, 3),)),
    "new arrays": (lambda x: jnp.zeros_like(x) + jnp.ones(x.shape), (struct(B, 3),)),
    "sort": (lambda x: jnp.sort(-x, 0), (struct(B, 3),)),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), (struct(B, 3),)),
    "vmap": (pyjax.vmap(lambda r: jnp.dot(r, r)), (struct(B, 3),)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), (struct(B, 3),)),
    "branch": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), (struct(B, 3),)),
    "gradient": (pyjax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), (struct(B, 3),)),
    "norm": (lambda x: x / jnp.sqrt(x.var(-1, keepdims=True) + 1), (struct(B, 3),)),
    "attention": (lambda q: pyjax.nn.softmax(q @ q.T) @ q, (struct(B, 3),)),
    "one hot": (lambda i: pyjax.nn.one_hot(i, 5), (struct(B, dtype=np.int32),)),
    "means": (lambda x: (x.mean(), x.mean(0), jnp.var(x, ddof=1)), (struct(A, B),)),
    "gradient of a mean": (pyjax.grad(lambda x: jnp.mean(jnp.sin(x) ** 2)), (struct(A, B),)),
    "sizes with arrays": (
        lambda x: (x * x.shape[0], x.sum() / x.size, 2.5 - x.shape[0] * x, jnp.sqrt(x.shape[1])),
        (struct(A, B),),
    ),
    "sizes with numbers": (
        lambda x: (x / (0.5 + x.shape[0]), x * x.shape[1] ** -0.5, np.ones(3) * x.shape[0]),
        (struct(A, B),),
    ),
    "sizes as arrays": (
        lambda x: (jnp.asarray(x.shape[0]), jnp.array([x.shape[1], 2]), jnp.float32(x.shape[0])),
        (struct(A, B),),
    ),
    "sizes that are negative": (
        lambda x: (x + (1 - x.shape[0] * x.shape[1]), x * -(x.shape[1] // 3 - 9 % x.shape[0])),
        (struct(A, B),),
    ),
    "a size as a result": (lambda x: (x, x.shape[0], -x.shape[1]), (struct(A, B),)),
    "a size as an argument": (
        lambda x: pyjax.jit(lambda x, n: x * n)(x, x.shape[0]),
        (struct(A, B),),
    ),
    "a size in a mapped function": (
        pyjax.vmap(lambda r: r.mean() * r.shape[0]),
        (struct(A, B),),
    ),
    "the end": (lambda x: (x[1:], x[:-1], x[-1], x[:, ::-1], x[::2]), (struct(A, B),)),
    "halves": (lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :]), (struct(A, B),)),
    "last column first": (lambda x: (jnp.roll(x, 1, 1), jnp.diff(x, axis=0)), (struct(A, B),)),
    "rows": (lambda x: (x[jnp.array([0, -1])], jnp.take(x, np.array([0, -1]), 1)), (struct(A, B),)),
    "padding": (lambda x: jnp.pad(x, ((1, 0), (0, 2))), (struct(A, B),)),
    "ranges": (
        lambda x: (jnp.arange(x.shape[0]), jnp.arange(1, x.shape[1] + 1, dtype=np.float32) * x),
        (struct(A, B),),
    ),
    "steps of a range": (
        lambda x: (jnp.arange(1, x.shape[0] + 3, 2), jnp.arange(x.shape[1], -2, -1)),
        (struct(A, B),),
    ),
    "identity": (lambda x: (jnp.eye(x.shape[0]) @ x, jnp.tril(x)), (struct(A, B),)),
    "sums so far": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, reverse=True)), (struct(A, B),)),
    "a loop over a size": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c * 0.5 + x[i], jnp.zeros(x.shape[1])),
        (struct(A, B),),
    ),
    "a scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), (struct(A, B),)),
    "a scan backwards": (
        lambda x: lax.scan(lambda c, r: (c - r, c), x[0], x, reverse=True),
        (struct(A, B),),
    ),
    "a scan of a length": (
        lambda x: lax.scan(lambda c, _: (jnp.sin(c), None), x, length=x.shape[0]),
        (struct(A, B),),
    ),
    "a map": (lambda x: lax.map(lambda r: r.mean(), x), (struct(A, B),)),
    "random numbers": (
        lambda x: x + pyjax.random.normal(pyjax.random.key(0), x.shape[1:]),
        (struct(A, B),),
    ),
    "shapes in NumPy": (lambda x: x * np.prod(x.shape), (struct(A, B),)),
    "gradients of ends": (
        pyjax.grad(lambda x: (x[1:] * x[:-1]).sum() + (x[: x.shape[0] // 2] ** 2).sum()),
        (struct(A, B),),
    ),
    "gradients of places": (
        pyjax.grad(lambda x: (jnp.roll(x, 1) * jnp.concatenate([x[1:], x[:1]])).sum() + x[-1, 0]),
        (struct(A, B),),
    ),
    "the gradient of a scan": (
        pyjax.grad(lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x)[1].sum()),
        (struct(A, B),),
    ),
    "linear algebra": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)), (struct(3, B),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_all_sizes(name: str) -> None:
    function, structs = PROGRAMS[name]
    made = export.export(pyjax.jit(function))(*structs)
    exported = export.deserialize(made.serialize())
    assert "uses_shape_polymorphism = true" in exported.mlir_module()
    for sizes in SIZES:
        args = arrays(structs, sizes)
        for call in (made.call, exported.call):
            result, expected = call(*args), pyjax.jit(function)(*args)
            assert pyjax.tree.structure(result) == pyjax.tree.structure(expected)
            for a, b in zip(pyjax.tree.leaves(result), pyjax.tree.leaves(expected)):
                assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_types_are_symbolic() -> None:
    made = export.export(pyjax.jit(lambda x: x.reshape(-1)))(struct(A, B + 1))
    for exported in (made, export.deserialize(made.serialize())):
        assert [a.str_short() for a in exported.in_avals] == ["float32[a,b + 1]"]
        assert [a.str_short() for a in exported.out_avals] == ["float32[a*b + a]"]
        assert "tensor<«a»x«b + 1»xf32>" in exported.mlir_module()


def test_derivatives_jit_and_vmap() -> None:
    made = export.export(pyjax.jit(lambda x, w: jnp.tanh(x @ w).sum()))(struct(A, B), struct(B, 3))
    exported = export.deserialize(made.serialize(vjp_order=2))
    assert [a.str_short() for a in exported.vjp().out_avals] == ["float32[a,b]", "float32[b,3]"]

    def plain(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w).sum()

    def mixed(call: Any, x: Any, w: Any) -> Any:
        return pyjax.grad(lambda w: pyjax.grad(call)(x, w).sum())(w)

    for sizes in SIZES:
        x, w = arrays((struct(A, B), struct(B, 3)), sizes)
        gradient = pyjax.jit(pyjax.grad(exported.call))(x, w)
        np.testing.assert_allclose(gradient, pyjax.grad(plain)(x, w), rtol=1e-5, atol=1e-7)
        twice = mixed(exported.call, x, w)
        np.testing.assert_allclose(twice, mixed(plain, x, w), rtol=1e-4, atol=1e-6)
        mapped = pyjax.vmap(exported.call, (0, None))(np.stack([x, 2 * x]), w)
        np.testing.assert_allclose(mapped, [plain(x, w), plain(2 * x, w)], rtol=1e-5)


# -- what is refused -------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = {
    "a comparison": (
        lambda x: x if x.shape[0] > 5 else x + 1,
        (struct(B),),
        pyjax.errors.InconclusiveDimensionOperation,
        "whether b >= 6 depends on sizes that are not known",
    ),
    "a size as a number": (
        lambda x: x * float(x.shape[0]),
        (struct(B),),
        pyjax.errors.JAXTypeError,
        "b is a size that is not known .* and a number is needed",
    ),
    "a range": (
        lambda x: [x for _ in range(x.shape[0])],
        (struct(B),),
        pyjax.errors.JAXTypeError,
        "b is a size that is not known",
    ),
    "a lowering": (
        lambda x: pyjax.random.bits(pyjax.random.key(0), x.shape),
        (struct(A, B),),
        NotImplementedError,
        r"sizes: random_bits needs numbers\n  test_symbolic.py:\d+ in <lambda>: .*random.bits",
    ),
    "sizes that differ": (
        lambda x, y: x + y,
        (struct(A), struct(B)),
        Exception,
        r"a.*b",
    ),
    "a size that no argument tells": (
        lambda x: x * 2,
        (struct(A * B),),
        ValueError,
        "the sizes of its arguments do not tell 'a'",
    ),
    "names of two scopes": (
        lambda x, y: (x, y),
        (struct(A), struct(export.symbolic_shape("c")[0])),
        ValueError,
        "belong to different symbolic scopes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_export(name: str) -> None:
    function, structs, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        export.export(pyjax.jit(function))(*structs)


def test_a_size_outside_of_a_program_has_no_value() -> None:
    for compute in (lambda: jnp.ones(3) * A, lambda: A * 2.5, lambda: np.ones(3) / A):
        with pytest.raises(pyjax.errors.JAXTypeError, match="a is a size that is not known"):
            compute()


def test_constraints_decide() -> None:
    (n,) = export.symbolic_shape("n", constraints=["n >= 6", "mod(n, 2) == 0"])
    made = export.export(pyjax.jit(lambda x: x if x.shape[0] > 5 else x + 1))(struct(n))
    exported = export.deserialize(made.serialize())
    assert exported.call(np.ones(8, np.float32)).tolist() == [1] * 8
    with pytest.raises(ValueError, match=r"with n >= 6, mod\(n, 2\) == 0, .*\n.*\n  n - 6 is neg"):
        exported.call(np.ones(4, np.float32))
    with pytest.raises(ValueError, match=r"mod\(n, 2\) is 1, and 0 is 0"):
        exported.call(np.ones(7, np.float32))


CALLS: list[tuple[tuple[Any, ...], str]] = [
    (((2, 7), (3,)), r"takes 2\*a \+ b as args\[0\].shape\[1\], and is called with 7"),
    (((2,), (3,)), r"takes float32\[b,2\*a \+ b\] as args\[0\], and is called with shape \(2,\)"),
    (
        ((2, 8), (4,)),
        r"takes a as args\[1\].shape\[0\], .* 4\n.*\n.*'a' is 3 by args\[0\].shape\[1\]",
    ),
    (((0, 8), (3,)), r"'b' would be no size from 1"),
]


@pytest.mark.parametrize(("shapes", "message"), CALLS)
def test_shapes_that_do_not_fit(shapes: Any, message: str) -> None:
    exported = export.export(pyjax.jit(lambda x, y: (x, y)))(struct(B, 2 * A + B), struct(A))
    assert exported.call(np.ones((2, 8), np.float32), np.ones(3, np.float32))[1].shape == (3,)
    with pytest.raises(ValueError, match=message):
        exported.call(*[np.ones(shape, np.float32) for shape in shapes])


def test_programs_of_symbolic_sizes_are_checked_at_each_size() -> None:
    made = export.export(pyjax.jit(lambda x: x * 2))(struct(B))
    ((header, text),) = export.container.read_records(made.serialize())
    for changed in (text.replace("«b»", "«b + 1»", 1), text.replace("«b»", "«c»")):
        blob = export.container.write_records([(header, changed)], 1)
        with pytest.raises((ValueError, KeyError)):
            export.deserialize(blob).call(np.ones(3, np.float32))


# -- expressions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "like", "expected"),
    [
        ("b, 2*b + 1", None, "(b, 2*b + 1)"),
        ("(b + 1)*(b - 1), b^2*c - 3", None, "(b^2 - 1, b^2*c - 3)"),
        ("floordiv(b, 2)*mod(c, 3)", None, "(floordiv(b, 2)*mod(c, 3),)"),
        ("max(b, 1), max(b, 3) + min(b, 2)", None, "(b, max(b, 3) + min(b, 2))"),
        ("(b, 4)", None, "(b, 4)"),
        ("", None, "()"),
        ("b, _, ...", (2, 4, 5, 6), "(b, 4, 5, 6)"),
        (None, (2, 3), "(2, 3)"),
        ("b - b, b*0 + 3, -(1 - 2)", None, "(0, 3, 1)"),
    ],
)
def test_shapes_from_text(text: str | None, like: Any, expected: str) -> None:
    assert str(export.symbolic_shape(text, like=like)) == expected


@pytest.mark.parametrize(
    ("text", "like", "message"),
    [
        ("b, 2**", None, "expected a size, found 'the end'"),
        ("b c", None, "expected ',', found 'c'"),
        ("b, ...", None, "take sizes from `like`, which is not given"),
        ("b, 3", (2, 4), "size 1 is 3, and 4 in `like`"),
        ("b", (2, 4), "it has 1 sizes, and `like` 2"),
        ("-1", None, "the size -1 is negative"),
        ("a$", None, r"'\$' is no part of an expression"),
        ("floordiv(a, 0)", None, "floordiv by 0"),
        ("(" * 200, None, "nested too deep"),
        ("a^99", None, "no number up to 16"),
    ],
)
def test_malformed_shapes(text: str, like: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"syntax error in the symbolic shape [\s\S]*{message}"):
        export.symbolic_shape(text, like=like)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["b >= 2", "b <= 1"], "it contradicts the constraints before it"),
        (["b <= 0"], "it contradicts the constraints before it, or that sizes are at least 1"),
        (["b"], "a constraint has one of >=, <= and =="),
        (["b + 1 == 3"], "the left side of an equality is a name or one operation"),
        ("b >= 1", "constraints must be a sequence of texts"),
    ],
)
def test_malformed_constraints(constraints: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export.SymbolicScope(constraints)


def test_comparisons_know_what_operations_promise() -> None:
    n, m = export.symbolic_shape("n, m")
    assert (n + 3) // 4 * 4 >= n
    assert n - m % n >= 1
    assert operation("min", n, m) <= m
    assert operation("max", n, m) + 1 > n
    with pytest.raises(pyjax.errors.InconclusiveDimensionOperation):
        bool(n - n % 4 >= 1)


def test_specifications_of_arguments() -> None:
    args = ({"x": np.ones((4, 3), np.float32)}, np.ones(4, np.int32), 1.0)
    specs = export.symbolic_args_specs(args, ({"x": "b, ..."}, "b", None))
    assert [s.shape for s in pyjax.tree.leaves(specs)] == [
        (specs[1].shape[0], 3),
        specs[1].shape,
        (),
    ]
    assert [str(s.dtype) for s in pyjax.tree.leaves(specs)] == ["float32", "int32", "float32"]
    (same,) = pyjax.tree.leaves(export.symbolic_args_specs((args[1],), "n"))
    assert export.is_symbolic_dim(same.shape[0])
    assert not export.is_symbolic_dim(4)
    with pytest.raises(ValueError, match="both constraints and scope are given"):
        scope = export.SymbolicScope()
        export.symbolic_args_specs(args, None, constraints=["b >= 2"], scope=scope)


def random_size(rng: random.Random, scope: export.SymbolicScope, depth: int) -> Any:
    if depth == 0:
        return rng.choice([scope.factor("a"), scope.factor("b"), rng.randint(-3, 5)])
    left, right = (random_size(rng, scope, depth - 1) for _ in range(2))
    kind = rng.choice(["+", "-", "*", *sorted(OPERATIONS)])
    if kind == "+":
        return left + right
    if kind == "-":
        return left - right
    if kind == "*":
        return left * right
    if kind in ("floordiv", "mod"):
        right = rng.choice([2, 3, scope.factor("b"), scope.factor("a") + 1])
    return operation(kind, left, right)


@sampled("seed", range(8), every=3)
def test_expressions_agree_with_numbers(seed: int) -> None:
    """Arithmetic, bounds and texts, for all small sizes that the constraints allow."""
    rng = random.Random(seed)
    scope = export.SymbolicScope(["a >= b + 1", "b <= 6"])
    allowed = [{"a": a, "b": b} for a, b in itertools.product(range(1, 9), range(1, 7)) if a > b]
    for _ in range(60):
        left, right = (random_size(rng, scope, rng.randint(1, 3)) for _ in range(2))
        text = str(left)
        again = export.symbolic_shape(f"max({text}, 0)", scope=scope)[0]
        low, high = bounds(left)
        for sizes in allowed:
            x, y = evaluate(left, sizes), evaluate(right, sizes)
            assert evaluate(left + right, sizes) == x + y
            assert evaluate(left - right, sizes) == x - y
            assert evaluate(left * right, sizes) == x * y
            assert evaluate(operation("floordiv", left, 3), sizes) == x // 3
            assert evaluate(operation("mod", left, scope.factor("b")), sizes) == x % sizes["b"]
            assert evaluate(operation("max", left, right), sizes) == max(x, y)
            assert evaluate(operation("min", left, right), sizes) == min(x, y)
            assert low <= x <= high, (text, sizes)
            assert evaluate(again, sizes) == max(x, 0)
