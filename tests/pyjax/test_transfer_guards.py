"""Transfer guards: what blocks and options say together, messages, and what is no transfer. Each
level and direction is a row of `tests/config/effects/devices.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pyjax._config.registry import Source, all_options

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.errors import JaxRuntimeError
from pyjax.runtime.transfers import armed
from tests.threads import together

X = jnp.arange(4.0)
N = np.arange(4.0, dtype=np.float32)


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    for option in all_options().values():
        option.clear(Source.UPDATE)


def refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except JaxRuntimeError as error:
        assert "Disallowed host-to-device transfer" in str(error)
        return True
    return False


IMPLICIT = [
    lambda: X + N,
    lambda: N * X,
    lambda: X + 1.0,
    lambda: jnp.add(X, N),
    lambda: jnp.sin(1.0),
    lambda: jnp.sum(N),
    lambda: pyjax.jit(lambda x: x)(N),
    lambda: pyjax.jit(lambda x: x)(2),
    lambda: pyjax.jit(lambda t: t["a"])({"a": [N]}),
    lambda: lax.add(X, N),
    lambda: jnp.asarray(N),
    lambda: jnp.array(N),
    lambda: jnp.array([1.0, 2.0]),
    lambda: jnp.asarray(N, device=pyjax.devices()[0]),
    lambda: X[N.astype(int)],
    lambda: X.at[0].set(1.0),
    lambda: jnp.where(X > X, X, 0.0),
    lambda: pyjax.random.key(7),
    lambda: pyjax.jit(lambda x: x).lower(X).compile()(N),
]
NONE = [
    lambda: X + X,
    lambda: X[1],
    lambda: X[-1],
    lambda: jnp.arange(600.0)[500],
    lambda: X[1:3],
    lambda: X**2,
    lambda: X.sum(),
    lambda: pyjax.jit(lambda x: x + N)(X),
    lambda: pyjax.grad(lambda x: (x * x).sum())(X),
    lambda: lax.scan(lambda c, x: (c + x, N), X[0], X),
    lambda: (float(X[0]), int(X[0]), bool(X[0]), X.tolist(), repr(X), np.asarray(X), list(X)),
    lambda: (X.copy(), pyjax.device_get(X), X.block_until_ready()),
    lambda: pyjax.pure_callback(np.sin, pyjax.ShapeDtypeStruct((4,), np.float32), X),
]


@pytest.mark.parametrize("call", IMPLICIT)
def test_implicit_transfers(call: Callable[[], Any]) -> None:
    call()
    for level in ("disallow", "disallow_explicit"):
        with pyjax.transfer_guard_host_to_device(level):
            assert refused(call)
    with pyjax.transfer_guard_device_to_host("disallow_explicit"):
        assert not refused(call)


@pytest.mark.parametrize("call", NONE)
def test_what_is_no_transfer(call: Callable[[], Any]) -> None:
    with pyjax.transfer_guard("disallow_explicit"):
        assert not refused(call)


def test_explicit_transfers() -> None:
    for put in (
        lambda: pyjax.device_put(N),
        lambda: pyjax.device_put({"a": [N, 1.0]}, pyjax.devices()[0]),
    ):
        with pyjax.transfer_guard("disallow"):
            assert not refused(put)
        with pyjax.transfer_guard("disallow_explicit"):
            assert refused(put)


def test_the_innermost_block_holds_and_then_the_direction_before_all() -> None:
    move = IMPLICIT[0]
    guard, to_device = pyjax.transfer_guard, pyjax.transfer_guard_host_to_device
    with guard("disallow"):
        with to_device("allow"):
            assert not refused(move)
            with guard("disallow"):
                assert refused(move)
        assert refused(move)
    pyjax.config.update("jax_transfer_guard", "disallow")
    assert refused(move)
    with guard("allow"):
        assert not refused(move)
    pyjax.config.update("jax_transfer_guard_host_to_device", "allow")
    assert not refused(move)
    with guard("disallow"):
        assert refused(move)


def test_a_block_is_its_threads() -> None:
    with pyjax.transfer_guard("disallow"):
        assert together(lambda: refused(IMPLICIT[0])) == [False]
        assert refused(IMPLICIT[0])


def test_without_guards_nothing_is_asked() -> None:
    pyjax.compilation_barrier()  # what waits for LLVM has the blocks of its caller
    assert not armed
    with pyjax.transfer_guard("disallow"):
        assert armed
    assert not armed
    for level, expected in (("log", True), ("allow", False), ("disallow", True), (None, False)):
        pyjax.config.update("jax_transfer_guard_host_to_device", level)
        assert bool(armed) == expected


def test_a_guard_compiles_nothing_anew() -> None:
    f = pyjax.jit(lambda x: x + 1)
    f(X)
    with pyjax.transfer_guard("disallow"):
        f(X)
    assert f._cache_size() == 1


def test_messages_say_what_to_write() -> None:
    with pyjax.transfer_guard("disallow"):
        with pytest.raises(JaxRuntimeError) as error:
            X + N
    text = str(error.value)
    assert text.startswith("Disallowed host-to-device transfer: float32[4] to cpu:0\n")
    assert "test_transfer_guards.py" in text and "X + N" in text
    assert "implicit" in text and "'disallow'" in text and "pyjax.device_put(x)" in text
    with pytest.raises(ValueError, match=r"'never' for option jax_transfer_guard.*_explicit'"):
        pyjax.transfer_guard("never")


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        with pyjax.transfer_guard("log"):
            X + N
            pyjax.device_put(N)
            X + X
        (record,) = caplog.records
        text = record.getMessage()
        assert "host-to-device transfer of float32[4] to cpu:0 (implicit)" in text
        assert "test_transfer_guards.py" in text
