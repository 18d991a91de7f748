"""Attributes of operations, as programs show them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.experimental.xla_metadata import set_xla_metadata


def attributes(f: Any, *args: Any) -> list[tuple[str, str]]:
    """Operations of StableHLO that have attributes, in the order of the program."""
    text = pyjax.jit(f).lower(*args).as_text()
    found = re.findall(r"stablehlo\.(\w+) [^\n]*frontend_attributes = \{([^}]*)\}", text)
    return [(name, values) for name, values in found if name != "constant"]


def within(**values: Any) -> Any:
    def f(x: Any) -> Any:
        with set_xla_metadata(**values):
            y = jnp.sin(x)
        return jnp.cos(y)

    return f


def nested(x: Any) -> Any:
    with set_xla_metadata(a=1, b=2):
        with set_xla_metadata(b=3, a=None):
            x = jnp.sin(x)
        return jnp.cos(x)


def looped(x: Any) -> Any:
    with set_xla_metadata(q=2):
        return pyjax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, 3)[0]


def of_a_library_function(x: Any) -> Any:
    with set_xla_metadata(k=3):
        return jnp.where(x > 0, x, 0.0)


# Attributes as JAX 0.10.2 writes them, but for calls and counters of loops.
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (within(a=1, b="two", c=True), [("sine", 'a = "1", b = "two", c = "true"')]),
        (within(a='say "x"'), [("sine", r'a = "say \22x\22"')]),
        (within(), []),
        (nested, [("sine", 'b = "3"'), ("cosine", 'a = "1", b = "2"')]),
        (lambda x: set_xla_metadata(jnp.sin(x), tag=1), [("sine", 'tag = "1"')]),
        (lambda x: set_xla_metadata(x, tag=1), []),
        (
            lambda x: set_xla_metadata(within(a=1)(x), a=2, b=None),
            [("sine", 'a = "1"'), ("cosine", 'a = "2", b = "None"')],
        ),
        (
            lambda x: set_xla_metadata(set_xla_metadata(jnp.sin(x), a=1), a=2, b=3),
            [("sine", 'a = "1", b = "3"')],
        ),
        (of_a_library_function, [("compare", 'k = "3"'), ("select", 'k = "3"')]),
        (
            pyjax.grad(within(q=1)),
            [("sine", 'q = "1"'), ("cosine", 'q = "1"'), ("multiply", 'q = "1"')],
        ),
        (pyjax.vmap(within(q=1), axis_size=2, in_axes=None), [("sine", 'q = "1"')]),
    ],
)
def test_attributes(f: Any, expected: list) -> None:
    assert attributes(f, 1.0) == expected


def test_bodies_of_loops() -> None:
    text = pyjax.jit(looped).lower(1.0).as_text()
    assert re.search(r'sine [^\n]*frontend_attributes = \{q = "2"\}', text)
    assert re.search(r'while\([^\n]*frontend_attributes = \{q = "2"\}', text)


def test_compiled_programs_keep_them() -> None:
    lowered = pyjax.jit(within(a=1)).lower(jnp.ones(3))
    assert 'sine(parameter), frontend_attributes={a="1"}' in lowered.as_text("hlo")
    compiled = lowered.compile()
    assert re.search(r'sine\([^)]*\), frontend_attributes=\{a="1"\}', compiled.as_text())
    np.testing.assert_allclose(compiled(jnp.ones(3)), np.cos(np.sin(np.ones(3))), rtol=1e-6)


def test_functions_are_traced_for_what_is_in_force() -> None:
    traced = []

    @pyjax.jit
    def f(x: Any) -> Any:
        traced.append(x)
        return jnp.sin(x)

    assert "frontend" not in f.lower(1.0).as_text()
    for _ in range(2):
        with set_xla_metadata(a=1):
            assert 'a = "1"' in f.lower(1.0).as_text()
    assert "frontend" not in f.lower(1.0).as_text()
    assert len(traced) == 2


def test_decorator() -> None:
    @set_xla_metadata(a=1)
    @pyjax.jit
    def double(x: Any) -> Any:
        """Twice."""
        return 2 * x

    assert (double.__name__, double.__doc__) == ("double", "Twice.")
    assert double(3.0) == 6.0
    assert 'a = "1"' in double.lower(1.0).as_text()
    assert pyjax.jit(double)(1.0) == 2.0
    with pytest.raises(AttributeError, match="nothing"):
        _ = double.nothing


def test_a_block_ends_with_an_exception() -> None:
    block = set_xla_metadata(a=1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), block:
            raise ZeroDivisionError
    assert attributes(jnp.sin, 1.0) == []


def test_values() -> None:
    given = {"x": 1.5, "y": (jnp.arange(3), pyjax.random.key(0))}
    marked = set_xla_metadata(given, a=1)
    assert isinstance(marked["x"], pyjax.Array) and marked["x"] == 1.5
    assert marked["y"][0].tolist() == [0, 1, 2]
    assert marked["y"][1] == given["y"][1]

    def f(x: Any) -> Any:
        return set_xla_metadata(jnp.sin(x), a=1)

    assert pyjax.grad(f)(0.0) == 1.0
    np.testing.assert_array_equal(pyjax.vmap(f)(jnp.zeros(3)), np.zeros(3))
    assert "xla_metadata_value[xla_metadata_kvs=(('a', '1'),)]" in str(pyjax.make_jaxpr(f)(1.0))
