"""Two thousand calls against stored facts: dtype, weak type, shape, values, eager and jit."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from tests.sampling import sampled

HERE = Path(__file__).parent


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


calls = _load("oracle_calls")
FACTS = json.loads((HERE / "oracle_facts.json").read_text())
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2}

# expression: why pyjax departs from the reference
ACCEPTED_HERE = {
    "jnp.round(bool)": "rounding booleans is the identity, as in NumPy 1",
    "jnp.around(bool)": "as round",
    "jnp.kron(bool, bool)": "products of booleans are `and`",
}


@pytest.fixture(scope="module")
def env() -> dict[str, Any]:
    return calls.operands(jnp)


def evaluate(expression: str, env: dict[str, Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calls.leaves(eval(expression, dict(env)))


def assert_values(got: Any, values: list[Any], dtype: str) -> None:
    array = np.asarray(got)
    if array.dtype.kind == "c":
        want, array = np.array([complex(*v) for v in values]), array.astype(np.complex128)
    else:
        want, array = np.array(values), array.astype(np.float64)
    tolerance = TOLERANCE.get(dtype, 2e-5)
    np.testing.assert_allclose(array.ravel(), want, rtol=tolerance, atol=tolerance)


def groups() -> list[tuple[str, list[str]]]:
    """Calls by the function they start with, so that one test covers a function."""
    found: dict[str, list[str]] = {}
    for expression in calls.expressions():
        match = re.match(r"jnp\.([\w.]+)", expression)
        group = match.group(1) if match else "operators and methods"
        found.setdefault(group, []).append(expression)
    return sorted(found.items())


@sampled("name, expressions", groups(), every=2, ids=[name for name, _ in groups()])
def test_matches_reference(name: str, expressions: list[str], env: dict[str, Any]) -> None:
    failures = []
    for expression in expressions:
        fact = FACTS[expression]
        if isinstance(fact, str):
            if expression not in ACCEPTED_HERE:
                with pytest.raises((TypeError, ValueError, NotImplementedError, IndexError)):
                    evaluate(expression, env)
            continue
        try:
            results = evaluate(expression, env)
            assert len(results) == len(fact)
            for result, (dtype, weak, shape, values) in zip(results, fact, strict=True):
                kind = str(np.asarray(result).dtype)
                is_weak = bool(getattr(result, "weak_type", False))
                assert [kind, is_weak, list(np.shape(result))] == [dtype, weak, shape]
                assert_values(result, values, dtype)
        except Exception as error:
            failures.append(f"{expression}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


# Results whose shape depends on values cannot be traced.
VALUE_DEPENDENT = re.compile(
    r"jnp\.(unique(_\w+)?|union1d|intersect1d|setdiff1d|setxor1d|bincount|flatnonzero|argwhere"
    r"|extract|mask_indices|trim_zeros|nonzero)\(|jnp\.where\(x > 0\)|x\[t\]|x\.nonzero"
    r"|jnp\.choose\(v % 2|compress|roots"
)


@sampled("part", range(8), every=4)
def test_jit_equals_eager(part: int, env: dict[str, Any]) -> None:
    arrays = {k: v for k, v in env.items() if isinstance(v, pyjax.Array)}
    rest = {k: v for k, v in env.items() if k not in arrays}
    for expression in (calls.MIXED + calls.LINALG)[part::8]:
        if VALUE_DEPENDENT.search(expression):
            continue
        used = {k: v for k, v in arrays.items() if re.search(rf"\b{k}\b", expression)}
        eager = evaluate(expression, env)
        traced = pyjax.jit(lambda d: evaluate(expression, {**rest, **d}))(used)  # noqa: B023
        for a, b in zip(eager, traced, strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), expression
            tolerance = TOLERANCE.get(a.dtype.name, 1e-5)
            np.testing.assert_allclose(
                a.astype(np.complex128),
                b.astype(np.complex128),
                rtol=tolerance,
                atol=tolerance,
                err_msg=expression,
            )


@pytest.mark.parametrize("name, text", calls.GRADIENTS, ids=[t for _, t in calls.GRADIENTS])
def test_gradient_matches_reference(name: str, text: str, env: dict[str, Any]) -> None:
    got = np.asarray(calls.gradient(pyjax, name, text, env)).ravel()
    want = np.array(FACTS[f"gradient of {text} at {name}"])
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


# Functions of one array, under vmap against one call per row.
VMAPPED = [
    "q[1]",
    "q[::-1]",
    "q[k]",
    "q[v[:2]]",
    "q.at[0].set(9)",
    "q.at[v[:2]].add(1)",
    "q.at[k].get()",
    "jnp.sort(q)",
    "jnp.argsort(q)",
    "jnp.median(q)",
    "jnp.quantile(q, 0.3)",
    "jnp.cumsum(q)",
    "jnp.argmax(q)",
    "jnp.roll(q, k)",
    "jnp.where(q > 0, q, 1)",
    "jnp.searchsorted(s, q)",
    "jnp.interp(q, s, s)",
    "jnp.pad(q, 1)",
    "jnp.einsum('i,j->ij', q, s)",
    "q @ q",
    "jnp.outer(q, s)",
    "jnp.nonzero(q, size=2)",
    "jnp.unique(q, size=3)",
    "jnp.histogram(q, bins=3)[0]",
    "jnp.repeat(q, v[:3] % 3, total_repeat_length=5)",
    "jnp.take(q, v, mode='clip')",
    "jnp.diff(q)",
    "jnp.convolve(q, s)",
    "jnp.polyval(q, 2.0)",
    "jnp.var(q)",
    "jnp.linspace(q, 1, 3)",
    "jnp.linalg.norm(q)",
    "jnp.fft.rfft(q)",
    "jnp.diag(q)",
    "jnp.bincount(v, weights=s[k] * q[k] * v, length=4)",
    "jnp.take_along_axis(q, jnp.argsort(q), 0)",
    "jnp.nanmean(q)",
    "jnp.clip(q, 0, 1)",
]


@pytest.mark.parametrize("text", VMAPPED)
def test_vmap_equals_rows(text: str, env: dict[str, Any]) -> None:
    rows = env["x"]

    def function(q: Any) -> Any:
        return eval(text, {**env, "q": q})

    batched = calls.leaves(pyjax.vmap(function)(rows))
    single = [calls.leaves(function(rows[i])) for i in range(rows.shape[0])]
    for position, got in enumerate(batched):
        want = np.stack([np.asarray(r[position]) for r in single])
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)
