"""Python functions that write the buffers of programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.errors import JaxRuntimeError
from pyjax.experimental.buffer_callback import (
    Buffer,
    ExecutionContext,
    ExecutionStage,
    buffer_callback,
)

THREE = pyjax.ShapeDtypeStruct((3,), np.float32)
X = jnp.arange(3.0)


def add_one(context: Any, out: Any, x: Any) -> None:
    np.asarray(out)[...] = np.asarray(x) + 1


def test_results() -> None:
    f = buffer_callback(add_one, THREE)
    for run in (f, pyjax.jit(f), pyjax.jit(lambda x: f(x * 1.0) * 1.0)):
        assert run(X).tolist() == [1, 2, 3]


def test_trees() -> None:
    def fill(context: Any, out: Any, pair: Any, *, scale: Any) -> None:
        np.asarray(out["sum"])[...] = np.asarray(pair[0]) + np.asarray(pair[1])
        np.asarray(out["scaled"])[...] = np.asarray(pair[0]) * np.asarray(scale)

    f = buffer_callback(fill, {"sum": THREE, "scaled": THREE})
    found = pyjax.jit(f)((X, X + 1), scale=2.0)
    assert found["sum"].tolist() == [1, 3, 5] and found["scaled"].tolist() == [0, 2, 4]


def test_what_a_callback_sees() -> None:
    seen: list[Any] = []

    def look(context: Any, out: Any, x: Any) -> None:
        assert isinstance(out, Buffer) and isinstance(x, Buffer)
        assert isinstance(context, ExecutionContext)
        seen.append((context.stage, x.shape, x.dtype, x.ndim, x.writeable, out.writeable))
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[0] = 1
        with pytest.raises(NotImplementedError, match="there is no stream"):
            _ = context.stream
        np.from_dlpack(out)[...] = np.array(x, np.float64)
        assert out.__dlpack_device__() == (1, 0)
        assert not hasattr(out, "__cuda_array_interface__")

    assert buffer_callback(look, THREE)(X).tolist() == X.tolist()
    assert seen == [(ExecutionStage.EXECUTE, (3,), np.float32, 1, False, True)]


def test_aliases() -> None:
    def add_to_itself(context: Any, out: Any, x: Any) -> None:
        np.asarray(out)[...] += 1

    f = buffer_callback(add_to_itself, THREE, input_output_aliases={0: 0})
    assert pyjax.jit(f)(X).tolist() == [1, 2, 3]
    assert X.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("aliases", "why"),
    [
        ({1: 0}, r"'1:0'.*input index 1 is outside the range \[0, 1\)"),
        ({0: 1}, r"'0:1'.*output index 1 is outside the range \[0, 1\)"),
        ({-1: 0}, r"'-1:0'.*input index -1 is outside"),
    ],
)
def test_positions_of_aliases(aliases: dict, why: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)input_output_aliases contains the mapping {why}"):
        buffer_callback(add_one, THREE, input_output_aliases=aliases)(X)


def test_types_of_aliases() -> None:
    with pytest.raises(
        ValueError, match=r"(?s)float32\[4\] and the output has a different abstract"
    ):
        buffer_callback(add_one, THREE, input_output_aliases={0: 0})(jnp.ones(4))


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [(3,), (3,)]),
        ("expand_dims", [(2, 3)]),
        ("broadcast_all", [(2, 3)]),
    ],
)
def test_vmap(method: str, shapes: list) -> None:
    seen = []

    def add(context: Any, out: Any, x: Any, y: Any) -> None:
        seen.append(x.shape)
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    f = buffer_callback(add, THREE, vmap_method=method)
    found = pyjax.vmap(f, in_axes=(0, None))(jnp.stack([X, X + 1]), X)
    assert found.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert seen == shapes


def test_vmap_without_a_method() -> None:
    with pytest.raises(NotImplementedError, match=r"buffer_callback primitive when `vmap_method`"):
        pyjax.vmap(buffer_callback(add_one, THREE))(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        buffer_callback(add_one, THREE, vmap_method="up")


def test_gradients() -> None:
    f = buffer_callback(add_one, THREE)
    with pytest.raises(ValueError, match="Buffer callbacks do not support JVP"):
        pyjax.grad(lambda x: f(x).sum())(X)


def test_callbacks_return_nothing() -> None:
    f = buffer_callback(lambda context, out, x: 3, THREE)
    with pytest.raises(JaxRuntimeError, match="callback must not return any values"):
        f(X)


def test_exceptions() -> None:
    def broken(context: Any, out: Any, x: Any) -> None:
        raise KeyError("lost")

    with pytest.raises(JaxRuntimeError, match=r"(?s)callback broken.*KeyError: 'lost'"):
        pyjax.jit(buffer_callback(broken, THREE))(X)


@pytest.mark.parametrize(("effect", "calls"), [(False, 0), (True, 1)])
def test_side_effects(effect: bool, calls: int) -> None:
    seen = []

    def note(context: Any, out: Any, x: Any) -> None:
        seen.append(1)

    f = buffer_callback(note, THREE, has_side_effect=effect)

    @pyjax.jit
    def g(x: Any) -> Any:
        f(x)
        return x + 1

    g(X).block_until_ready()
    assert len(seen) == calls


@pytest.mark.parametrize("effect", [False, True])
def test_the_search_for_nans_does_not_repeat_calls(effect: bool) -> None:
    seen = []

    def note(context: Any, out: Any, x: Any) -> None:
        seen.append(1)
        np.asarray(out)[...] = np.asarray(x) - 5

    f = buffer_callback(note, THREE, has_side_effect=effect)
    with (
        pyjax.debug_nans(True),
        pytest.raises(FloatingPointError, match=r"jnp\.log\(f\(x\)\)"),
    ):
        pyjax.jit(lambda x: jnp.log(f(x)) + 1)(X)
    assert len(seen) == 1 if effect else len(seen) <= 2


def test_programs_with_calls_are_not_exported() -> None:
    with pytest.raises(NotImplementedError, match="calls back into Python"):
        pyjax.export.export(pyjax.jit(buffer_callback(add_one, THREE)))(X)


def test_an_eager_call_of_the_same_callback_compiles_once():
    def double(context, out, x):
        np.asarray(out)[...] = np.asarray(x) * 2

    x = np.ones(3, np.float32)
    call = lambda: buffer_callback(double, x)(x).tolist()
    assert call() == [2] * 3
    with pyjax.assert_compiles(0):
        assert call() == [2] * 3
